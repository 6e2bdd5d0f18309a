"""MoveWholeVectors: vectors all of whose lanes lie within their bounds are loaded and stored without a mask.

    mask = 1 <= ramp(j, 1, 8) and ramp(j, 1, 8) < n
    A[ramp(i, 1, 8)] = select(mask, B[ramp(j, 1, 8)] where mask, 0)
    C[ramp(j, 1, 8) where ramp(j, 1, 8) < n] = D[ramp(j, 1, 8) where ramp(j, 1, 8) < n]

becomes

    if 1 <= j and j + 7 < n:
        A[ramp(i, 1, 8)] = B[ramp(j, 1, 8)]
    else:
        A[ramp(i, 1, 8)] = select(mask, B[ramp(j, 1, 8)] where mask, 0)
    if j + 7 < n:
        C[ramp(j, 1, 8)] = D[ramp(j, 1, 8)]
    else:
        C[ramp(j, 1, 8) where ramp(j, 1, 8) < n] = D[ramp(j, 1, 8) where ramp(j, 1, 8) < n]

For processors whose masks are vectors of integers: each bound takes several instructions there, and it takes
more to bring them together, where of a row most vectors are whole. A store under a mask takes Zen 3 six
nanoseconds; others take it apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk
from heddle.prim import ops
from heddle.prim.nodes import GE, GT, LE, LT, And, Broadcast, Call, PrimExpr, Ramp, Select, Var, is_const_int
from heddle.support.frozen import frozen
from heddle.tir.nodes import Bind, BufferLoad, BufferStore, IfThenElse, PrimFunc, seq
from heddle.tir.stmt_rewriter import StmtRewriter

MAX_TWICE = 32
"""Nodes of a value that is rather written out for both cases than computed before it is asked which one it
is."""


@frozen
class MoveWholeVectors(FunctionPass):
    """`has_masks`: the target has registers of masks, and nothing changes."""

    has_masks: bool = False
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func if self.has_masks else func.with_body(_Splitter().visit(func.body))


class _Splitter(StmtRewriter):
    def __init__(self) -> None:
        self._masks: dict[Var, PrimExpr] = {}

    def visit_Bind(self, node: Bind) -> Any:
        if node.var.dtype.is_bool and node.var.dtype.lanes > 1:
            self._masks[node.var] = node.value
        return node

    def visit_IfThenElse(self, node: IfThenElse) -> Any:
        """Whether any lane is asked for is looked at where not all are."""
        made = self.default(node)
        whole = made.then_case
        is_store = isinstance(node.then_case, BufferStore) and node.else_case is None
        if not is_store or not isinstance(whole, IfThenElse) or not _asks_for_any(node.condition):
            return made
        return replace(whole, else_case=replace(node, then_case=whole.else_case))

    def visit_BufferStore(self, node: BufferStore) -> Any:
        asked = [] if node.predicate is None else self._of_all_lanes(node.predicate)
        if asked is None:
            return node
        bounds, value = list(asked), node.value
        while isinstance(value, Select):
            known = self._of_all_lanes(value.condition)
            if known is None or _loads(value.false_value):
                if node.predicate is None:
                    return node
                break
            bounds += known
            value = value.true_value
        whole = _Unmasked(self._of_all_lanes, bounds).visit(value)
        if not bounds or (node.predicate is None and whole is value):
            return node
        if node.predicate is None or sum(1 for _ in walk(node.value)) <= MAX_TWICE:
            return IfThenElse(ops.all(*bounds), replace(node, value=whole, predicate=None), node)
        held = Var("whole", node.value.dtype)
        made = replace(node, value=held)
        whole_store = replace(made, predicate=None)
        return seq(Bind(held, node.value), IfThenElse(ops.all(*asked), whole_store, made))

    def _of_all_lanes(self, condition: PrimExpr) -> list[PrimExpr] | None:
        """Conditions that hold together where one of vectors holds in all lanes; None where it is no bound on
        what rises from lane to lane. Such a bound holds in all lanes where it holds in the one next to it."""
        if not condition.dtype.is_bool:
            return None
        if isinstance(condition, Var):
            known = self._masks.get(condition)
            return None if known is None else self._of_all_lanes(known)
        if condition.dtype.lanes == 1:
            return [condition]
        if isinstance(condition, Broadcast):
            return [condition.value]
        if isinstance(condition, And):
            parts = (self._of_all_lanes(condition.a), self._of_all_lanes(condition.b))
            return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
        if not isinstance(condition, (LT, LE, GT, GE)):
            return None
        a, b = _ends(condition.a), _ends(condition.b)
        if a is None or b is None:
            return None
        rises = isinstance(condition.a, Ramp) - isinstance(condition.b, Ramp)
        lane = 1 if rises * (1 if isinstance(condition, (LT, LE)) else -1) > 0 else 0
        return [type(condition)(a[lane], b[lane])]


class _Unmasked(Rewriter):
    """Loads without the masks that known conditions make true."""

    def __init__(
        self, of_all_lanes: Callable[[PrimExpr], list[PrimExpr] | None], known: list[PrimExpr]
    ) -> None:
        self._of_all_lanes, self._known = of_all_lanes, known

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        bounds = None if node.predicate is None else self._of_all_lanes(node.predicate)
        if bounds is None or not all(map(self._is_known, bounds)):
            return node
        return replace(node, predicate=None)

    def _is_known(self, bound: PrimExpr) -> bool:
        return any(structural_equal(bound, known) for known in self._known)


def _loads(value: PrimExpr) -> bool:
    return any(isinstance(part, BufferLoad) for part in walk(value))


def _asks_for_any(condition: PrimExpr) -> bool:
    return isinstance(condition, Call) and condition.op.name == "tir.any_lane"


def _ends(side: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
    """The first lane and the last of a vector that rises by one from lane to lane, or is the same in all."""
    if isinstance(side, Broadcast):
        return side.value, side.value
    if isinstance(side, Ramp) and is_const_int(side.stride, 1):
        return side.base, side.base + (side.lanes - 1)
    return None
