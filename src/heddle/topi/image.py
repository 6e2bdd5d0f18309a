"""Resizing images by nearest, linear or cubic interpolation, with the coordinate modes of ONNX's Resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle import te
from heddle.arith.sizes import as_dim, simplified
from heddle.prim.intrinsics import ceil, floor
from heddle.prim.nodes import IntImm, PrimExpr, constant, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import cast, if_then_else, maximum, minimum, select
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError
from heddle.support.frozen import frozen
from heddle.te.codes import E0104
from heddle.tir.vector_math.build import clamped
from heddle.topi.nn.window import positions, spatial_letters
from heddle.topi.reduce import accumulator

METHODS = ("nearest_neighbor", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
ROUNDINGS = ("round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "")
_FLOAT = DataType("float32")
_PLACE = DataType("int32")
"""Of positions: those of float32 are whole below 2**24, and vectors of them need no int64."""
_FARTHEST = 2.0**30
MAX_REPEATS = 8
"""Of a free size the factor is looked for up to here."""
_HALVES = ("round", "round_prefer_floor", "round_prefer_ceil", "")
_REPEATING = {"asymmetric": ("floor", ""), "half_pixel": _HALVES, "pytorch_half_pixel": _HALVES}
"""Coordinates with the roundings by which a whole factor repeats elements: halves never tie."""
MAX_LEFT_OUT = 4
"""How many times as long a row of the image may be as one of the result."""
NEAR_HALF = 1e-6
"""Positions this near to the middle of two neighbours are in the middle, as ONNX Runtime takes it."""


@frozen
class Resize:
    """How resizing maps positions of the result to positions of the image, and how it interpolates."""

    method: str = "linear"
    coordinates: str = "half_pixel"
    rounding: str = "round"
    cubic_alpha: float = -0.75
    cubic_exclude: bool = False
    extrapolation: float = 0.0
    roi: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        checks = ((self.method, METHODS), (self.coordinates, COORDINATES), (self.rounding, ROUNDINGS))
        for value, known in checks:
            if value not in known:
                raise IRTypeError(E0104, f"{value!r} is none of {list(known)}")

    def source(
        self,
        position: PrimExpr,
        size: PrimExpr,
        outputs: PrimExpr,
        axis: int,
        ndim: int,
        geometry: te.Tensor | None = None,
    ) -> Any:
        """Return the (float) position in the image for a position of the result. A given region or scale may
        put it anywhere, so it is clamped to where its integer neighbours are representable."""
        found = self._source(position, size, outputs, axis, ndim, geometry)
        return found if geometry is None and self.coordinates != "tf_crop_and_resize" else _bounded(found)

    def _source(
        self,
        position: PrimExpr,
        size: PrimExpr,
        outputs: PrimExpr,
        axis: int,
        ndim: int,
        geometry: te.Tensor | None,
    ) -> Any:
        x, n, m = cast(_FLOAT, position), cast(_FLOAT, size), cast(_FLOAT, outputs)
        scale = None if geometry is None else geometry[0, axis]
        half = constant(0.5, _FLOAT)
        mode = self.coordinates
        if mode == "asymmetric":
            return self._scaled(x, n, m, scale)
        if mode == "tf_half_pixel_for_nn":
            return self._scaled(x + half, n, m, scale)
        if mode == "align_corners":
            steps = maximum(m - 1, constant(1, _FLOAT))
            if scale is not None:  # ONNX takes the length that is not rounded
                steps = select(outputs > 1, scale * n - 1, constant(1, _FLOAT))
            return x * (n - 1) / steps
        if mode == "tf_crop_and_resize":
            low, high = constant(self.roi[axis], _FLOAT), constant(self.roi[axis + ndim], _FLOAT)
            if geometry is not None:
                low, high = geometry[1, axis], geometry[2, axis]
            steps = maximum(m - 1, constant(1, _FLOAT))
            middle = (low + high) * half * (n - 1)
            begin = _bounded(low * (n - 1))  # rounded before the sum, as in ONNX Runtime: the end may be at 0
            place = begin + x * (high - low) * (n - 1) / steps
            return middle if is_const_int(outputs, 1) else select(outputs > 1, place, middle)
        centred = self._scaled(x + half, n, m, scale) - half
        if mode == "half_pixel_symmetric" and scale is not None:
            return centred + n * half * (1 - m / (scale * n))
        if mode == "pytorch_half_pixel":
            return select(outputs > 1, centred, constant(0, _FLOAT))
        return centred

    def _scaled(self, x: PrimExpr, n: PrimExpr, m: PrimExpr, scale: PrimExpr | None = None) -> PrimExpr:
        """Return x / scale if a scale is given. Otherwise return x / (m / n) for nearest neighbours, else
        x * n / m.

        The last bit of a position decides which of two equally near neighbours is taken. x / (m / n) gives
        the bits of ONNX Runtime, and no fused operation changes them. The product x * n of small numbers is
        exact, so x * n / m is rounded only once; a rounded quotient n / m would multiply its error by x.
        """
        result: PrimExpr
        if scale is not None:
            result = x / scale
        else:
            result = x / (m / n) if self.method == "nearest_neighbor" else x * n / m
        return result

    def nearest(self, x: PrimExpr) -> PrimExpr:
        """Round a position to an integer, by the rounding mode."""
        half = constant(0.5, _FLOAT)
        default = "floor" if self.coordinates == "asymmetric" else "round_prefer_floor"
        mode = self.rounding or default
        if mode == "floor":
            return cast(_PLACE, floor(x))
        if mode == "ceil":
            return cast(_PLACE, ceil(x))
        base = floor(x)
        up = x - base > half - NEAR_HALF if mode == "round_prefer_ceil" else x - base >= half + NEAR_HALF
        result: PrimExpr = cast(_PLACE, base) + cast(_PLACE, up)
        return result

    def repeats(self, size: PrimExpr, outputs: PrimExpr) -> int | None:
        """Return how often each element of an axis is repeated, if resizing only repeats elements; otherwise
        None. The neighbour of position i is then i // repeats, without rounding errors."""
        modes = _REPEATING.get(self.coordinates, ())
        if self.method != "nearest_neighbor" or self.rounding not in modes:
            return None
        if isinstance(size, IntImm) and isinstance(outputs, IntImm):
            is_whole = size.value > 0 and outputs.value > 0 and outputs.value % size.value == 0
            return outputs.value // size.value if is_whole else None
        factors = range(1, MAX_REPEATS + 1)
        return next((k for k in factors if is_const_int(simplified(outputs - size * k), 0)), None)

    def taps(self, x: PrimExpr) -> tuple[list[PrimExpr], list[PrimExpr]]:
        """Return the integer positions of the neighbours and their weights."""
        if self.method == "nearest_neighbor":
            return [self.nearest(x)], [constant(1, _FLOAT)]
        base = floor(x)
        t, first = x - base, cast(_PLACE, base)
        if self.method == "linear":
            return [first, first + 1], [1 - t, t]
        return [first + k for k in (-1, 0, 1, 2)], self.cubic_weights(t)

    def cubic_weights(self, t: PrimExpr) -> list[PrimExpr]:
        """Return the weights of Keys' cubic convolution (parameter a) at distances 1 + t, t, 1 - t, 2 - t."""
        a = self.cubic_alpha

        def near(d: PrimExpr) -> PrimExpr:
            result: PrimExpr = (d * (a + 2) - (a + 3)) * d * d + 1
            return result

        def far(d: PrimExpr) -> PrimExpr:
            result: PrimExpr = ((d * a - 5 * a) * d + 8 * a) * d - 4 * a
            return result

        return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _bounded(x: PrimExpr) -> PrimExpr:
    return clamped(x, -_FARTHEST, _FARTHEST)


def resize(
    x: te.Tensor,
    size: Sequence[Any],
    layout: str,
    how: Resize,
    out_dtype: str | None = None,
    geometry: te.Tensor | None = None,
) -> te.Tensor:
    """Resize an image along its spatial axes to `size`. `geometry` (3, ndim) holds run-time values of the
    scales, and of the begin and end of the region; they replace the quotient of the sizes and the region of
    `how`."""
    ndim = x.ndim - 2
    at = positions(layout, "NC" + spatial_letters(ndim))[2:]
    target = DataType(out_dtype) if out_dtype else x.dtype
    wide = accumulator(x.dtype) if x.dtype.is_float else _FLOAT if x.dtype.bits < 32 else DataType("float64")
    shape = list(x.shape)
    for axis, dim in zip(at, size, strict=True):
        shape[axis] = as_dim(dim)
    if how.method == "nearest_neighbor":
        wide = x.dtype

    factors = {axis: how.repeats(x.shape[axis], shape[axis]) for axis in at if geometry is None}
    repeated = {axis: times for axis, times in factors.items() if times is not None}
    between = [axis for axis in at if axis not in repeated]

    def source(axis: int, position: PrimExpr) -> Any:
        if columns is not None and axis == last[-1]:
            return columns[position]
        return how.source(position, x.shape[axis], shape[axis], at.index(axis), ndim, geometry)

    def interpolated(image: te.Tensor, index: Sequence[PrimExpr], axes: Sequence[int]) -> Any:
        places = list(index)
        for axis in axes:
            if axis in repeated:
                places[axis] = index[axis] // repeated[axis]
        resized = [axis for axis in axes if axis in between]
        taps = [how.taps(source(axis, index[axis])) for axis in resized]
        return _interpolate(image, places, resized, taps, how, wide)

    def element(*index: PrimExpr) -> PrimExpr:
        value = interpolated(image, index, last)
        if how.coordinates != "tf_crop_and_resize":
            return cast(target, value)
        inside = all_of(
            *(
                all_of(s >= 0.0, s <= cast(_FLOAT, x.shape[axis] - 1))
                for axis in between
                for s in [source(axis, index[axis])]
            )
        )
        return cast(target, select(inside, value, constant(how.extrapolation, wide)))

    image, last, columns = x, at, None
    if _has_rows(x, shape, at, between, how):
        last = at[-1:]
        rows = [*shape[:-1], x.shape[-1]]
        # A result of no columns has rows all the same, where the image may have none to make them of.
        is_there = all_of(*(x.shape[axis] > 0 for axis in at[:-1]))

        def row(*index: PrimExpr) -> Any:
            return if_then_else(is_there, interpolated(x, index, at[:-1]), constant(0, wide))

        image = te.compute(rows, row, name=f"resize{ndim}d_rows")
        columns = te.compute(
            shape[-1:], lambda i: how.source(i, x.shape[-1], shape[-1], ndim - 1, ndim, geometry), "columns"
        )
    result: te.Tensor = te.compute(shape, element, name=f"resize{ndim}d")
    return result


def _has_rows(
    x: te.Tensor, shape: Sequence[PrimExpr], at: Sequence[int], between: Sequence[int], how: Resize
) -> bool:
    """Whether a row of the result is made of a row of the image's length: interpolated along the other axes,
    which reads memory in order, it is read at other places for each element. A row of which most is left out
    is not."""
    last = x.ndim - 1
    if how.method == "nearest_neighbor" or at[-1] != last or len(between) < 2 or last not in between:
        return False
    read, made = x.shape[-1], shape[-1]
    if isinstance(read, IntImm) and isinstance(made, IntImm):
        return read.value <= MAX_LEFT_OUT * made.value
    return True


def _interpolate(
    x: te.Tensor,
    index: list[PrimExpr],
    at: Sequence[int],
    taps: list[tuple[list[PrimExpr], list[PrimExpr]]],
    how: Resize,
    wide: DataType,
) -> Any:
    """Return the weighted sum of the neighbours, the last axis innermost. Positions outside are clamped to
    the border."""
    if not at:
        return cast(wide, x[tuple(index)])
    axis, (places, weights) = at[0], taps[0]
    size = x.shape[axis]
    last = minimum(size - 1, 2**31 - 1)

    def part(place: PrimExpr) -> Any:
        inner = list(index)
        inner[axis] = cast("int64", maximum(minimum(place, cast(_PLACE, last)), 0))
        return _interpolate(x, inner, at[1:], taps[1:], how, wide)

    if len(places) == 1:
        return part(places[0])
    factors = [cast(wide, weight) for weight in weights]
    if how.cubic_exclude and how.method == "cubic":
        factors = _without_outside(places, factors, size, wide)
    total = part(places[0]) * factors[0]
    for place, factor in zip(places[1:], factors[1:], strict=True):
        total = total + part(place) * factor
    return total


def _without_outside(
    places: list[PrimExpr], factors: list[PrimExpr], size: PrimExpr, wide: DataType
) -> list[PrimExpr]:
    """Set the weights of positions outside to zero and scale the others so that their sum is 1."""
    zero = constant(0, wide)
    kept = [
        select(all_of(p >= 0, cast("int64", p) < size), f, zero) for p, f in zip(places, factors, strict=True)
    ]
    total = kept[0]
    for factor in kept[1:]:
        total = total + factor
    return [factor / total for factor in kept]
