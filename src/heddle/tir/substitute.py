"""Replacing variables and buffers in statements. Buffers whose shape or pointer mention a replaced variable
are made anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from heddle.prim.nodes import PrimExpr, Var
from heddle.prim.substitute import Substituter
from heddle.tir.nodes import Buffer, BufferLoad


class StmtSubstituter(Substituter):
    """Replaces variables, and buffers by `buffers` or because their own expressions change."""

    def __init__(
        self,
        variables: Mapping[Var, PrimExpr] | Callable[[Var], PrimExpr | None],
        buffers: Mapping[Buffer, Buffer] | None = None,
    ) -> None:
        super().__init__(variables)
        self.buffers: dict[Buffer, Buffer] = dict(buffers or {})

    def buffer(self, old: Buffer) -> Buffer:
        """The buffer to use in the place of another; the same one while nothing in it changes."""
        if old not in self.buffers:
            self.buffers[old] = self._rebuild(old)
        return self.buffers[old]

    def _rebuild(self, old: Buffer) -> Buffer:
        data = self._lookup(old.data)
        shape = tuple(self.visit(dim) for dim in old.shape)
        strides = tuple(self.visit(stride) for stride in old.strides)
        offset = None if old.elem_offset is None else self.visit(old.elem_offset)
        pairs = zip((*shape, *strides, offset), (*old.shape, *old.strides, old.elem_offset), strict=True)
        if data is None and all(a is b for a, b in pairs):
            return old
        pointer = data if isinstance(data, Var) else old.data
        return Buffer(pointer, old.dtype, shape, old.name, strides, offset, old.align_bytes, span=old.span)

    def visit_Buffer(self, node: Buffer) -> Buffer:
        return self.buffer(node)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        buffer, indices = self.buffer(node.buffer), tuple(self.visit(i) for i in node.indices)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        same = all(a is b for a, b in zip(indices, node.indices, strict=True))
        if buffer is node.buffer and same and predicate is node.predicate:
            return node
        return BufferLoad(buffer, indices, predicate, span=node.span)


def substitute_stmt(
    stmt: Any, variables: Mapping[Var, PrimExpr], buffers: Mapping[Buffer, Buffer] | None = None
) -> Any:
    """A statement (or expression) with variables and buffers replaced."""
    return StmtSubstituter(variables, buffers).visit(stmt) if variables or buffers else stmt


def replace_buffers(stmt: Any, buffers: Mapping[Buffer, Buffer]) -> Any:
    """A statement with buffers replaced, and their pointers with them."""
    pointers = {old.data: new.data for old, new in buffers.items() if old.data is not new.data}
    return StmtSubstituter(pointers, buffers).visit(stmt)
