"""Functions that are made of a module's, each once: those that hand on, those that go back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.ir.expr import Function, GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.type_data import Constructor
from heddle.relay.transform.eta_expand import wrapper
from heddle.relay.transform.to_a_normal_form import ToANormalFormExpr
from heddle.relay.typed import infer_expr
from heddle.support.diagnostics import Code, UsageError
from heddle.support.names import NameSupply


class DerivedFunctions:
    """What stands for the functions that a program uses, in its module under names that end in `suffix`."""

    def __init__(self, mod: IRModule, names: NameSupply, suffix: str, code: Code) -> None:
        self._mod, self._names, self._suffix, self._code = mod, names, suffix, code
        self._made: dict[tuple[str, str], GlobalVar] = {}
        self._waiting: list[tuple[GlobalVar, Function]] = []

    def of(self, callee: GlobalVar | Constructor) -> GlobalVar:
        """What stands for a function of the module, or for a constructor as a value; `finish` makes it.

        Raises: UsageError, of the code that was given, for what is no Relay function.
        """
        name = callee.name_hint
        key = (callee.belong_to.name_hint if isinstance(callee, Constructor) else "", name)
        if key not in self._made:
            func: Any = self._mod[callee] if isinstance(callee, GlobalVar) else wrapper(callee, self._mod)
            if not isinstance(func, Function):
                raise UsageError(self._code, f"@{name} is no Relay function", span=callee.span)
            made = self._made[key] = GlobalVar(self._names.fresh(f"{name}_{self._suffix}"))
            self._waiting.append((made, func))
        return self._made[key]

    def finish(self, make: Callable[[Function], Function]) -> None:
        """Make those that are waiting, and those that these use, of typed functions in A-normal form."""
        while self._waiting:
            var, func = self._waiting.pop()
            self._mod[var] = make(infer_expr(ToANormalFormExpr(func), self._mod, is_closed=True))
