"""Pooling of regions of images (RoI operators)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from heddle import te
from heddle.arith.sizes import product
from heddle.ir.node import Map
from heddle.prim.checked_index import checked_index
from heddle.prim.intrinsics import ceil, floor
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import any as any_of
from heddle.prim.ops import cast, maximum, min_value, minimum, select
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.tir.allocation import STORAGE
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import AllocBuffer, Buffer, ForKind, Stmt, decl_buffer, seq
from heddle.topi.loops import Cell, load, nest, on_threads, store

_FLOAT = DataType("float32")
_COST_OF_SAMPLE = 32
"""The cost of one bilinear sample, in elements of elementwise work."""


def roi_align(
    x: te.Tensor,
    rois: te.Tensor,
    batch_indices: te.Tensor,
    pooled_size: tuple[int, int],
    spatial_scale: float,
    sample_ratio: int,
    aligned: bool,
    mode: str,
) -> te.Tensor:
    """RoI align: divide each region (x1, y1, x2, y2) of image `batch_indices[k]` into bins, and take the mean
    ("avg") or maximum ("max") of bilinear samples in each bin.

    A bin has `sample_ratio` samples along each axis; with 0, as many as it has elements. Shapes: the result
    is (regions, channels, height, width).
    """
    shape = (rois.shape[0], x.shape[1], *(constant(size, "int64") for size in pooled_size))

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        made = _RegionAlign(inputs, outputs[0], pooled_size, spatial_scale, sample_ratio, aligned, mode)
        return made.body()

    result: te.Tensor = te.extern(shape, [x, rois, batch_indices], body, name="roi_align", dtype=x.dtype)
    return result


_MOST_IN_TABLE = 1 << 16
"""Samples of an axis of a region whose places a table holds."""


class _RegionAlign:
    """Writes the loops of `roi_align`. If the number of samples is constant and not huge, their positions are
    stored in tables, because they are the same for all channels."""

    def __init__(
        self,
        inputs: Sequence[Buffer],
        result: Buffer,
        pooled_size: tuple[int, int],
        spatial_scale: float,
        sample_ratio: int,
        aligned: bool,
        mode: str,
    ) -> None:
        (self.x, self.rois, self.numbers), self.result = inputs, result
        self.pooled_size, self.scale, self.ratio = pooled_size, spatial_scale, sample_ratio
        self.aligned, self.mode = aligned, mode
        counts = [size * sample_ratio for size in pooled_size]
        has_tables = sample_ratio > 0 and max(counts) <= _MOST_IN_TABLE
        self.tables = [_SampleTable(count) for count in counts] if has_tables else []
        self.total, self.image = Cell("total", "float32"), Cell("image")
        self.counts = [] if sample_ratio > 0 else [Cell(name) for name in ("rows", "columns")]
        self.begin = [Cell(name, "float32") for name in ("begin_y", "begin_x")]
        self.bins = [Cell(name, "float32") for name in ("bin_y", "bin_x")]

    def body(self) -> Stmt:
        shape = self.result.shape
        samples = product(shape[1:]) * max(self.ratio, 1) ** 2
        return on_threads("k", shape[:1], samples * _COST_OF_SAMPLE, lambda index: self._region(index[0]))

    def _region(self, k: PrimExpr) -> Stmt:
        cells = (self.total, self.image, *self.counts, *self.begin, *self.bins)
        image = checked_index(load(self.numbers, (k,)), self.x.shape[0], from_end=False)
        stmts = [*(cell.declare() for cell in cells), self.image.set(image)]
        for axis, bins in enumerate(self.pooled_size):
            first, last = (
                cast(_FLOAT, load(self.rois, (k, constant(1 - axis + 2 * end, "int64")))) * self.scale
                - (0.5 if self.aligned else 0.0)
                for end in (0, 1)
            )
            size = last - first if self.aligned else maximum(last - first, constant(1, _FLOAT))
            stmts += [self.begin[axis].set(first), self.bins[axis].set(size / float(bins))]
            if self.counts:
                stmts.append(self.counts[axis].set(cast("int64", ceil(size / float(bins)))))
        for axis, table in enumerate(self.tables):
            steps = (constant(self.pooled_size[axis], "int64"), self._count(axis))
            stmts += [*table.declare(), nest("s", steps, partial(self._noted, axis))]
        return seq(*stmts, nest("p", self.result.shape[1:], lambda index: self._bin(k, index)))

    def _count(self, axis: int) -> PrimExpr:
        """Return the number of samples of a bin along an axis."""
        return self.counts[axis].get() if self.counts else constant(self.ratio, "int64")

    def _sampled(self, axis: int, part: PrimExpr, step: PrimExpr) -> _Around:
        """Return the neighbours of a sample of a bin along an axis."""
        size = self.bins[axis].get()
        within = (cast(_FLOAT, step) + 0.5) * size / cast(_FLOAT, self._count(axis))
        position = self.begin[axis].get() + cast(_FLOAT, part) * size + within
        return _around(position, self.x.shape[2 + axis])

    def _noted(self, axis: int, at: tuple[PrimExpr, ...]) -> Stmt:
        part, step = at
        return self.tables[axis].fill(part * self.ratio + step, self._sampled(axis, part, step))

    def _known(self, axis: int, part: PrimExpr, step: PrimExpr) -> _Around:
        if not self.tables:
            return self._sampled(axis, part, step)
        return self.tables[axis].at(part * self.ratio + step, self.x.shape[2 + axis])

    def _bin(self, k: PrimExpr, index: tuple[PrimExpr, ...]) -> Stmt:
        counts, total = (self._count(0), self._count(1)), self.total.get()
        number = maximum(counts[0] * counts[1], 1)
        value = total / cast(_FLOAT, number) if self.mode == "avg" else total
        return seq(
            self.total.set(constant(0, _FLOAT)),
            nest("i", counts, lambda steps: self._sample(index, steps)),
            store(self.result, cast(self.x.dtype, value), (k, *index)),
        )

    def _sample(self, index: tuple[PrimExpr, ...], steps: tuple[PrimExpr, ...]) -> Stmt:
        at = [self._known(axis, index[1 + axis], step) for axis, step in enumerate(steps)]
        parts, total = _neighbours(self.x, self.image.get(), index[0], at), self.total.get()
        if self.mode == "avg":
            return self.total.set(total + parts[0] + parts[1] + parts[2] + parts[3])
        best = maximum(maximum(parts[0], parts[1]), maximum(parts[2], parts[3]))
        is_first = all_of(*(step <= 0 for step in steps))
        return self.total.set(select(is_first, best, maximum(total, best)))


@frozen
class _Around:
    """The two elements of an axis around a position, the distance from the first one, and whether the
    position is more than one element outside."""

    low: PrimExpr
    high: PrimExpr
    rest: PrimExpr
    is_outside: PrimExpr


def _around(position: PrimExpr, size: PrimExpr) -> _Around:
    n, zero, one = cast(_FLOAT, size), constant(0, _FLOAT), constant(1, _FLOAT)
    inner = minimum(maximum(position, zero), n - 1)
    low = maximum(minimum(cast("int64", inner), size - 1), 0)
    is_outside = any_of(position < -one, position > n)
    return _Around(low, minimum(low + 1, size - 1), inner - cast(_FLOAT, low), is_outside)


class _SampleTable:
    """The neighbours of all samples of a region along an axis."""

    def __init__(self, count: int) -> None:
        shape = (constant(count, "int64"),)
        self.low, self.rest = decl_buffer(shape, "int64", "low"), decl_buffer(shape, "float32", "rest")

    def declare(self) -> list[Stmt]:
        """Return the statements that allocate the tables, in memory: for tables in registers, all loops over
        samples would be unrolled."""
        return [AllocBuffer(buffer, Map({STORAGE: "workspace"})) for buffer in (self.low, self.rest)]

    def fill(self, number: PrimExpr, around: _Around) -> Stmt:
        """Store a sample. A sample outside has no neighbours."""
        low = select(around.is_outside, constant(-1, "int64"), around.low)
        return seq(store(self.low, low, (number,)), store(self.rest, around.rest, (number,)))

    def at(self, number: PrimExpr, size: PrimExpr) -> _Around:
        """Return the stored neighbours of a sample."""
        known = load(self.low, (number,))
        low = maximum(known, 0)
        return _Around(low, minimum(low + 1, size - 1), load(self.rest, (number,)), known < 0)


def _neighbours(x: Buffer, image: PrimExpr, channel: PrimExpr, at: Sequence[_Around]) -> list[PrimExpr]:
    """Return the four neighbours of a position, each times its weight; 0 for a position more than one element
    outside."""
    zero, one, (rows, columns) = constant(0, _FLOAT), constant(1, _FLOAT), at
    made = []
    for row, row_weight in ((rows.low, one - rows.rest), (rows.high, rows.rest)):
        for column, weight in ((columns.low, one - columns.rest), (columns.high, columns.rest)):
            value = cast(_FLOAT, load(x, (image, channel, row, column))) * row_weight * weight
            made.append(select(any_of(rows.is_outside, columns.is_outside), zero, value))
    return made


def roi_pool(x: te.Tensor, rois: te.Tensor, pooled_size: tuple[int, int], spatial_scale: float) -> te.Tensor:
    """RoI max pooling: round the corners of each region (image, x1, y1, x2, y2), divide it into bins, and
    take the largest element of each bin; 0 for a bin outside the image. Shapes: the result is (regions,
    channels, height, width)."""
    shape = (rois.shape[0], x.shape[1], *(constant(size, "int64") for size in pooled_size))

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        return _RegionPool(inputs[0], inputs[1], outputs[0], pooled_size, spatial_scale).body()

    result: te.Tensor = te.extern(shape, [x, rois], body, name="roi_pool", dtype=x.dtype)
    return result


class _RegionPool:
    """Writes the loops of `roi_pool`. First, the maximum over the rows of a bin is computed for the whole
    width of the region, which reads memory in order. Then each bin takes the maximum over its columns."""

    def __init__(
        self, x: Buffer, rois: Buffer, result: Buffer, pooled_size: tuple[int, int], spatial_scale: float
    ) -> None:
        self.x, self.rois, self.result = x, rois, result
        self.pooled_size, self.scale = pooled_size, spatial_scale
        self.wide = "float64" if rois.dtype == "float64" else "float32"
        self.b = StmtBuilder()

    def body(self) -> Stmt:
        b, (images, channels, height, width) = self.b, self.x.shape
        with b.loop("region", self.rois.shape[0], ForKind.PARALLEL, {"grain": 1}) as region:
            number = cast("int64", self.rois[region, 0])
            image = b.let("image", checked_index(number, images, from_end=False))
            rows = self._bins(region, 0, height)
            columns = self._bins(region, 1, width)
            joined = b.alloc("joined", (width,), str(self.x.dtype), "workspace")
            with b.loop("channel", channels) as channel, b.loop("row", self.pooled_size[0]) as row:
                self._join_rows((image, channel), (rows[0][row], rows[1][row]), columns, joined)
                with b.loop("column", self.pooled_size[1]) as column:
                    part = (columns[0][column], columns[1][column])
                    is_there = all_of(rows[0][row] < rows[1][row], part[0] < part[1])
                    best = self._largest(joined, *part)
                    value = select(is_there, best, constant(0, self.x.dtype))
                    b.store(self.result, (region, channel, row, column), value)
        return b.func("roi_pool", ()).body

    def _bins(self, region: PrimExpr, axis: int, size: PrimExpr) -> tuple[Buffer, Buffer]:
        """The elements of an axis at which its bins begin and end."""
        b, count = self.b, self.pooled_size[axis]
        first, last = (
            b.let(name, _rounded(cast(self.wide, self.rois[region, 2 - axis + 2 * end]) * self.scale))
            for end, name in enumerate(("first", "last"))
        )
        length = maximum(last - first + 1, constant(1, self.wide))
        share = b.let("share", length / constant(count, self.wide))
        begin, end = (b.alloc(name, (count,), "int64", "stack") for name in ("begin", "end"))
        with b.loop("bin", count) as part:
            place = cast(self.wide, part)
            b.store(begin, (part,), _inside(floor(place * share) + first, size))
            b.store(end, (part,), _inside(ceil((place + 1) * share) + first, size))
        return begin, end

    def _join_rows(
        self,
        plane: tuple[PrimExpr, PrimExpr],
        rows: tuple[PrimExpr, PrimExpr],
        columns: tuple[Buffer, Buffer],
        joined: Buffer,
    ) -> None:
        """The largest element of some rows, for all columns of the region."""
        b, (begin, end) = self.b, columns
        left = b.let("left", begin[0])
        count = b.let("count", maximum(end[self.pooled_size[1] - 1] - left, 0))
        with b.loop("j", count) as j:
            b.store(joined, (left + j,), min_value(self.x.dtype))
        top = b.let("top", rows[0])
        with b.loop("i", maximum(rows[1] - top, 0)) as i, b.loop("j", count) as j:
            value = self.x[(*plane, top + i, left + j)]
            b.store(joined, (left + j,), maximum(joined[left + j], value))

    def _largest(self, joined: Buffer, begin: PrimExpr, end: PrimExpr) -> PrimExpr:
        b, best = self.b, Cell("best", str(self.x.dtype))
        first = b.let("from_column", begin)
        b.emit(best.declare())
        b.emit(best.set(min_value(self.x.dtype)))
        with b.loop("j", maximum(end - first, 0)) as j:
            b.emit(best.set(maximum(best.get(), joined[first + j])))
        return best.get()


def _rounded(x: PrimExpr) -> PrimExpr:
    """To the nearest whole number, halves away from zero."""
    half = constant(0.5, x.dtype)
    result: PrimExpr = select(x < 0, ceil(x - half), floor(x + half))
    return result


def _inside(place: PrimExpr, size: PrimExpr) -> PrimExpr:
    """A place that is whole, as an index between 0 and the size."""
    return maximum(minimum(cast("int64", place), size), 0)
