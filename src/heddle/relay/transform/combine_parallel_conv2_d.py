"""Parallel convolutions as one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from heddle.ir.structural import structural_hash
from heddle.relay.transform.combine_parallel import CombineParallel, joined, slices
from heddle.relay.transform.rewriting import dtype_of, is_call, rank, recalled, sizes
from heddle.support.frozen import frozen


@frozen(slots=False)
class CombineParallelConv2D(CombineParallel):
    """Convolve one image with the kernels of several convolutions at once.

        (nn.conv2d(%x, %w1), nn.conv2d(%x, %w2), nn.conv2d(%x, %w3))

    becomes, with `%y = nn.conv2d(%x, concatenate((%w1, %w2, %w3), axis=0))`, slices of `%y`.

    Kernels of one size, in layouts NCHW with OIHW and NHWC with HWIO, without groups.
    """

    def key(self, expr: Any) -> Hashable:
        if not is_call(expr, "nn.conv2d") or sizes(expr.args[1]) is None or expr.attrs.groups != 1:
            return None
        attrs = {key: value for key, value in expr.attrs.items() if key != "channels"}
        axes = _AXES.get((attrs["data_layout"], attrs["kernel_layout"]))
        if axes is None or attrs["out_layout"] not in ("", attrs["data_layout"]):
            return None
        weight = list(sizes(expr.args[1]) or ())
        weight[axes[1]] = 0
        shown = tuple(sorted((key, str(value)) for key, value in attrs.items()))
        return shown, tuple(weight), dtype_of(expr.args[1]), structural_hash(expr.ty.dtype)

    def combined(self, calls: list[Any]) -> list[Any]:
        first = calls[0]
        channel, out = _AXES[first.attrs.data_layout, first.attrs.kernel_layout]
        widths = [(sizes(each.args[1]) or ())[out] for each in calls]
        kernels = joined([each.args[1] for each in calls], out)
        whole = recalled(first, first.args[0], kernels, channels=sum(widths))
        return slices(whole, widths, channel, rank(first))


_AXES = {("NCHW", "OIHW"): (1, 0), ("NHWC", "HWIO"): (3, 3)}
"""The axes of channels in the result, and of outputs in the kernel, by layouts."""
