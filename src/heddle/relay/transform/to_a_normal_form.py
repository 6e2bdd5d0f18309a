"""Every value with a name: programs as sequences of lets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from heddle.ir.expr import Constant, Expr, Function, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.ir.transform import Pass, PassContext
from heddle.ir.type_data import Constructor
from heddle.relay.nodes import Let
from heddle.relay.placement import Placement, Scope, parts, with_own_recursions
from heddle.relay.transform.copying import map_parts
from heddle.relay.transform.rewriting import map_relay
from heddle.support.frozen import frozen
from heddle.support.trampoline import Recursion, run

PRIMITIVE = "Primitive"
"""The attribute of a function that is one kernel: its body is left as it is."""


@frozen
class ToANormalForm(Pass):
    """Bind each value to a variable, in the innermost function, branch or clause around all its uses.

        fn (%x: float32) { tanh(%x + 1f) }

    becomes

        fn (%x: float32) { let %x1 = %x + 1f; let %x2 = tanh(%x1); %x2 }

    Variables, globals, constants, operators, constructors and functions with the attribute `Primitive` stand
    where they are used. Lets where a value is expected move out. Values are computed in the order of before.
    A function that has this form stays the same object.
    """

    opt_level = 1

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return map_relay(mod, ToANormalFormExpr)


def ToANormalFormExpr(e: Any) -> Any:
    """An expression in A-normal form; the same object where it has that form."""
    return formed(with_own_recursions(e))


def formed(expr: Any, named: Collection[int] | None = None) -> Any:
    """An expression with variables for those of its parts that have these identities; for all, where it is
    None."""
    former = _Former(expr, named)
    return run(former.value(expr) if isinstance(expr, Function) else former.scope(expr, former.root))


def is_atomic(expr: Any) -> bool:
    """Whether an expression stands where it is used."""
    if isinstance(expr, Function):
        return bool(expr.attrs.get(PRIMITIVE))
    return isinstance(expr, (Var, GlobalVar, Constant, Op, Constructor))


@dataclass(slots=True)
class _Line:
    """A let without its body. `old` is the let of the program that it comes from."""

    var: Var
    value: Any
    old: Let | None = None


class _Former:
    """Makes the lets of one program."""

    def __init__(self, root: Any, named: Collection[int] | None = None) -> None:
        """`named` are the identities of the expressions that get variables, None for all."""
        self._placed = Placement(root)
        self._named = named
        self.root = self._placed.root
        self._lines: dict[int, list[_Line]] = {}
        """The lets of the scopes in progress, by the identity of the scope."""
        self._atoms: dict[int, Expr] = {}
        """What stands for the expressions that were seen, by identity."""

    def scope(self, expr: Any, scope: Scope) -> Recursion:
        """A body or branch: lets, then what it gives."""
        lines = self._lines[id(scope)] = []
        found = yield self._sequence(expr)
        for line in reversed(lines):
            old = line.old
            if old is not None and old.value is line.value and old.body is found:
                found = old
            else:
                found = Let(line.var, line.value, found, span=line.value.span)
        return found

    def _sequence(self, expr: Any) -> Recursion:
        """Write lets as lines of their scope; gives what stands for the result."""
        while isinstance(expr, Let) and self._placed.is_statement(expr):
            yield self._let(expr)
            expr = expr.body
        return (yield self.atom(expr))

    def _let(self, expr: Let) -> Recursion:
        value, here = expr.value, self._home(expr)
        while isinstance(value, Let) and self._placed.uses[id(value)] <= 1:
            self._open(value)
            yield self._let(value)
            value = value.body
        is_first = not is_atomic(value) and not isinstance(value, Let) and id(value) not in self._atoms
        if is_first and self._home(value) is here:
            made = yield self.value(value)
            self._atoms[id(value)] = expr.var
        else:
            made = yield self.atom(value)
        here.append(_Line(expr.var, made, expr))

    def _home(self, expr: Any) -> list[_Line]:
        return self._lines[id(self._placed.home[id(expr)])]

    def _open(self, expr: Let) -> None:
        """A let where a value is expected: its lines are those of the scope around it. One in the body of
        such a let is a line of the same scope."""
        scope = self._placed.inner.get((id(expr), 0))
        if scope is not None:
            self._lines[id(scope)] = self._home(expr)

    def atom(self, expr: Any) -> Recursion:
        """What stands for an expression where it is used."""
        if is_atomic(expr):
            return expr
        if id(expr) not in self._atoms:
            if isinstance(expr, Let):
                self._open(expr)
                yield self._let(expr)
                found = yield self._sequence(expr.body)
            else:
                found = value = yield self.value(expr)
                if self._named is None or id(expr) in self._named:
                    found = Var("x", dialect="relay")
                    self._home(expr).append(_Line(found, value))
            self._atoms[id(expr)] = found
        return self._atoms[id(expr)]

    def value(self, expr: Any) -> Recursion:
        """An expression whose parts are atoms and sequences; the same object where they were."""
        if is_atomic(expr):
            return expr
        made: dict[int, Any] = {}
        for child, number in parts(expr):
            if number is None:
                made[id(child)] = yield self.atom(child)
            else:
                made[id(child)] = yield self.scope(child, self._placed.inner[id(expr), number])
        return map_parts(expr, lambda child: made.get(id(child), child))
