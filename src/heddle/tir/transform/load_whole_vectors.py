"""LoadWholeVectors: vectors all of whose lanes lie within their bounds are loaded without a mask.

    mask = 1 <= ramp(j, 1, 8) and ramp(j, 1, 8) < n
    A[ramp(i, 1, 8)] = select(mask, B[ramp(j, 1, 8)] where mask, 0)

becomes

    if 1 <= j and j + 7 < n:
        A[ramp(i, 1, 8)] = B[ramp(j, 1, 8)]
    else:
        A[ramp(i, 1, 8)] = select(mask, B[ramp(j, 1, 8)] where mask, 0)

For processors whose masks are vectors of integers: each bound takes several instructions there, and it takes
more to bring them together, where of a row most vectors are whole.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk
from heddle.prim import ops
from heddle.prim.nodes import GE, GT, LE, LT, And, Broadcast, PrimExpr, Ramp, Select, is_const_int
from heddle.support.frozen import frozen
from heddle.tir.nodes import BufferLoad, BufferStore, IfThenElse, PrimFunc
from heddle.tir.stmt_rewriter import StmtRewriter


@frozen
class LoadWholeVectors(FunctionPass):
    """`has_masks`: the target has registers of masks, and nothing changes."""

    has_masks: bool = False
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func if self.has_masks else func.with_body(_Splitter().visit(func.body))


class _Splitter(StmtRewriter):
    def visit_BufferStore(self, node: BufferStore) -> Any:
        bounds: list[PrimExpr] = []
        value = node.value
        while isinstance(value, Select):
            whole = _of_all_lanes(value.condition)
            if whole is None or _loads(value.false_value):
                return node
            bounds += whole
            value = value.true_value
        whole = _Unmasked(bounds).visit(value)
        if not bounds or whole is value:
            return node
        return IfThenElse(ops.all(*bounds), replace(node, value=whole), node)


class _Unmasked(Rewriter):
    """Loads without the masks that known conditions make true."""

    def __init__(self, known: list[PrimExpr]) -> None:
        self._known = known

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        bounds = None if node.predicate is None else _of_all_lanes(node.predicate)
        if bounds is None or not all(map(self._is_known, bounds)):
            return node
        return replace(node, predicate=None)

    def _is_known(self, bound: PrimExpr) -> bool:
        return any(structural_equal(bound, known) for known in self._known)


def _loads(value: PrimExpr) -> bool:
    return any(isinstance(part, BufferLoad) for part in walk(value))


def _of_all_lanes(condition: PrimExpr) -> list[PrimExpr] | None:
    """Conditions that hold together where one of vectors holds in all lanes; None where it is no bound on
    what rises from lane to lane. Such a bound holds in all lanes where it holds in the one next to it."""
    if condition.dtype.lanes == 1:
        return [condition]
    if isinstance(condition, Broadcast):
        return [condition.value]
    if isinstance(condition, And):
        parts = (_of_all_lanes(condition.a), _of_all_lanes(condition.b))
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    if not isinstance(condition, (LT, LE, GT, GE)):
        return None
    a, b = _ends(condition.a), _ends(condition.b)
    if a is None or b is None:
        return None
    rises = isinstance(condition.a, Ramp) - isinstance(condition.b, Ramp)
    lane = 1 if rises * (1 if isinstance(condition, (LT, LE)) else -1) > 0 else 0
    return [type(condition)(a[lane], b[lane])]


def _ends(side: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
    """The first lane and the last of a vector that rises by one from lane to lane, or is the same in all."""
    if isinstance(side, Broadcast):
        return side.value, side.value
    if isinstance(side, Ramp) and is_const_int(side.stride, 1):
        return side.base, side.base + (side.lanes - 1)
    return None
