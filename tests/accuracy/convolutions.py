"""Convolutions by every road that the compiler takes, and pooling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.accuracy.forms import Dims, Expected, Form, call, oracle, products, relative
from tests.accuracy.values import ALL, FINITE

_IMAGES = tuple({"n": n} for n in (1, 0, 3))


def _convolution(
    family: str,
    data: Dims,
    weight: tuple[int, ...],
    note: str = "",
    is_constant: bool = True,
    name: str = "nn.conv2d",
    sizes: tuple[Mapping[str, int], ...] = _IMAGES,
    in_ci: bool = False,
    values: tuple[str, ...] = ALL,
    **attrs: Any,
) -> Form:
    extent = "×".join(map(str, data[1:]))
    text = f"{extent} by {'×'.join(map(str, weight))}" + "".join(f" {k} {v}" for k, v in attrs.items())
    return Form(
        family,
        f"{text}{' ' + note if note else ''}{'' if is_constant else ', computed weights'}",
        (data,) if is_constant else (data, weight),
        call(name, **attrs),
        products(oracle(name, **attrs)),
        "accumulated",
        values,
        sizes,
        (weight,) if is_constant else (),
        in_ci=in_ci,
    )


def _winograd(
    data: Dims, channels: int, in_ci: bool = False, padding: int = 1, family: str = "conv Winograd"
) -> Form:
    """3 × 3 taps at stride 1, which Winograd's form may compute. Errors are relative to what tiles hold: the
    scale of a result is the largest of its image and channel. Infinities and NaN reach the rest of their
    tile.
    """
    weight = (channels, int(data[1]), 3, 3)
    plain = products(oracle("nn.conv2d", padding=padding))

    def reference(x: Any, w: Any) -> Expected:
        want, (scale,), steps = plain(x, w)
        widest = scale.max(axis=(2, 3), keepdims=True, initial=0.0) if scale.size else scale
        return Expected(want, (np.broadcast_to(widest, scale.shape),), 8 * steps)

    return Form(
        family,
        f"{'×'.join(map(str, data[1:]))} by {'×'.join(map(str, weight))} padding {padding}",
        (data,),
        call("nn.conv2d", padding=padding),
        reference,
        "accumulated",
        FINITE,
        _IMAGES,
        (weight,),
        in_ci=in_ci,
    )


# Vectors that meet several groups multiply the channels of the others by zeros: FINITE.
_CONVOLUTIONS = (
    _winograd(("n", 16, 14, 14), 32, family="conv direct"),
    _convolution("conv direct", ("n", 7, 9, 11), (13, 7, 3, 3), padding=1, in_ci=True),
    _winograd(("n", 64, 7, 7), 96, family="conv direct"),
    _convolution("conv direct", ("n", 1, 1, 1), (1, 1, 1, 1)),
    _convolution("conv direct", ("n", 5, 12, 17), (6, 5, 1, 7), padding=(0, 3)),
    _convolution("conv direct", ("n", 16, 17, 12), (16, 16, 7, 1), padding=(3, 0)),
    _convolution("conv direct", ("n", 32, 23, 29), (48, 32, 3, 3), is_constant=False),
    _convolution("conv direct", ("n", 5, 13, 11), (7, 5, 3, 3), is_constant=False, padding=1),
    _convolution("conv direct", ("n", 16, "h", "w"), (24, 16, 3, 3), padding=1,
                 sizes=tuple({"n": 2, "h": h, "w": w} for h, w in ((1, 1), (5, 31), (28, 28)))),
    _convolution("conv direct", ("n", 17, 19, 6), (3, 3, 6, 9), data_layout="NHWC", kernel_layout="HWIO"),
    _convolution("conv 1×1", ("n", 16, 13, 11), (24, 16, 1, 1), in_ci=True),
    _convolution("conv 1×1", ("n", 128, 28, 28), (96, 128, 1, 1)),
    _convolution("conv 1×1", ("n", 31, 7, 5), (33, 31, 1, 1), strides=2),
    _convolution("conv 1×1", ("n", 512, 1, 1), (10, 512, 1, 1)),
    _convolution("conv first layer", ("n", 3, 31, 29), (16, 3, 7, 7), strides=2, padding=3, in_ci=True),
    _convolution("conv first layer", ("n", 3, 64, 64), (64, 3, 3, 3), strides=2, padding=1),
    _convolution("conv first layer", ("n", 1, 28, 28), (6, 1, 5, 5)),
    _convolution("conv depthwise", ("n", 32, 14, 13), (32, 1, 3, 3), groups=32, padding=1, in_ci=True),
    _convolution("conv depthwise", ("n", 17, 9, 10), (17, 1, 5, 5), groups=17, padding=2),
    _convolution("conv depthwise", ("n", 96, 56, 56), (96, 1, 3, 3), groups=96, strides=2, padding=1),
    _convolution("conv depthwise", ("n", 8, 11, 7), (24, 1, 3, 3), groups=8, padding=1, values=FINITE),
    _convolution("conv grouped", ("n", 32, 14, 14), (64, 8, 3, 3), groups=4, padding=1),
    _convolution("conv grouped", ("n", 8, 9, 9), (48, 2, 1, 1), groups=4, values=FINITE, in_ci=True),
    _convolution("conv grouped", ("n", 24, 13, 11), (48, 4, 3, 3), groups=6, padding=1, values=FINITE),
    _convolution("conv grouped", ("n", 6, 9, 9), (9, 2, 3, 3), groups=3),
    _convolution("conv dilated", ("n", 16, 21, 19), (16, 16, 3, 3), dilation=2, padding=2),
    _convolution("conv dilated", ("n", 5, 17, 13), (8, 5, 3, 3), dilation=(3, 2), in_ci=True),
    _convolution("conv strided", ("n", 16, 29, 31), (32, 16, 3, 3), strides=2, padding=1, in_ci=True),
    _convolution("conv strided", ("n", 24, 17, 17), (16, 24, 5, 5), strides=3),
    _convolution("conv 1-d, 3-d", ("n", 6, 101), (11, 6, 5), name="nn.conv1d", strides=2, padding=2),
    _convolution("conv 1-d, 3-d", ("n", 16, 64), (32, 16, 3), name="nn.conv1d", padding=1, in_ci=True),
    _convolution("conv 1-d, 3-d", ("n", 4, 7, 9, 8), (6, 4, 3, 3, 3), name="nn.conv3d", padding=1),
    _convolution("conv transposed", ("n", 16, 9, 7), (16, 24, 3, 3), name="nn.conv2d_transpose", strides=2,
                 padding=1, output_padding=1, in_ci=True),
    _convolution("conv transposed", ("n", 7, 11, 5), (7, 5, 4, 4), name="nn.conv2d_transpose", strides=3),
    _convolution("conv transposed", ("n", 64, 14, 14), (64, 32, 2, 2), name="nn.conv2d_transpose", strides=2),
    _convolution("conv transposed", ("n", 8, 33), (8, 4, 5), name="nn.conv1d_transpose", strides=2),
    _winograd(("n", 16, 20, 23), 16, in_ci=True),
    _winograd(("n", 48, 33, 17), 32),
    _winograd(("n", 64, 56, 56), 64),
    _winograd(("n", 32, 19, 28), 48, padding=0),
)  # fmt: skip


def _pooling(kind: str, data: Dims, in_ci: bool = False, dims: int = 2, **attrs: Any) -> Form:
    name = f"nn.{kind}_pool{dims}d"
    function = oracle(name, **attrs)
    is_max = kind.endswith("max")
    reference = relative(function) if is_max else relative(function, lambda x: function(abs(x)), 64)
    text = " ".join(f"{key} {value}" for key, value in attrs.items())
    return Form(
        "pooling",
        f"{kind} {dims}-d {'×'.join(map(str, data[1:]))} {text}",
        (data,),
        call(name, **attrs),
        reference,
        "rounded" if is_max else "accumulated",
        (*FINITE, "infinite") if is_max else ALL,
        _IMAGES,
        in_ci=in_ci,
    )


_POOLING = (
    _pooling("max", ("n", 16, 14, 14), pool_size=2, strides=2),
    _pooling("max", ("n", 7, 13, 11), in_ci=True, pool_size=3, strides=2, padding=1),
    _pooling("max", ("n", 64, 57, 57), pool_size=3, strides=2, padding=1, ceil_mode=True),
    _pooling("avg", ("n", 7, 13, 11), in_ci=True, pool_size=3, strides=2, padding=1),
    _pooling("avg", ("n", 16, 28, 28), pool_size=2, strides=2, count_include_pad=True),
    _pooling("avg", ("n", 5, 31), dims=1, pool_size=4, strides=3),
    _pooling("max", ("n", 3, 7, 6, 5), dims=3, pool_size=2, strides=1),
    _pooling("adaptive_avg", ("n", 512, 7, 7), output_size=1),
    _pooling("adaptive_avg", ("n", 17, 13, 9), output_size=4),
    _pooling("adaptive_max", ("n", 17, 13, 9), output_size=(3, 2)),
)
CONVOLUTIONS: tuple[Form, ...] = (*_CONVOLUTIONS, *_POOLING)
