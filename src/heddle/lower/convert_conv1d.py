"""ConvertConv1D: convert 1D convolutions to 2D convolutions of images with one row.

    y = R.nn.conv1d(x, w, strides=2, padding=[1, 1])
        →
    image, kernel = R.expand_dims(x, 2), R.expand_dims(w, 2)
    y = R.squeeze(R.nn.conv2d(image, kernel, strides=[1, 2], padding=[0, 1, 0, 1]), 2)

So they have the layouts, register tiles and schedules of images, for free lengths too. Constant weights are
folded, the other steps renumber elements where they lie. Elementwise work, padding, splits and joins between
convolutions are of images too, which can lie in blocks of channels from one convolution to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from heddle.graph import op
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import TensorType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Expr, Function, Tuple, TupleGetItem, Var
from heddle.ir.node import replace
from heddle.ir.op_def import AnyLayout, op_def
from heddle.ir.transform import FunctionPass, PassContext
from heddle.lower.normal_form import GRAPHS
from heddle.topi.nn.window import pads, spread

ROW = 2
"""The axis of an image (n, c, h, w) that a sequence (n, c, l) does not have."""
_KINDS = {"relax.nn.conv1d": "conv2d", "relax.nn.conv1d_transpose": "conv2d_transpose"}


class ConvertConv1D(FunctionPass):
    """Requires the normal form."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Converter(mod).run(func)


class _Converter(BindingRewriter):
    """`_images` are the images of one row that sequences (n, c, l) were squeezed from, `_tuples` tuples of
    such images."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self._images: dict[Expr, Var] = {}
        self._tuples: dict[Expr, Var] = {}

    def add(self, binding: Binding) -> None:
        super().add(binding)
        value = binding.value
        source = value.args[0] if isinstance(value, Call) and _is_squeezed(value) else None
        if isinstance(source, Var) and (binding.var.is_dataflow or not source.is_dataflow):
            self._images[binding.var] = source  # which is seen wherever the sequence is

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if isinstance(value, TupleGetItem):
            images = self._tuples.get(value.tuple_value)
            return value if images is None else self._squeezed(TupleGetItem(images, value.index))
        if not isinstance(value, Call):
            return value
        for name, conv in _KINDS.items():
            if is_call(value, name):
                return self._converted(value, getattr(op.nn, conv))
        if not any(arg in self._images for arg in _tensors(value)) or not _is_sequence(value):
            return self._split(var, value)
        for name, moved in _MOVES.items():
            if is_call(value, name):
                return self._squeezed(moved(value, self._image))
        record = op_def(value.op)
        if record is None or not isinstance(record.layout, AnyLayout):
            return value
        return self._squeezed(replace(value, args=tuple(map(self._image, value.args)), ty=None))

    def _split(self, var: Var, value: Call) -> Expr:
        """A split of a sequence is one of its image, and stays for whoever takes all parts."""
        if is_call(value, "relax.split") and value.args[0] in self._images:
            attrs = {**dict(value.attrs.items()), "axis": _moved_axis(value.attrs.axis)}
            args = (self._images[value.args[0]],)
            self._tuples[var] = self.emit(replace(value, args=args, attrs=attrs_of(attrs), ty=None))
        return value

    def _image(self, arg: Expr) -> Expr:
        """An operand beside images: of fewer dimensions, or of a sequence, it gets a row."""
        ty = type_of(arg)
        if arg in self._images:
            return self._images[arg]
        if not isinstance(ty, TensorType) or ty.ndim < 2:
            return arg
        return self.emit(op.expand_dims(arg, ty.ndim - 1), "image")

    def _squeezed(self, image: Expr) -> Expr:
        squeezed: Expr = op.squeeze(self.emit(image, "image"), ROW)
        return squeezed

    def _converted(self, call: Call, conv: Any) -> Expr:
        attrs = call.attrs
        out_layout = str(attrs.out_layout or attrs.data_layout)
        layouts = [str(attrs.data_layout), str(attrs.kernel_layout)]
        images = [
            self._images[arg]
            if arg in self._images and layout.index("W") == ROW
            else self.emit(op.expand_dims(arg, layout.index("W")), "image")
            for arg, layout in zip(call.args, layouts, strict=True)
        ]
        before, after = pads(attrs.padding, 1)
        more = {"output_padding": [0, *spread(attrs.output_padding, 1)]} if "output_padding" in attrs else {}
        made = conv(
            *images,
            strides=[1, *spread(attrs.strides, 1)],
            padding=[0, *before, 0, *after],
            dilation=[1, *spread(attrs.dilation, 1)],
            groups=attrs.groups,
            data_layout=_with_rows(layouts[0]),
            kernel_layout=_with_rows(layouts[1]),
            out_layout=_with_rows(out_layout),
            out_dtype=attrs.out_dtype,
            **more,
        )
        squeezed: Expr = op.squeeze(self.emit(made, "convolved"), out_layout.index("W"))
        return squeezed


def _is_squeezed(value: Call) -> bool:
    """Whether a sequence (n, c, l) loses the row of its image."""
    if not is_call(value, "relax.squeeze"):
        return False
    ty, axis = type_of(value.args[0]), value.attrs.axis
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return isinstance(ty, TensorType) and ty.ndim == ROW + 2 and list(axes) == [ROW]


def _tensors(value: Call) -> list[Expr]:
    return [item for arg in value.args for item in (arg.fields if isinstance(arg, Tuple) else (arg,))]


def _is_sequence(value: Call) -> bool:
    ty = type_of(value)
    return isinstance(ty, TensorType) and ty.ndim == ROW + 1


def _moved_axis(axis: int) -> int:
    """An axis of a sequence in its image."""
    axis %= ROW + 1
    return axis + (axis >= ROW)


def _concatenated(value: Call, image: Callable[[Expr], Expr]) -> Expr:
    parts = [image(part) for part in _tensors(value)]
    made: Expr = op.concat(tuple(parts), axis=_moved_axis(value.attrs.axis))
    return made


def _padded(value: Call, image: Callable[[Expr], Expr]) -> Expr:
    widths = list(value.attrs.pad_width)
    attrs = {**dict(value.attrs.items()), "pad_width": [*widths[: 2 * ROW], 0, 0, *widths[2 * ROW :]]}
    return replace(value, args=(image(value.args[0]),), attrs=attrs_of(attrs), ty=None)


_MOVES: dict[str, Callable[[Call, Callable[[Expr], Expr]], Expr]] = {
    "relax.concat": _concatenated,
    "relax.nn.pad": _padded,
}
"""Operators that name axes: how they are applied to images."""


def _with_rows(layout: str) -> str:
    return layout.replace("W", "HW")
