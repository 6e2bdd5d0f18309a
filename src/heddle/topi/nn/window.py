"""Arithmetic of sliding windows: attributes per spatial axis, output sizes, layouts.

A layout is a string of axis letters, outermost first ("NCHW", "NHWC", "OIHW"). Blocked layouts are not
supported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.arith.sizes import ceil_div, simplified
from heddle.prim.nodes import PrimExpr, as_expr
from heddle.prim.ops import minimum
from heddle.support.diagnostics import IRTypeError
from heddle.te.codes import E0104

SPATIAL = "DHW"


def spread(value: Any, ndim: int) -> tuple[int, ...]:
    """Return one number per spatial axis; a single number applies to all. Raises: IRTypeError E0104."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(given) == 1:
        given = given * ndim
    if len(given) != ndim:
        raise IRTypeError(E0104, f"expected 1 or {ndim} numbers, got {list(given)}")
    return tuple(int(item) for item in given)


def pads(value: Any, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and after each spatial axis, from 1, ndim (both sides equal) or 2 * ndim numbers."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(given) == 2 * ndim:
        return tuple(int(p) for p in given[:ndim]), tuple(int(p) for p in given[ndim:])
    if len(given) not in (1, ndim):
        raise IRTypeError(E0104, f"expected 1, {ndim} or {2 * ndim} numbers of padding, got {list(given)}")
    both = spread(given, ndim)
    return both, both


def positions(layout: str, letters: str) -> tuple[int, ...]:
    """Return the axis of each letter. Raises: IRTypeError E0104 if the layout is not a permutation of the
    letters."""
    if sorted(layout) != sorted(letters):
        raise IRTypeError(
            E0104, f"layout {layout!r} is not supported: expected an order of the letters {letters}"
        )
    return tuple(layout.index(letter) for letter in letters)


def spatial_letters(ndim: int) -> str:
    """The letters of so many spatial dimensions in a layout: "W", "HW", "DHW"."""
    return SPATIAL[-ndim:]


def window_extent(kernel: Any, dilation: int) -> PrimExpr:
    """The length that a dilated window covers."""
    result: PrimExpr = (as_expr(kernel, "int64") - 1) * dilation + 1
    return result


def output_size(
    size: PrimExpr,
    kernel: Any,
    stride: int,
    before: int | PrimExpr,
    after: int | PrimExpr,
    dilation: int,
    ceil_mode: bool = False,
) -> PrimExpr:
    """Return the number of windows. With `ceil_mode`, the last window may extend beyond the padding but must
    start before its end."""
    room = size + (before + after) - window_extent(kernel, dilation)
    if not ceil_mode:
        return simplified(room // stride + 1)
    return simplified(minimum(ceil_div(room, stride) + 1, ceil_div(size + before, stride)))


def transposed_size(
    size: PrimExpr, kernel: Any, stride: int, before: int, after: int, dilation: int, output_padding: int
) -> PrimExpr:
    """Return the output size of a transposed convolution: the size for which a convolution with these
    attributes gives `size`, plus `output_padding`."""
    return simplified(
        (size - 1) * stride - (before + after) + window_extent(kernel, dilation) + output_padding
    )


def permuted(values: Sequence[Any], letters: str, layout: str) -> tuple[Any, ...]:
    """Values given in the order of `letters`, in the order of `layout`."""
    return tuple(values[letters.index(letter)] for letter in layout)
