"""Pooling that says where each window's greatest element lies: one kernel for value and index.

    parallel (images, rows of the result):
        for vectors of 16 columns:
            best, tap = nothing, -1                                     (in registers)
            for rows of the window that lie in the data, columns of the window:
                best, tap = (element, number of the tap) where the element is greater, else (best, tap)
            values, indices = best, what the tap's number says

A vector of which every window lies in its row reads without conditions; others ask for every lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle import te
from heddle.arith.sizes import product
from heddle.prim.intrinsics import isnan
from heddle.prim.nodes import PrimExpr, Var, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import any as any_of
from heddle.prim.ops import (
    cast,
    ceildiv,
    equal,
    floordiv,
    floormod,
    if_then_else,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    min_value,
    minimum,
    select,
)
from heddle.tir.builder import StmtBuilder
from heddle.tir.grain import GRAIN, grain_of
from heddle.tir.nodes import Buffer, ForKind, Stmt
from heddle.topi.nn.window import output_size, spread

LANES = 16
_MAX_UNROLLED = 8
"""Columns of a window that are written out."""


def max_pool_with_index(
    data: te.Tensor,
    padding: Sequence[PrimExpr],
    pool_size: Any,
    strides: Any,
    dilation: Any,
    ceil_mode: bool,
    by_columns: bool,
) -> tuple[te.Tensor, te.Tensor]:
    """Max pooling of (n, channels, spatial...) that also returns indices: the maximum of each window, and its
    position (int64) in the flattened data. Positions count by rows or, with `by_columns`, with the first
    spatial axis fastest.

    NaN is the greatest value; among equal elements the first one counts. A window that lies in the padding
    has the least value of the type and the index -1. `padding` lists the begins of the spatial axes, then the
    ends.
    """
    ndim = data.ndim - 2
    sizes, steps, spaces = (spread(value, ndim) for value in (pool_size, strides, dilation))
    shape = (*data.shape[:2], *pooled_sizes(data.shape[2:], padding, sizes, steps, spaces, ceil_mode))

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        pads = list(padding[:ndim])
        return _MaxPool(inputs[0], outputs, sizes, steps, spaces, pads, by_columns).body()

    values, indices = te.extern(
        [shape, shape], [data], body, name="max_pool_with_index", dtype=[data.dtype, "int64"]
    )
    return values, indices


def pooled_sizes(
    sizes: Sequence[PrimExpr],
    padding: Sequence[PrimExpr],
    taps: Sequence[int],
    steps: Sequence[int],
    spaces: Sequence[int],
    ceil_mode: bool,
) -> list[PrimExpr]:
    """How many windows there are along each spatial axis."""
    ndim = len(taps)
    return [
        output_size(size, taps[k], steps[k], padding[k], padding[ndim + k], spaces[k], ceil_mode)
        for k, size in enumerate(sizes)
    ]


class _MaxPool:
    """Writes the loops."""

    def __init__(
        self,
        data: Buffer,
        results: Sequence[Buffer],
        sizes: Sequence[int],
        steps: Sequence[int],
        spaces: Sequence[int],
        pads: Sequence[PrimExpr],
        by_columns: bool,
    ) -> None:
        self.data, (self.values, self.indices) = data, results
        self.sizes, self.steps, self.spaces, self.pads = sizes, steps, spaces, pads
        self.ndim, self.by_columns = len(sizes), by_columns
        self.b = StmtBuilder()

    def body(self) -> Stmt:
        b = self.b
        lead, width = self.values.shape[:-1], self.values.shape[-1]
        taps = 1
        for size in self.sizes:
            taps *= size
        with b.loop("row", product(lead), ForKind.PARALLEL, {GRAIN: grain_of(width * taps)}) as row:
            at = self._place(row, lead)
            starts = [
                b.let(f"start{k}", at[2 + k] * self.steps[k] - self.pads[k]) for k in range(self.ndim - 1)
            ]
            ends = [self._taps_inside(k, start) for k, start in enumerate(starts)]
            with b.loop("block", ceildiv(width, LANES)) as block:
                first = b.let("first", block * LANES)
                start = b.let("start", first * self.steps[-1] - self.pads[-1])
                reach = (LANES - 1) * self.steps[-1] + (self.sizes[-1] - 1) * self.spaces[-1]
                is_whole = all_of(first + LANES <= width, start >= 0, start + reach < self.data.shape[-1])
                for is_inner in (True, False):
                    with b.when(is_whole) if is_inner else b.otherwise():
                        self._vector(at, [*starts, start], ends, first, is_inner)
        return b.func("max_pool_with_index", ()).body

    def _place(self, row: PrimExpr, lead: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The index of a row of the result."""
        found: list[PrimExpr] = []
        rest = row
        for k in reversed(range(len(lead))):
            if k == 0:
                found.append(rest)
            else:
                found.append(self.b.let(f"at{k}", floormod(rest, maximum(lead[k], 1))))
                rest = self.b.let(f"rest{k}", floordiv(rest, maximum(lead[k], 1)))
        return found[::-1]

    def _taps_inside(self, axis: int, start: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """The first tap of a window along an axis that lies in the data, and how many do."""
        space, taps = self.spaces[axis], constant(self.sizes[axis], "int64")
        size = self.data.shape[2 + axis]
        first = self.b.let("low", minimum(ceildiv(maximum(-start, 0), space), taps))
        end = maximum(minimum(ceildiv(size - start, space), taps), first)
        return first, self.b.let("count", end - first)

    # ---- a vector of windows

    def _vector(
        self,
        at: Sequence[PrimExpr],
        starts: Sequence[PrimExpr],
        ends: Sequence[tuple[PrimExpr, PrimExpr]],
        first: PrimExpr,
        is_inner: bool,
    ) -> None:
        b, dtype = self.b, self.data.dtype
        best, tap = (
            b.alloc(name, (LANES,), ty, "stack") for name, ty in (("best", str(dtype)), ("tap", "int32"))
        )
        with b.loop("lane", LANES, ForKind.VECTORIZED) as lane:
            b.store(best, (lane,), min_value(dtype))
            b.store(tap, (lane,), constant(-1, "int32"))
        self._taps(at, starts, ends, first, is_inner, best, tap)
        self._write(at, starts, first, is_inner, best, tap)

    def _taps(
        self,
        at: Sequence[PrimExpr],
        starts: Sequence[PrimExpr],
        ends: Sequence[tuple[PrimExpr, PrimExpr]],
        first: PrimExpr,
        is_inner: bool,
        best: Buffer,
        tap: Buffer,
        chosen: tuple[PrimExpr, ...] = (),
    ) -> None:
        """Loops over the window's taps; `chosen` are those along the axes before."""
        b, axis = self.b, len(chosen)
        if axis < self.ndim - 1:
            low, count = ends[axis]
            with b.loop(f"tap{axis}", count) as step:
                self._taps(at, starts, ends, first, is_inner, best, tap, (*chosen, low + step))
            return
        places = [starts[k] + position * self.spaces[k] for k, position in enumerate(chosen)]
        number = constant(0, "int64")
        for k, position in enumerate(chosen):
            number = number * self.sizes[k] + position
        source = (*at[:2], *(b.let("place", place) for place in places))
        number = b.let("number", cast("int32", number * self.sizes[-1]))
        if self.sizes[-1] <= _MAX_UNROLLED:
            for each in range(self.sizes[-1]):
                self._tap(source, starts[-1], first, constant(each, "int64"), number, is_inner, best, tap)
            return
        with b.loop("column", self.sizes[-1]) as column:
            self._tap(source, starts[-1], first, column, number, is_inner, best, tap)

    def _tap(
        self,
        source: tuple[PrimExpr, ...],
        start: PrimExpr,
        first: PrimExpr,
        k: PrimExpr,
        number: PrimExpr,
        is_inner: bool,
        best: Buffer,
        tap: Buffer,
    ) -> None:
        """The elements of one tap of all lanes."""
        b, dtype = self.b, self.data.dtype
        with b.loop("lane", LANES, ForKind.VECTORIZED) as lane:
            place = start + k * self.spaces[-1] + lane * self.steps[-1]
            value = self.data[(*source, place)]
            inside: PrimExpr | None = None
            if not is_inner:
                inside = all_of(place >= 0, place < self.data.shape[-1], first + lane < self.values.shape[-1])
                value = if_then_else(inside, value, min_value(dtype))
            found = b.let("found", value)
            so_far = b.let("so_far", best[lane])
            is_better = any_of(found > so_far, tap[lane] < 0)
            if dtype.is_float:
                is_better = logical_or(is_better, logical_and(isnan(found), logical_not(isnan(so_far))))
            is_better = is_better if inside is None else logical_and(inside, is_better)
            takes = b.let("takes", is_better)
            b.store(tap, (lane,), select(takes, number + cast("int32", k), tap[lane]))
            b.store(best, (lane,), select(takes, found, so_far))

    def _write(
        self,
        at: Sequence[PrimExpr],
        starts: Sequence[PrimExpr],
        first: PrimExpr,
        is_inner: bool,
        best: Buffer,
        tap: Buffer,
    ) -> None:
        b, sizes = self.b, self.data.shape[2:]
        image = b.let("image", (at[0] * self.data.shape[1] + at[1]) * product(sizes))
        with b.loop("lane", LANES, ForKind.VECTORIZED) as lane:
            number = b.let("chosen", tap[lane])
            index = image + self._number([*starts[:-1], starts[-1] + lane * self.steps[-1]], number)
            index = select(equal(number, -1), constant(-1, "int64"), index)
            target = (*at, first + lane)
            if is_inner:
                self._store(target, best[lane], index)
            else:
                with b.when(first + lane < self.values.shape[-1]):
                    self._store(target, best[lane], index)

    def _store(self, target: tuple[PrimExpr, ...], value: PrimExpr, index: PrimExpr) -> None:
        self.b.store(self.values, target, value)
        self.b.store(self.indices, target, index)

    def _number(self, starts: Sequence[PrimExpr], tap: Var) -> PrimExpr:
        """The number in its image of the element at a tap of a window."""
        places: list[PrimExpr] = []
        rest: PrimExpr = tap
        for k in reversed(range(self.ndim)):
            position = rest if k == 0 else floormod(rest, self.sizes[k])
            rest = floordiv(rest, self.sizes[k])
            places.append(starts[k] + cast("int64", position * self.spaces[k]))
        places.reverse()
        found: PrimExpr | None = None
        for k in reversed(range(self.ndim)) if self.by_columns else range(self.ndim):
            found = places[k] if found is None else found * self.data.shape[2 + k] + places[k]
        assert found is not None
        return found
