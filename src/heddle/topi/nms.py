"""Non-maximum suppression of boxes.

Candidates whose score is high enough are kept in a heap. The best one is popped as long as more boxes are
wanted, so candidates that are never visited are never sorted. The chosen boxes are stored by columns, so that
a box is compared with a vector of them at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from heddle import te
from heddle.prim.nodes import PrimExpr, Var, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import any as any_of
from heddle.prim.ops import cast, equal, floordiv, floormod, maximum, minimum, select
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import Buffer, ForKind, Stmt
from heddle.topi.loops import Cell
from heddle.topi.sorting import sink

AT_ONCE = 64
"""The number of chosen boxes that are compared before the comparison may stop."""
_COLUMNS = ("low_y", "low_x", "high_y", "high_x", "area")


def nms_boxes(
    boxes: te.Tensor,
    scores: te.Tensor,
    most: te.Tensor,
    overlap: te.Tensor,
    least: te.Tensor,
    groups: te.Tensor | None = None,
) -> te.Tensor:
    """Return the indices of the chosen boxes of each class by falling score, then -1: (batches, classes,
    boxes) int64.

    `boxes` (batches, boxes, 4) holds two corners per box, `scores` (batches, classes, boxes). A box is chosen
    if its score is above `least`, fewer than `most` boxes of its class have been chosen, and its IoU with
    each of these is at most `overlap`. With `groups` (batches, boxes), boxes of different groups never
    suppress each other. Among equal scores the first box wins.
    """
    given = [boxes, scores, most, overlap, least, *([] if groups is None else [groups])]

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        return _Suppression(inputs, outputs[0]).body()

    result: te.Tensor = te.extern(tuple(scores.shape), given, body, name="nms_boxes", dtype="int64")
    return result


class _Suppression:
    """Writes the loops. `waiting` is the heap of candidates; `columns` hold the corners and areas of the
    chosen boxes."""

    def __init__(self, inputs: Sequence[Buffer], result: Buffer) -> None:
        self.boxes, self.scores, self.most, self.overlap, self.least, *groups = inputs
        self.groups = groups[0] if groups else None
        self.result = result
        self.b = StmtBuilder()

    def body(self) -> Stmt:
        b = self.b
        batches, classes, size = self.scores.shape
        self.limit, self.reach = b.let("limit", self.most[()]), b.let("reach", self.overlap[()])
        some = maximum(classes, 1)
        with b.loop("task", batches * classes, ForKind.PARALLEL, {"grain": 1}) as task:
            self.batch, self.kind = b.let("batch", floordiv(task, some)), b.let("kind", floormod(task, some))
            self.waiting = b.alloc("waiting", (size,), "int64", "workspace")
            names = _COLUMNS if self.groups is None else (*_COLUMNS, "group")
            self.columns = [b.alloc(name, (size,), "float32", "workspace") for name in names]
            self.num_waiting, self.num_chosen = Cell.zero(b, "num_waiting"), Cell.zero(b, "num_chosen")
            self.hits, self.compared = Cell.zero(b, "hits", "int32"), Cell.zero(b, "compared")
            self.hole, self.first = Cell.zero(b, "hole"), Cell.zero(b, "first")
            self._gather(size)
            self._choose()
        return b.func("nms_boxes", ()).body

    def _score(self, box: PrimExpr) -> PrimExpr:
        score: PrimExpr = self.scores[self.batch, self.kind, box]
        return score

    # ---- the heap

    def _gather(self, size: PrimExpr) -> None:
        b, least = self.b, self.b.let("floor_score", self.least[()])
        with b.loop("i", size) as i:
            b.store(self.result, (self.batch, self.kind, i), constant(-1, "int64"))
            with b.when(self._score(i) > least):
                b.store(self.waiting, (self.num_waiting.get(),), i)
                b.emit(self.num_waiting.set(self.num_waiting.get() + 1))
        count = b.let("count", self.num_waiting.get())
        parents = b.let("parents", floordiv(count, 2))
        with b.loop("h", parents) as h:
            b.emit(self._sink(parents - 1 - h, count))

    def _sink(self, top: PrimExpr, end: PrimExpr) -> Stmt:
        return sink(self.waiting, top, end, self.hole, self.first, self._comes_before)

    def _comes_before(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Whether the box at position a of the heap precedes that at b. No score is NaN, because NaN is not
        above `least`."""
        first, second = self.waiting[a], self.waiting[b]
        own, other = self._score(first), self._score(second)
        return any_of(own > other, all_of(equal(own, other), first < second))

    def _next_box(self) -> Var:
        b = self.b
        box = b.let("box", self.waiting[0])
        rest = b.let("rest", self.num_waiting.get() - 1)
        b.emit(self.num_waiting.set(rest))
        b.store(self.waiting, (0,), self.waiting[rest])
        b.emit(self._sink(constant(0, "int64"), rest))
        return box

    # ---- the choice

    def _choose(self) -> None:
        b = self.b
        wanted = all_of(self.num_waiting.get() > 0, self.num_chosen.get() < self.limit)
        with b.repeat_while(wanted):
            box = self._next_box()
            own = self._sides(box)
            self._compare(own)
            with b.when(equal(self.hits.get(), 0)):
                place = b.let("place", self.num_chosen.get())
                b.store(self.result, (self.batch, self.kind, place), box)
                for column, value in zip(self.columns, own, strict=True):
                    b.store(column, (place,), value)
                b.emit(self.num_chosen.set(place + 1))

    def _sides(self, box: PrimExpr) -> list[Var]:
        """A box's sides and area, and its group, as in the columns."""
        b = self.b
        ends = [b.let(f"end{k}", self.boxes[self.batch, box, k]) for k in range(4)]
        low = [b.let(_COLUMNS[k], minimum(ends[k], ends[k + 2])) for k in (0, 1)]
        high = [b.let(_COLUMNS[k + 2], maximum(ends[k], ends[k + 2])) for k in (0, 1)]
        sides = [*low, *high, b.let("area", (high[0] - low[0]) * (high[1] - low[1]))]
        if self.groups is not None:
            sides.append(b.let("group", self.groups[self.batch, box]))
        return sides

    def _compare(self, own: Sequence[PrimExpr]) -> None:
        """Count the chosen boxes that overlap, until there are some among those that are compared at once."""
        b = self.b
        b.emit(self.hits.set(constant(0, "int32")))
        b.emit(self.compared.set(constant(0, "int64")))
        going_on = all_of(equal(self.hits.get(), 0), self.compared.get() < self.num_chosen.get())
        with b.repeat_while(going_on):
            first = b.let("from_place", self.compared.get())
            with b.loop("j", minimum(self.num_chosen.get() - first, AT_ONCE)) as j:
                other = [column[first + j] for column in self.columns]
                is_hit = _overlap(own, other) > self.reach
                if self.groups is not None:
                    is_hit = all_of(is_hit, equal(own[5], other[5]))
                hit = cast("int32", is_hit)
                b.emit(self.hits.set(self.hits.get() + hit))
            b.emit(self.compared.set(first + AT_ONCE))


def _overlap(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> PrimExpr:
    """Intersection over union of two boxes given by sides and area, 0 where there is none."""
    zero = constant(0, "float32")
    height, width = (
        maximum(minimum(a[axis + 2], b[axis + 2]) - maximum(a[axis], b[axis]), zero) for axis in (0, 1)
    )
    shared = height * width
    union = a[4] + b[4] - shared
    return select(all_of(shared > zero, union > zero), shared / union, zero)
