"""FlattenBuffer: buffers of any rank → buffers of one dimension.

    A: (4, n) float32                        A: (4 * n,) float32
    A[i, j] = A[i, j] + 1.0          →       A[i * n + j] = A[i * n + j] + 1.0

Strides and element offsets go into the index. `buffer_map` keeps the original buffers, from which the entry
code is made; the flat ones are declared over their pointers. An index is computed in int64 unless the buffer
surely has fewer than 2**31 elements.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import Add, IntImm, Mul, PrimExpr
from heddle.prim.ops import add, cast, const, multiply, subtract
from heddle.runtime.dtype import DataType
from heddle.tir.allocation import num_elements
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, DeclBuffer, PrimFunc, seq
from heddle.tir.vector_algebra import vector_binary, vector_cast


class FlattenBuffer(FunctionPass):
    """Rewrite every buffer access to one index. Requires: no blocks."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        flattener = _Flattener()
        declared = [DeclBuffer(flat) for b in func.buffers if (flat := flattener.flat(b)) is not b]
        body = flattener.visit(func.body)
        return func.with_body(seq(*declared, body) if declared else body)


def is_flat(buffer: Buffer) -> bool:
    """Whether a buffer has one dimension, dense and from its start."""
    return len(buffer.shape) == 1 and not buffer.strides and buffer.elem_offset is None


class _Flattener(Rewriter):
    def __init__(self) -> None:
        self._flat: dict[Buffer, Buffer] = {}

    def flat(self, buffer: Buffer) -> Buffer:
        if is_flat(buffer):
            return buffer
        if buffer not in self._flat:
            self._flat[buffer] = Buffer(
                buffer.data, buffer.dtype, (_extent(buffer),), buffer.name, (), None, buffer.align_bytes
            )
        return self._flat[buffer]

    def visit_Buffer(self, node: Buffer) -> Buffer:
        return self.flat(node)

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        indices = tuple(self.visit(index) for index in node.indices)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        if is_flat(node.buffer):
            same = indices[0] is node.indices[0] and predicate is node.predicate
            return node if same else BufferLoad(node.buffer, indices, predicate)
        return BufferLoad(self.flat(node.buffer), (flat_index(node.buffer, indices),), predicate)

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        indices, value = tuple(self.visit(index) for index in node.indices), self.visit(node.value)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        if is_flat(node.buffer):
            same = indices[0] is node.indices[0] and value is node.value and predicate is node.predicate
            return node if same else BufferStore(node.buffer, value, indices, predicate)
        return BufferStore(self.flat(node.buffer), value, (flat_index(node.buffer, indices),), predicate)


def _extent(buffer: Buffer) -> PrimExpr:
    """Elements from the pointer to the end of the last one."""
    if not buffer.strides:
        extent = num_elements(buffer)
    else:
        extent = const(1, "int64")
        for dim, stride in zip(buffer.shape, buffer.strides, strict=True):
            extent = add(extent, multiply(cast("int64", subtract(dim, 1)), cast("int64", stride)))
    return extent if buffer.elem_offset is None else add(extent, buffer.elem_offset)


def flat_index(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    """offset + sum of index * stride; for dense buffers ((i0 * d1 + i1) * d2 + i2) ..."""
    extent = _extent(buffer)
    fits = isinstance(extent, IntImm) and extent.value < 2**31
    wide = DataType("int64") if not fits or any(i.dtype.bits > 32 for i in indices) else DataType("int32")
    terms = [vector_cast(wide, index) for index in indices]
    result: PrimExpr = const(0, wide)
    if buffer.strides:
        for term, stride in zip(terms, buffer.strides, strict=True):
            result = vector_binary(Add, result, vector_binary(Mul, term, cast(wide, stride)))
    else:
        for position, (term, dim) in enumerate(zip(terms, buffer.shape, strict=True)):
            scaled = vector_binary(Mul, result, cast(wide, dim)) if position else result
            result = vector_binary(Add, scaled, term)
    if buffer.elem_offset is not None:
        result = vector_binary(Add, result, cast(wide, buffer.elem_offset))
    return result
