"""Convolutions with gaps that a program takes apart into batches."""

from __future__ import annotations

from typing import Any

from heddle.relay.transform.fold_explicit_padding import both_sides
from heddle.relay.transform.rewriting import RewritePass, is_call, recalled
from heddle.support.frozen import frozen

_LAYOUTS = {"nn.conv1d": "NWC", "nn.conv2d": "NHWC", "nn.conv3d": "NDHWC"}


@frozen
class FlattenAtrousConv(RewritePass):
    """Write a convolution between `nn.space_to_batch_nd` and `nn.batch_to_space_nd` as one with gaps.

        %0 = nn.space_to_batch_nd(%x, block_shape=[2, 2], paddings=[[2, 3], [2, 3]]);
        %1 = nn.conv2d(%0, %w, data_layout="NHWC", kernel_layout="HWIO");
        nn.batch_to_space_nd(%1, block_shape=[2, 2], crops=[[0, 1], [0, 1]])

    becomes

        nn.conv2d(%x, %w, padding=[2, 2, 2, 2], dilation=[2, 2], data_layout="NHWC", kernel_layout="HWIO")

    The convolution has strides of one, no padding and its channels last; what is padded are zeros, and at
    least as many as are cropped.
    """

    opt_level = 3

    def rewrite(self, old: Any, new: Any) -> Any:
        if not is_call(old, "nn.batch_to_space_nd") or not is_call(old.args[0], *_LAYOUTS):
            return new
        conv = old.args[0]
        before = conv.args[0]
        if not is_call(before, "nn.space_to_batch_nd") or not _fits(conv, before, old):
            return new
        block = [int(size) for size in old.attrs.block_shape]
        gaps = _spread(conv.attrs.dilation, len(block))
        pairs = list(zip(before.attrs.paddings, old.attrs.crops, strict=True))
        padding = [int(pad[side]) - int(crop[side]) for side in (0, 1) for pad, crop in pairs]
        if min(padding) < 0:
            return new
        dilation = [gap * size for gap, size in zip(gaps, block, strict=True)]
        made = new.args[0]
        return recalled(conv, made.args[0].args[0], made.args[1], padding=padding, dilation=dilation)


def _fits(conv: Any, before: Any, after: Any) -> bool:
    """Whether the three are a convolution with gaps."""
    layout, attrs = _LAYOUTS[conv.op.name], conv.attrs
    count = len(layout) - 2
    block = [int(size) for size in after.attrs.block_shape]
    return (
        str(attrs.data_layout) == layout
        and str(attrs.out_layout or layout) == layout
        and block == [int(size) for size in before.attrs.block_shape]
        and len(block) == count
        and not any(both_sides(tuple(attrs.padding), count))
        and set(_spread(attrs.strides, count)) == {1}
        and float(before.attrs.pad_value) == 0
    )


def _spread(value: Any, count: int) -> list[int]:
    given = [int(item) for item in (value if isinstance(value, (tuple, list)) else (value,))]
    return given * count if len(given) == 1 else given
