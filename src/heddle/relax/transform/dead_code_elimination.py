"""DeadCodeElimination: remove unused bindings without side effects, and functions that are never called.

y = R.add(x, x)
z = R.multiply(x, x)       →       z = R.multiply(x, x)
return z                           return z
"""

from __future__ import annotations

from typing import Any

from heddle.graph.nodes import Binding, BindingBlock, MatchCast, SeqExpr
from heddle.graph.normalize import is_impure_call, is_unknown_call, known_functions
from heddle.graph.rewriter import is_call
from heddle.ir.call_graph import reachable, with_functions_of
from heddle.ir.expr import Call, Expr, Function, If, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext, map_functions
from heddle.ir.visitor import walk_distinct
from heddle.support.frozen import frozen


@frozen(slots=False)
class DeadCodeElimination(Pass):
    """Functions with a global_symbol can be called from outside. They are kept with all functions that they
    call, and so are `entry_functions`, which may be private. A call of an unknown function (such as a
    parameter) is kept even if its type says that it is pure, because this is not checked. `keep_packed_calls`
    keeps calls of packed functions, even of those that the program declares pure.

    Raises: what `IRModule.get_global_var` raises for an entry function that the module lacks.
    """

    entry_functions: tuple[str, ...] | None = None
    keep_packed_calls: bool = False

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        mod = map_functions(
            mod, ("relax",), lambda _var, func: remove_unused_bindings(func, mod, self.keep_packed_calls)
        )
        entries = [var for var, func in mod.functions.items() if "global_symbol" in func.attrs]
        entries += [mod.get_global_var(name) for name in self.entry_functions or ()]
        live = reachable(mod, entries)
        return with_functions_of(mod, live)


def remove_unused_bindings(func: Function, mod: IRModule, keep_packed_calls: bool = False) -> Function:
    """The function without bindings that nothing needs; the same object where all are needed."""
    body = _Cleaner(mod, keep_packed_calls, known_functions(func)).sequence(func.body)
    return func if body is func.body else replace(func, body=body)


def _variables(expr: Expr) -> list[Var]:
    return [node for node in walk_distinct(expr) if isinstance(node, Var)]


class _Cleaner:
    """Drops what nothing needs from a function's body, its branches and its local functions."""

    def __init__(self, mod: IRModule, keep_packed: bool, known: set[Var]) -> None:
        self._mod, self._keep_packed, self._known = mod, keep_packed, known

    def sequence(self, body: Any) -> Any:
        assert isinstance(body, SeqExpr)
        needed = set(_variables(body.body))
        blocks: list[BindingBlock] = []
        changed = False
        for block in reversed(body.blocks):
            kept: list[Binding] = []
            for binding in reversed(block.bindings):
                if binding.var not in needed and self._is_droppable(binding):
                    changed = True
                    continue
                cleaned = self._inside(binding)
                changed = changed or cleaned is not binding
                needed.update(_variables(cleaned.value))
                kept.append(cleaned)
            if kept:
                blocks.append(
                    block
                    if len(kept) == len(block.bindings) and not changed
                    else replace(block, bindings=tuple(reversed(kept)))
                )
        return replace(body, blocks=tuple(reversed(blocks))) if changed else body

    def _inside(self, binding: Binding) -> Binding:
        value = binding.value
        if isinstance(value, If):
            true, false = value.true_branch, value.false_branch
            branches = self.sequence(true), self.sequence(false)
            if branches[0] is true and branches[1] is false:
                return binding
            return replace(binding, value=replace(value, true_branch=branches[0], false_branch=branches[1]))
        if isinstance(value, Function):
            body = self.sequence(value.body)
            return binding if body is value.body else replace(binding, value=replace(value, body=body))
        return binding

    def _is_droppable(self, binding: Binding) -> bool:
        """A match_cast may fail and binds dimensions, so it stays; so does whatever has an effect."""
        if isinstance(binding, MatchCast):
            return False
        nodes = walk_distinct(binding.value) if isinstance(binding.value, If) else (binding.value,)
        return not any(self._has_effect(node) for node in nodes if isinstance(node, Call))

    def _has_effect(self, call: Call) -> bool:
        if is_impure_call(call, self._mod) or is_unknown_call(call, self._known):
            return True
        return self._keep_packed and is_call(call, "relax.call_pure_packed")
