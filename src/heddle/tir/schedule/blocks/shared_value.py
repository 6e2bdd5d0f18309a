"""Values in the place of loads: what a stored value needs twice is computed once.

    C[i] = B[i] * exp(B[i]),  B[i] is f(A[i])   →   C[i] = let b = f(A[i]) in b * exp(b)

Copies would double with every step of a chain `t = t * sigmoid(t)`. A value that only branches need is bound
inside them, since its loads may lie outside of memory elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from heddle.ir.node import children, map_children
from heddle.ir.structural import structural_digest
from heddle.ir.visitor import walk
from heddle.prim.nodes import And, Call, Cast, FloatImm, IntImm, Let, Or, PrimExpr, Var
from heddle.prim.substitute import substitute
from heddle.tir.fresh_definitions import copy_var, with_fresh_definitions
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore
from heddle.tir.substitute import StmtSubstituter

ValueAt = Callable[[tuple[PrimExpr, ...]], PrimExpr]


class LoadReplacer(StmtSubstituter):
    """Replaces loads of a buffer by `value_at` their indices."""

    def __init__(
        self, buffer: Buffer, value_at: ValueAt, variables: Mapping[Var, PrimExpr] | None = None
    ) -> None:
        super().__init__(variables or {})
        self._buffer, self._value_at = buffer, value_at
        self._names: dict[bytes, tuple[Var, PrimExpr]] | None = None
        """In the value of a store, the name and value of each load met so far."""

    def visit_BufferStore(self, node: BufferStore) -> Any:
        self._names = {}
        value = self.visit(node.value)
        names, self._names = self._names.values(), None
        for var, loaded in names:
            value = _Binding(var, loaded).bind(value)
        indices = tuple(self.visit(index) for index in node.indices)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        same = all(a is b for a, b in zip(indices, node.indices, strict=True)) and value is node.value
        buffer = self.buffer(node.buffer)
        if same and predicate is node.predicate and buffer is node.buffer:
            return node
        return BufferStore(buffer, value, indices, predicate, span=node.span)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        names, self._names = self._names, None  # an index is no value: what it needs is copied
        try:
            if node.buffer is not self._buffer:
                return super().visit_BufferLoad(node)
            indices = tuple(self.visit(index) for index in node.indices)
        finally:
            self._names = names
        if names is None:
            return with_fresh_definitions(self._value_at(indices))
        key = structural_digest(indices)
        if key not in names:
            value = with_fresh_definitions(self._value_at(indices))
            names[key] = (Var(self._buffer.name, value.dtype), value)
        return names[key][0]

    def visit_BufferRegion(self, node: Any) -> Any:
        return node


class _Binding:
    """Puts a value in the places of a variable."""

    def __init__(self, var: Var, value: PrimExpr) -> None:
        self._var, self._value, self._is_used = var, value, False

    def bind(self, expr: Any) -> Any:
        uses = sum(1 for node in walk(expr) if node is self._var)
        if not uses:
            return expr
        if uses == 1 or _is_plain(self._value):
            return substitute(expr, {self._var: self._copy()})
        if not _always_needs(expr, self._var):
            return map_children(expr, self.bind)
        var = copy_var(self._var)
        return Let(var, self._copy(), substitute(expr, {self._var: var}), span=expr.span)

    def _copy(self) -> PrimExpr:
        """The value, with definitions of its own from the second time on."""
        first, self._is_used = not self._is_used, True
        return self._value if first else with_fresh_definitions(self._value)


def _is_plain(value: Any) -> bool:
    """Whether a value costs nothing to write twice: a load, a constant, or a cast of one."""
    if isinstance(value, Cast):
        return _is_plain(value.value)
    return isinstance(value, (BufferLoad, Var, IntImm, FloatImm))


def _always_needs(expr: Any, var: Var) -> bool:
    """Whether every evaluation of an expression evaluates a variable in it."""
    if expr is var:
        return True
    if isinstance(expr, Call) and expr.op.name == "tir.if_then_else":
        condition, on_true, on_false = (_always_needs(arg, var) for arg in expr.args)
        return condition or (on_true and on_false)
    if isinstance(expr, (And, Or)):
        return _always_needs(expr.a, var)
    return any(_always_needs(child, var) for child in children(expr))
