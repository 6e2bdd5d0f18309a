"""Create tensors from a shape: constants, ranges, identity matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle import te
from heddle.arith.sizes import as_dim, ceil_div, simplified
from heddle.prim.intrinsics import ceil
from heddle.prim.nodes import FloatImm, IntImm, PrimExpr, as_expr, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import cast, maximum, select
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError
from heddle.te.codes import E0104
from heddle.tir.builder import StmtBuilder
from heddle.tir.grain import GRAIN, grain_of
from heddle.tir.nodes import Buffer, ForKind, Stmt


def full(shape: Sequence[Any], dtype: str, value: Any) -> te.Tensor:
    """Return a tensor filled with one value: a number, a scalar expression or a tensor of rank 0."""
    dims = [as_dim(dim) for dim in shape]
    item = value() if isinstance(value, te.Tensor) else as_expr(value)
    result: te.Tensor = te.compute(dims, lambda *i: cast(dtype, item), name="full")
    return result


def range_length(start: PrimExpr, end: PrimExpr, step: PrimExpr) -> PrimExpr:
    """Return the number of elements of `arange(start, end, step)`."""
    if all(isinstance(v, IntImm) for v in (start, end, step)):
        low, high, by = (v.value for v in (start, end, step))  # type: ignore[attr-defined]
        count = max(0, -((low - high) // by))
        if count >= 1 << 63:
            raise IRTypeError(E0104, f"a range of {count} numbers")
        return constant(count, "int64")
    if isinstance(step, IntImm) and not start.dtype.is_float and not end.dtype.is_float:
        distance = end - start if step.value > 0 else start - end
        return simplified(maximum(ceil_div(as_dim(distance), abs(step.value)), 0))
    if all(v.dtype.is_int for v in (start, end, step)):
        return _whole_range(start, end, step)
    if all(isinstance(v, (IntImm, FloatImm)) for v in (start, end, step)):
        low, high, by = (float(v.value) for v in (start, end, step))  # type: ignore[attr-defined]
        return constant(max(0, -int(-(high - low) // by)), "int64")
    wide = [cast("float64", v) for v in (start, end, step)]
    return maximum(cast("int64", ceil((wide[1] - wide[0]) / wide[2])), constant(0, "int64"))


def _whole_range(start: PrimExpr, end: PrimExpr, step: PrimExpr) -> PrimExpr:
    """Compute the length with unsigned distances, which cannot overflow for any two integers. A range of
    2**63 elements or more gets a negative size, which memory allocation rejects."""
    first, last, by = (cast("int64", v) for v in (start, end, step))
    is_empty = select(by > 0, first >= last, first <= last)
    low, high, up = (cast("uint64", v) for v in (first, last, by))
    distance, width = select(by > 0, high - low, low - high), select(by > 0, up, constant(0, "uint64") - up)
    count = cast("int64", (distance - 1) // width + 1)
    return select(is_empty, constant(0, "int64"), count)


def arange(start: Any, end: Any, step: Any, dtype: str) -> te.Tensor:
    """Return start, start + step, ... before end. If an argument is a float, the elements are computed as
    floats. They are converted to `dtype`."""
    first, last, by = (as_expr(v, "int64" if isinstance(v, int) else None) for v in (start, end, step))
    target = DataType(dtype)
    wide = target
    if target.is_float or any(v.dtype.is_float for v in (first, by)):
        wide = DataType("float32" if target.is_float and target.bits < 64 else "float64")

    def element(i: PrimExpr) -> PrimExpr:
        return cast(target, cast(wide, first) + cast(wide, i) * cast(wide, by))

    result: te.Tensor = te.compute((range_length(first, last, by),), element, name="arange")
    return result


def eye(rows: Any, columns: Any, k: int, dtype: str) -> te.Tensor:
    """Return a matrix with ones on diagonal k and zeros elsewhere. Each row is zeroed, then its one element
    is set."""
    shape = (as_dim(rows), as_dim(columns))

    def body(_inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        b, (result,) = StmtBuilder(), outputs
        with b.loop("i", shape[0], ForKind.PARALLEL, {GRAIN: grain_of(shape[1])}) as i:
            with b.loop("j", shape[1]) as j:
                b.store(result, (i, j), constant(0, dtype))
            place = b.let("place", i + k)
            with b.when(all_of(place >= 0, place < shape[1])):
                b.store(result, (i, place), constant(1, dtype))
        return b.func("eye", ()).body

    result: te.Tensor = te.extern(shape, [], body, name="eye", dtype=dtype)
    return result
