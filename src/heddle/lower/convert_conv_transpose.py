"""ConvertConvTranspose: replace a transposed convolution by a plain one whose results are interleaved.

    y = R.nn.conv2d_transpose(x, w: (8, 4, 4, 4), strides=2, padding=1)
        →
    z = R.nn.conv2d(x, w': (16, 8, 2, 2), padding=1)            one image for each remainder of the position
    y = R.call_tir(cls.alternate_pixels, (z,))
                            y[n, c, 2 * i + r - 1, 2 * j + s - 1] = z[n, 4 * (2 * r + s) + c, i, j]

With a stride of s a result takes every s-th tap of the kernel only: tap k meets the results at positions
i * s + k, so those of remainder r take the taps r, r + s, ..., from the last to the first. The other form,
zeros between the pixels, multiplies s² times as much. Volumes alternate along three axes.

Where the stride does not divide the kernel, the first remainders have one tap more than the others. Those
with equally many taps make a convolution of their own: a kernel of 3 × 3 and a stride of 2 give kernels of
2 × 2, 2 × 1, 1 × 2 and 1 × 1. No taps of zero are added: zero times infinity is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np

from heddle.arith import Analyzer
from heddle.graph import op
from heddle.graph.infer import tensor_dims
from heddle.graph.op_builder import const
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.ir.expr import Call, Expr, Var
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.lower.normal_form import GRAPHS
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.support.frozen import frozen
from heddle.topi.nn.padding import alternate_pixels
from heddle.topi.nn.window import pads, spatial_letters, spread

_KINDS = {"relax.nn.conv2d_transpose": "conv2d", "relax.nn.conv3d_transpose": "conv3d"}


class ConvertConvTranspose(Pass):
    """Requires the normal form. Dilated kernels, kernels of unknown size, other layouts stay. So do kernels
    shorter than the stride: some results have no tap at all."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        converter = _Converter(mod)
        for var, func in self.functions(mod):
            converter.update_func(var, converter.run(func))
        return converter.get()


@frozen
class _Remainders:
    """`count` remainders from `first` on, whose results take `taps` taps each; `before` is the padding of
    their convolution."""

    first: int
    count: int
    taps: int
    before: int

    def kernel(self, stride: int) -> list[int]:
        """The taps of the whole kernel, those of the remainders side by side, from the last to the first."""
        steps = reversed(range(self.taps))
        return [self.first + r + stride * step for step in steps for r in range(self.count)]


@frozen
class _Axis:
    """A spatial axis: the remainders by the number of their taps, the padding behind, and where the result
    begins among the alternating pixels."""

    stride: int
    parts: tuple[_Remainders, ...]
    after: int
    begin: int

    @staticmethod
    def of(kernel: int, stride: int, before: int, after: int, more: int) -> _Axis | None:
        """None where some results have no tap, or begin behind what they take."""
        fewest, longer = divmod(kernel, stride)
        sizes = [(0, longer, fewest + 1), (longer, stride - longer, fewest)]
        parts = tuple(
            _Remainders(first, count, taps, taps - 1 - before // stride)
            for first, count, taps in sizes
            if count
        )
        if any(part.taps < 1 or part.before < 0 for part in parts):
            return None
        positions = kernel - (after - more)  # of the last image's taps that the result reaches
        return _Axis(stride, parts, max(-(-positions // stride) - 1, 0), before % stride)


class _Converter(BindingRewriter):
    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        kind = next((conv for name, conv in _KINDS.items() if is_call(value, name)), None)
        if kind is None or not isinstance(value, Call):
            return value
        weight, result = (tensor_dims(expr) for expr in (value.args[1], value))
        axes = None if weight is None else _axes_of(value.attrs, weight)
        if axes is None or weight is None or result is None:
            return value
        shape = [_extent(dim) for dim in weight]
        return self._converted(value, getattr(op.nn, kind), axes, shape, result)

    def _converted(
        self, call: Call, conv: Any, axes: Sequence[_Axis], weight: list[int], result: Sequence[PrimExpr]
    ) -> Expr:
        if all(axis.stride == 1 for axis in axes):
            return self._convolution(call, conv, axes, [axis.parts[0] for axis in axes], weight)
        images = [
            self.emit(self._convolution(call, conv, axes, list(chosen), weight), "images")
            for chosen in product(*(axis.parts for axis in axes))
        ]
        sizes = (tensor_dims(images[0]) or ())[2:]
        left = [size * axis.stride - dim for size, axis, dim in zip(sizes, axes, result[2:], strict=True)]
        cuts = [_extent(Analyzer().simplify(more)) for more in left]
        parts = [[(part.first, part.count) for part in axis.parts] for axis in axes]
        begins = [axis.begin for axis in axes]
        made: Expr = self.call_te(
            alternate_pixels,
            *images,
            parts=parts,
            begins=begins,
            cuts=cuts,
            images_first=_images_first(int(call.attrs.groups)),
        )
        return made

    def _convolution(
        self, call: Call, conv: Any, axes: Sequence[_Axis], chosen: list[_Remainders], weight: list[int]
    ) -> Expr:
        made: Expr = conv(
            call.args[0],
            self._weights(call.args[1], axes, chosen, int(call.attrs.groups), weight),
            padding=[*(part.before for part in chosen), *(axis.after for axis in axes)],
            groups=call.attrs.groups,
            out_dtype=call.attrs.out_dtype,
        )
        return made

    def _weights(
        self, weight: Expr, axes: Sequence[_Axis], chosen: list[_Remainders], groups: int, shape: list[int]
    ) -> Expr:
        """(in, out of a group, kernel...) → (remainders × out, in of a group, taps...), or out ×
        remainders."""
        ins, outs = shape[0] // groups, shape[1]
        for k, (axis, part) in enumerate(zip(axes, chosen, strict=True)):
            kernel = part.kernel(axis.stride)
            if kernel != list(range(shape[2 + k])):
                weight = self.emit(op.take(weight, const(np.array(kernel, "int64")), axis=2 + k), "taps")
        parts = (groups, ins, outs, *(size for part in chosen for size in (part.taps, part.count)))
        weight = self.emit(op.reshape(weight, parts), "parts")
        taps = [3 + 2 * k for k in range(len(axes))]
        images = [axis + 1 for axis in taps]
        order = [0, *images, 2, 1, *taps] if _images_first(groups) else [0, 2, *images, 1, *taps]
        weight = self.emit(op.permute_dims(weight, order), "weights")
        remainders = prod(part.count for part in chosen)
        flat = (groups * outs * remainders, ins, *(part.taps for part in chosen))
        return self.emit(op.reshape(weight, flat), "weights")


def _images_first(groups: int) -> bool:
    """Whether the images lie one behind the other, each with all channels: then blocks of channels stay
    blocks. Channels of a group lie together."""
    return groups == 1


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
    axes = [_Axis.of(*numbers) for numbers in zip(kernel, strides, before, after, more, strict=True)]
    found = tuple(axis for axis in axes if axis is not None)
    return found if len(found) == len(axes) else None
