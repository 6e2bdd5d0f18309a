"""Boxes: choosing those that do not overlap, and pooling what lies in them."""

from __future__ import annotations

from collections.abc import Sequence

from heddle import te
from heddle.prim.checked_index import checked_index
from heddle.prim.intrinsics import ceil
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import any as any_of
from heddle.prim.ops import cast, maximum, minimum, select
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import AllocBuffer, Buffer, IfThenElse, Stmt, While, decl_buffer, seq
from heddle.topi.loops import Cell, load, loop, nest, store

_FLOAT = DataType("float32")


def nms_flags(
    boxes: te.Tensor,
    scores: te.Tensor,
    order: te.Tensor,
    most: te.Tensor,
    overlap: te.Tensor,
    least: te.Tensor,
) -> te.Tensor:
    """Whether each box, in order of its score, is chosen: (batches, classes, boxes).

    `boxes` (batches, boxes, 4) are two corners; `scores` and `order` (batches, classes, boxes). A box is
    chosen if its score is above `least`, fewer than `most` of its class are, and its intersection with each
    of these, over the union, is at most `overlap`.
    """
    batches, classes, size = scores.shape

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        corners, points, ranks, limit, reach, floor_score = inputs
        chosen = decl_buffer((size,), "int64", "chosen")
        at, count, other, alive = Cell("at"), Cell("count"), Cell("other"), Cell("alive")

        def one_class(index: tuple[PrimExpr, ...]) -> Stmt:
            batch, kind = index
            box = load(ranks, (batch, kind, at.get()))
            overlaps = _overlap(corners, batch, box, load(chosen, (other.get(),))) > load(reach, ())
            compare = seq(IfThenElse(overlaps, alive.set(constant(0, "int64"))), other.set(other.get() + 1))
            keep = seq(
                store(outputs[0], constant(True, "bool"), (batch, kind, at.get())),
                store(chosen, box, (count.get(),)),
                count.set(count.get() + 1),
            )
            above = load(points, (batch, kind, box)) > load(floor_score, ())
            visit = seq(
                alive.set(constant(1, "int64")),
                other.set(constant(0, "int64")),
                While(all_of(alive.get() > 0, other.get() < count.get()), compare),
                IfThenElse(alive.get() > 0, keep),
            )
            step = seq(IfThenElse(above, visit), at.set(at.get() + 1))
            return seq(
                loop("f", size, lambda i: store(outputs[0], constant(False, "bool"), (batch, kind, i))),
                at.set(constant(0, "int64")),
                count.set(constant(0, "int64")),
                While(all_of(at.get() < size, count.get() < load(limit, ())), step),
            )

        cells = [cell.declare() for cell in (at, count, other, alive)]
        return seq(AllocBuffer(chosen), *cells, nest("c", (batches, classes), one_class))

    result: te.Tensor = te.extern(
        (batches, classes, size),
        [boxes, scores, order, most, overlap, least],
        body,
        name="nms_flags",
        dtype="bool",
    )
    return result


def _overlap(boxes: Buffer, batch: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Intersection over union, 0 where there is none."""
    zero = constant(0, _FLOAT)

    def side(box: PrimExpr, axis: int) -> tuple[PrimExpr, PrimExpr]:
        ends = [load(boxes, (batch, box, constant(axis + k, "int64"))) for k in (0, 2)]
        return minimum(*ends), maximum(*ends)

    shared, areas = constant(1, _FLOAT), [constant(1, _FLOAT), constant(1, _FLOAT)]
    for axis in (0, 1):
        (low_a, high_a), (low_b, high_b) = side(a, axis), side(b, axis)
        shared = shared * maximum(minimum(high_a, high_b) - maximum(low_a, low_b), zero)
        areas = [areas[0] * (high_a - low_a), areas[1] * (high_b - low_b)]
    union = areas[0] + areas[1] - shared
    return select(all_of(shared > zero, union > zero), shared / union, zero)


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
    """Each region (x1, y1, x2, y2) of image `batch_indices[k]` as bins, each the mean ("avg") or maximum
    ("max") of samples between four neighbours: `sample_ratio` of them each way, or as many as a bin has
    elements where that is 0. (regions, channels, height, width).
    """
    height, width = x.shape[2], x.shape[3]
    shape = (rois.shape[0], x.shape[1], *(constant(size, "int64") for size in pooled_size))

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        total, rows, columns = Cell("total", "float32"), Cell("rows"), Cell("columns")
        image = Cell("image")
        begin = [Cell(name, "float32") for name in ("begin_y", "begin_x")]
        bins = [Cell(name, "float32") for name in ("bin_y", "bin_x")]

        def region(k: PrimExpr) -> Stmt:
            stmts = [image.set(checked_index(load(inputs[2], (k,)), x.shape[0], from_end=False))]
            for axis, count in ((0, rows), (1, columns)):
                first, last = (
                    cast(_FLOAT, load(inputs[1], (k, constant(1 - axis + 2 * end, "int64")))) * spatial_scale
                    - (0.5 if aligned else 0.0)
                    for end in (0, 1)
                )
                size = last - first if aligned else maximum(last - first, constant(1, _FLOAT))
                number = cast("int64", ceil(size / float(pooled_size[axis])))
                stmts += [
                    begin[axis].set(first),
                    bins[axis].set(size / float(pooled_size[axis])),
                    count.set(constant(sample_ratio, "int64") if sample_ratio > 0 else number),
                ]
            return seq(*stmts, nest("p", shape[1:], lambda index: one_bin(k, index)))

        def one_bin(k: PrimExpr, index: tuple[PrimExpr, ...]) -> Stmt:
            channel, counts = index[0], (rows.get(), columns.get())

            def sample(iy: PrimExpr, ix: PrimExpr) -> Stmt:
                at = [
                    begin[a].get()
                    + cast(_FLOAT, index[1 + a]) * bins[a].get()
                    + (cast(_FLOAT, step) + 0.5) * bins[a].get() / cast(_FLOAT, counts[a])
                    for a, step in enumerate((iy, ix))
                ]
                parts = _neighbours(inputs[0], image.get(), channel, at, (height, width))
                if mode == "avg":
                    return total.set(total.get() + parts[0] + parts[1] + parts[2] + parts[3])
                best = maximum(maximum(parts[0], parts[1]), maximum(parts[2], parts[3]))
                is_first = all_of(iy <= 0, ix <= 0)
                return total.set(select(is_first, best, maximum(total.get(), best)))

            number = maximum(counts[0] * counts[1], 1)
            value = total.get() / cast(_FLOAT, number) if mode == "avg" else total.get()
            return seq(
                total.set(constant(0, _FLOAT)),
                loop("iy", counts[0], lambda iy: loop("ix", counts[1], lambda ix: sample(iy, ix))),
                store(outputs[0], cast(x.dtype, value), (k, *index)),
            )

        cells = [cell.declare() for cell in (total, rows, columns, image, *begin, *bins)]
        return seq(*cells, loop("k", shape[0], region))

    result: te.Tensor = te.extern(shape, [x, rois, batch_indices], body, name="roi_align", dtype=x.dtype)
    return result


def _neighbours(
    x: Buffer, image: PrimExpr, channel: PrimExpr, at: Sequence[PrimExpr], sizes: Sequence[PrimExpr]
) -> list[PrimExpr]:
    """The four elements around a position, each times its weight; 0 more than one element outside."""
    zero, one = constant(0, _FLOAT), constant(1, _FLOAT)
    outside, places = [], []
    for position, size in zip(at, sizes, strict=True):
        n = cast(_FLOAT, size)
        outside += [position < -one, position > n]
        inner = minimum(maximum(position, zero), n - 1)
        low = maximum(minimum(cast("int64", inner), size - 1), 0)
        rest = inner - cast(_FLOAT, low)
        places.append(((low, one - rest), (minimum(low + 1, size - 1), rest)))
    made = []
    for row, row_weight in places[0]:
        for column, column_weight in places[1]:
            value = cast(_FLOAT, load(x, (image, channel, row, column))) * row_weight * column_weight
            made.append(select(any_of(*outside), zero, value))
    return made
