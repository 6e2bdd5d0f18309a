"""ConvertConvTranspose: a transposed convolution is a convolution to several images, whose pixels alternate.

    y = R.nn.conv2d_transpose(x, w: (8, 4, 4, 4), strides=2, padding=1)
        →
    z = R.nn.conv2d(x, w': (16, 8, 2, 2), padding=1)            one image for each remainder of the position
    y[n, c, 2 * i + r - 1, 2 * j + s - 1] = z[n, 4 * c + 2 * r + s, i, j]

With a stride of s a result takes every s-th tap of the kernel only: tap k meets the results at positions
i * s + k, so those of remainder r take the taps r, r + s, ..., from the last to the first. The other form,
zeros between the pixels, multiplies s² times as much. Volumes alternate along three axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from heddle.graph import op
from heddle.graph.infer import type_of
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Expr, Function, Var
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.topi.nn.window import pads, spatial_letters, spread

_KINDS = {"relax.nn.conv2d_transpose": "conv2d", "relax.nn.conv3d_transpose": "conv3d"}


@dataclass(frozen=True)
class ConvertConvTranspose(FunctionPass):
    """Requires the normal form. Dilated kernels, kernels of unknown size, other layouts stay. So do kernels
    whose size is no multiple of the stride: taps of zero would be added, and zero times infinity is NaN."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Converter(mod).run(func)


@dataclass(frozen=True, slots=True)
class _Axis:
    """A spatial axis: `taps` of the kernel for each of `stride` remainders, the padding of the convolution,
    and where the result begins among the alternating pixels."""

    stride: int
    taps: int
    before: int
    after: int
    begin: int

    @staticmethod
    def of(kernel: int, stride: int, before: int, after: int, more: int) -> _Axis:
        taps = kernel // stride
        spare = after - more  # positions behind the result
        return _Axis(
            stride,
            taps,
            taps - 1 - before // stride,
            max(taps - 1 - spare // stride, 0),
            before % stride,
        )


class _Converter(BindingRewriter):
    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        kind = next((conv for name, conv in _KINDS.items() if is_call(value, name)), None)
        if kind is None or not isinstance(value, Call):
            return value
        weight, result = (_dims(type_of(expr)) for expr in (value.args[1], value))
        axes = None if weight is None else _axes_of(value.attrs, weight)
        if axes is None or weight is None or result is None:
            return value
        weights = self._weights(
            value.args[1], axes, int(value.attrs.groups), [_extent(dim) for dim in weight]
        )
        return self._converted(value, getattr(op.nn, kind), axes, weights, result)

    def _converted(
        self, call: Call, conv: Any, axes: Sequence[_Axis], weights: Expr, result: Sequence[PrimExpr]
    ) -> Expr:
        made: Expr = conv(
            call.args[0],
            weights,
            padding=[*(axis.before for axis in axes), *(axis.after for axis in axes)],
            groups=call.attrs.groups,
            out_dtype=call.attrs.out_dtype,
        )
        if all(axis.stride == 1 for axis in axes):
            return made
        made = self.emit(made, "images")
        n, _, *sizes = _dims(type_of(made)) or ()
        channels, ndim = result[1], len(axes)
        strides = [axis.stride for axis in axes]
        made = self.emit(op.reshape(made, (n, channels, *strides, *sizes)), "remainders")
        alternating = [axis for k in range(ndim) for axis in (2 + ndim + k, 2 + k)]
        made = self.emit(op.permute_dims(made, [0, 1, *alternating]), "alternating")
        grown = [size * stride for size, stride in zip(sizes, strides, strict=True)]
        pixels = self.emit(op.reshape(made, (n, channels, *grown)), "pixels")
        ends = [axis.begin + dim for axis, dim in zip(axes, result[2:], strict=True)]
        begins = [axis.begin for axis in axes]
        inner: Expr = op.strided_slice(pixels, list(range(2, 2 + ndim)), begins, ends, assume_inbound=True)
        return inner

    def _weights(self, weight: Expr, axes: Sequence[_Axis], groups: int, shape: list[int]) -> Expr:
        """(in, out of a group, kernel...) → (out × remainders, in of a group, taps...)."""
        ins, outs = shape[0] // groups, shape[1]
        parts = (groups, ins, outs, *(size for axis in axes for size in (axis.taps, axis.stride)))
        weight = self.emit(op.reshape(weight, parts), "parts")
        taps = [3 + 2 * k for k in range(len(axes))]
        for axis in taps:
            weight = self.emit(op.flip(weight, axis), "mirrored")
        weight = self.emit(op.permute_dims(weight, [0, 2, *(axis + 1 for axis in taps), 1, *taps]), "weights")
        remainders = prod(axis.stride for axis in axes)
        flat = (groups * outs * remainders, ins, *(axis.taps for axis in axes))
        return self.emit(op.reshape(weight, flat), "weights")


def _dims(ty: Any) -> tuple[PrimExpr, ...] | None:
    return tuple(ty.dims) if isinstance(ty, TensorType) and ty.dims is not None else None


def _extent(dim: PrimExpr) -> int:
    """A known size, or 0."""
    return dim.value if isinstance(dim, IntImm) else 0


def _axes_of(attrs: Any, dims: Sequence[PrimExpr]) -> tuple[_Axis, ...] | None:
    """The spatial axes, for weights of these dimensions; None for what the pass leaves as it is."""
    ndim = len(dims) - 2
    image, kernel_layout = (letters + spatial_letters(ndim) for letters in ("NC", "IO"))
    layouts = str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or attrs.data_layout)
    if layouts != (image, kernel_layout, image) or any(step != 1 for step in spread(attrs.dilation, ndim)):
        return None
    if any(_extent(dim) < 1 for dim in dims):
        return None
    strides, more = spread(attrs.strides, ndim), spread(attrs.output_padding, ndim)
    before, after = pads(attrs.padding, ndim)
    kernel = [_extent(dim) for dim in dims[2:]]
    if any(size % stride for size, stride in zip(kernel, strides, strict=True)):
        return None
    axes = tuple(_Axis.of(*numbers) for numbers in zip(kernel, strides, before, after, more, strict=True))
    return axes if all(axis.before >= 0 for axis in axes) else None
