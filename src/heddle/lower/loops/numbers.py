"""What loop functions over single numbers compute, as expressions: counters and conditions of loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.graph.core_ops import CALL_TIR
from heddle.graph.rewriter import is_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, Tuple, Var
from heddle.ir.module import IRModule
from heddle.lower.kernel_calls import callee_and_scalars
from heddle.prim.nodes import PrimExpr, is_const_int
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.ops import const
from heddle.prim.substitute import Substituter
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, SBlockRealize, statements
from heddle.tir.schedule.tree import root_block


class _NotKnown(Exception):
    """A number that no expression gives."""


class _Values(Substituter):
    def __init__(self, variables: dict[PrimVar, PrimExpr], buffers: dict[Buffer, PrimExpr]) -> None:
        super().__init__(variables)
        self._buffers = buffers

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        if node.buffer not in self._buffers or node.predicate is not None:
            raise _NotKnown
        return self._buffers[node.buffer]


def number_of(callee: PrimFunc, args: Sequence[PrimExpr], scalars: Sequence[PrimExpr]) -> PrimExpr | None:
    """What a loop function over tensors of rank 0 gives for these numbers; None for any other."""
    buffers = callee.buffers
    if len(args) != len(buffers) - 1 or any(buffer.ndim for buffer in buffers):
        return None
    values = dict(zip(buffers, args, strict=False))
    plain = [param for param in callee.params if param not in callee.buffer_map]
    reader = _Values(dict(zip(plain, scalars, strict=True)), values)
    for stmt in statements(root_block(callee).body):
        if not isinstance(stmt, SBlockRealize) or stmt.iter_values or not is_const_int(stmt.predicate, 1):
            return None
        store = stmt.block.body
        if not isinstance(store, BufferStore) or stmt.block.init is not None or store.predicate is not None:
            return None
        try:
            values[store.buffer] = reader.visit(store.value)
        except _NotKnown:
            return None
    return values.get(buffers[-1])


class Numbers:
    """The numbers that variables of a graph function hold, as far as `known` and loop functions over numbers
    give them. `value_of` tells what a variable is bound to."""

    def __init__(self, mod: IRModule, value_of: Callable[[Var], Expr | None]) -> None:
        self._mod, self._value_of = mod, value_of
        self.known: dict[Var, PrimExpr | None] = {}

    def of(self, leaf: Expr) -> PrimExpr | None:
        """The number that a tensor of rank 0 holds; None where it is not known."""
        if isinstance(leaf, Constant):
            array = leaf.data.numpy()
            is_number = array.ndim == 0 and array.dtype.kind in "iub"
            return const(array.item(), str(leaf.data.dtype)) if is_number else None
        if not isinstance(leaf, Var) or not isinstance(leaf.ty, TensorType) or leaf.ty.ndim:
            return None
        if leaf not in self.known:
            self.known[leaf] = None  # of what depends on itself nothing is known
            self.known[leaf] = self._computed(self._value_of(leaf))
        return self.known[leaf]

    def _computed(self, value: Expr | None) -> PrimExpr | None:
        found = callee_and_scalars(value) if isinstance(value, Call) and is_call(value, CALL_TIR) else None
        if found is None:
            return self.of(value) if isinstance(value, (Var, Constant)) else None
        assert isinstance(value, Call) and isinstance(value.args[1], Tuple)
        callee = self._mod[found[0]]
        args = [self.of(arg) for arg in value.args[1].fields]
        if not isinstance(callee, PrimFunc) or any(arg is None for arg in args):
            return None
        return number_of(callee, [arg for arg in args if arg is not None], found[1])
