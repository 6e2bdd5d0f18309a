"""Padding as an attribute of the operator behind it."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.relay.transform.rewriting import RewritePass, array_of, call, dtype_of, is_call
from heddle.support.frozen import frozen

_LAYOUTS = {f"nn.conv{n}d": ("data_layout", n) for n in (1, 2, 3)}
_LAYOUTS |= {f"nn.{kind}_pool{n}d": ("layout", n) for n in (1, 2, 3) for kind in ("max", "avg")}


@frozen
class FoldExplicitPadding(RewritePass):
    """Take `nn.pad` of spatial axes into a convolution or pooling.

        nn.conv2d(nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]), %w, padding=[0, 0, 0, 0])

    becomes

        nn.conv2d(%x, %w, padding=[1, 1, 1, 1])

    Convolutions take zeros. Averages take zeros where they count what is outside, or have no padding so far
    (they count it then); maxima take the least number of the dtype.
    """

    def rewrite(self, old: Any, new: Any) -> Any:
        if not is_call(old, *_LAYOUTS) or not is_call(old.args[0], "nn.pad"):
            return new
        layout_name, rank = _LAYOUTS[old.op.name]
        pad, attrs = old.args[0], dict(old.attrs.items())
        value, widths = array_of(pad.args[1]), pad.attrs.pad_width
        layout = str(attrs[layout_name])
        if value is None or pad.attrs.pad_mode != "constant" or len(layout) != len(widths):
            return new
        spatial = [layout.find(axis) for axis in "DHW"[-rank:]]
        others = [width for place, width in enumerate(widths) if place not in spatial]
        if min(spatial) < 0 or any(map(any, others)) or not _fits(old, attrs, float(value)):
            return new
        own = both_sides(tuple(attrs["padding"]), rank)
        sides = [
            widths[place][side] + own[side * rank + n] for side in (0, 1) for n, place in enumerate(spatial)
        ]
        if min(sides) < 0:
            return new
        attrs["padding"] = sides
        if "avg" in old.op.name:
            attrs["count_include_pad"] = True
        return call(old.op.name, new.args[0].args[0], *new.args[1:], **attrs)


def both_sides(padding: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Widths before, then behind each axis."""
    return padding if len(padding) == 2 * rank else (padding * rank if len(padding) == 1 else padding) * 2


def _fits(old: Any, attrs: dict[str, Any], value: float) -> bool:
    """Whether an operator pads with this value by itself."""
    has_own = any(attrs["padding"])
    if "max" in old.op.name:
        name = dtype_of(old.args[0])
        dtype = np.dtype("float32" if name == "bfloat16" else name)
        if dtype.kind != "f":
            return value == float(np.iinfo(dtype).min)
        return value == -np.inf or (value == float(np.finfo(dtype).min) and not has_own)
    if "avg" in old.op.name and (attrs["ceil_mode"] or (has_own and not attrs["count_include_pad"])):
        return False
    return value == 0
