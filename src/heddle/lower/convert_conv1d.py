"""ConvertConv1D: convolutions of sequences are convolutions of images of one row.

    y = R.nn.conv1d(x, w, strides=2, padding=[1, 1])
        →
    image, kernel = R.expand_dims(x, 2), R.expand_dims(w, 2)
    y = R.squeeze(R.nn.conv2d(image, kernel, strides=[1, 2], padding=[0, 1, 0, 1]), 2)

So they have the layouts, register tiles and schedules of images, for free lengths too. Constant weights are
folded, the other steps renumber elements where they lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from heddle.graph import op
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.ir.expr import Call, Expr, Function, Var
from heddle.ir.transform import FunctionPass, PassContext
from heddle.topi.nn.window import pads, spread

_KINDS = {"relax.nn.conv1d": "conv2d", "relax.nn.conv1d_transpose": "conv2d_transpose"}


@dataclass(frozen=True)
class ConvertConv1D(FunctionPass):
    """Requires the normal form."""

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Converter(mod).run(func)


class _Converter(BindingRewriter):
    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        for name, conv in _KINDS.items():
            if isinstance(value, Call) and is_call(value, name):
                return self._converted(value, getattr(op.nn, conv))
        return value

    def _converted(self, call: Call, conv: Any) -> Expr:
        attrs = call.attrs
        out_layout = str(attrs.out_layout or attrs.data_layout)
        layouts = [str(attrs.data_layout), str(attrs.kernel_layout)]
        images = [
            self.emit(op.expand_dims(arg, layout.index("W")), "image")
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


def _with_rows(layout: str) -> str:
    return layout.replace("W", "HW")
