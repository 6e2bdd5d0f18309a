"""What a temporary buffer is made of: its element type, and how far its rows lie apart."""

from __future__ import annotations

from heddle.arith import Analyzer
from heddle.prim.nodes import Cast, PrimExpr, constant
from heddle.prim.ops import cast, floormod, multiply
from heddle.tir.codes import T0408
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, SBlock, Stmt, decl_buffer
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.staging.access import AccessRewriter, Redirect, exchange_buffer
from heddle.tir.schedule.tree import find_block


def unsafe_set_dtype(func: PrimFunc, old: Buffer, dtype: str) -> PrimFunc:
    """B[i] = f(i);  C[i] = B[i]   →   B[i] = T.float16(f(i));  C[i] = T.float32(B[i])

    The temporary buffer holds elements of another type; values are converted at each access, so that they may
    lose digits. A load that is converted to that type anyway is not converted twice.
    """
    new = decl_buffer(old.shape, dtype, old.name, strides=old.strides, scope=old.scope)
    return exchange_buffer(func, old, new, lambda: _Convert(old, new))


class _Convert(AccessRewriter):
    """Accesses of another type's buffer, with conversions."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        super().__init__()
        self._old, self._new = old, new

    def load(self, node: BufferLoad) -> PrimExpr:
        if node.buffer is not self._old:
            return node
        return cast(node.dtype, BufferLoad(self._new, node.indices, node.predicate, span=node.span))

    def visit_Cast(self, node: Cast) -> PrimExpr:
        made: PrimExpr = self.default(node)
        value = node.value
        if isinstance(value, BufferLoad) and value.buffer is self._old and node.dtype == self._new.dtype:
            assert isinstance(made, Cast) and isinstance(made.value, Cast)
            return made.value.value
        return made

    def store(self, node: BufferStore) -> Stmt:
        if node.buffer is not self._old:
            return node
        value = cast(self._new.dtype, node.value)
        return BufferStore(self._new, value, node.indices, node.predicate, span=node.span)


def storage_align(
    func: PrimFunc, block_name: str, old: Buffer, axis: int, factor: int, offset: int
) -> PrimFunc:
    """alloc B (4, 30)   →   alloc B (4, 30) with strides (33, 1)      for axis 0, factor 32, offset 1

    Steps along `axis` of a temporary buffer are `offset` more than a multiple of `factor` elements, which
    spreads columns over memory banks. Elements keep their indices.
    """
    if not -old.ndim <= axis < old.ndim or factor <= 0 or old.strides:
        block: SBlock = find_block(func, block_name).stmt.block
        raise ScheduleError(
            T0408,
            f"buffer {old.name!r} of block {block_name!r} has {old.ndim} dense dimensions; expected one of "
            f"them and a positive factor, got axis {axis}, factor {factor}",
            func,
            block,
        )
    analyzer = Analyzer()
    strides: list[PrimExpr] = []
    step: PrimExpr = constant(1, old.shape[-1].dtype)
    for k in reversed(range(old.ndim)):
        if k == axis % old.ndim:
            step = analyzer.simplify(step + floormod(offset - step, factor))
        strides.insert(0, step)
        step = analyzer.simplify(multiply(step, old.shape[k]))
    new = decl_buffer(old.shape, old.dtype, old.name, strides=tuple(strides), scope=old.scope)
    return exchange_buffer(func, old, new, lambda: Redirect(old, new))
