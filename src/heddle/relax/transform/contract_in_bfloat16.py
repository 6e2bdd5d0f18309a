"""ContractInBfloat16: round the factors of products with constant weights to bfloat16; sum in float32.

    y = R.matmul(x, w)        →        h = R.astype(x, dtype="bfloat16")
                                       v = R.astype(w, dtype="bfloat16")
                                       y = R.matmul(h, v, out_dtype="float32")

`x` and the constant `w` are float32, as is the result: only the factors are rounded (to 8 bits), the sums are
not. FoldConstant rounds the weights once and for all, which halves them. Everything else keeps float32:
products of two computed tensors (attention's scores), softmax, norms, reductions, activations, and what has
another element type already.

Mirrors TVM's ToMixedPrecision, which is about float16 and about all operators by a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from heddle.graph import op
from heddle.graph.infer import type_of
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, Var
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import IntImm

NARROW, WIDE = "bfloat16", "float32"


class ContractInBfloat16(FunctionPass):
    """`R.matmul` and `R.linear` whose second factor is a constant matrix, or constant matrices; `R.nn.conv2d`
    (NCHW) with constant weights where it pays: with one group and whole blocks of channels, but not with
    3 × 3 taps at stride 1 over large images, of which Winograd's form has fewer products in float32.

    Requires the normal form. Run FoldConstant after it.
    """

    dialects: ClassVar[tuple[str, ...] | None] = ("relax",)

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        return _Narrower(mod).run(func)


class _Narrower(BindingRewriter):
    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not isinstance(value, Call) or not _is_float32_product(value):
            return value
        data, weight, *bias = value.args
        if is_call(value, "relax.nn.conv2d"):
            attrs = {**dict(value.attrs.items()), "out_dtype": WIDE}
            return op.nn.conv2d(*self._narrow(data, weight), **attrs) if _pays(value) else value
        if is_call(value, "relax.matmul"):
            return self._product(data, weight)
        turned = self.bind(self.value(op.permute_dims(weight, axes=(1, 0))))
        product = self._product(data, turned)
        return op.add(self.bind(self.value(product)), bias[0]) if bias else product

    def _product(self, data: Expr, weight: Expr) -> Expr:
        made: Expr = op.matmul(*self._narrow(data, weight), out_dtype=WIDE)
        return made

    def _narrow(self, *factors: Expr) -> list[Expr]:
        return [self.bind(self.value(op.astype(factor, dtype=NARROW))) for factor in factors]


_PRODUCTS = ("relax.matmul", "relax.linear", "relax.nn.conv2d")
_CHANNELS = 8
"""Convolutions multiply whole blocks of this many channels."""
_WINOGRAD_PIXELS = 256
"""Of images of 14 × 14 pixels the transformed weights, 16 for 9 and in float32, are too much to read."""


def _is_float32_product(call: Call) -> bool:
    """Whether a call multiplies by constant matrices, and all it takes and gives is float32."""
    if not any(is_call(call, name) for name in _PRODUCTS):
        return False
    if (
        not isinstance(call.args[1], Constant)
        or call.args[1].data.ndim < 2
        or isinstance(call.args[0], Constant)
    ):
        return False
    types = [type_of(arg) for arg in (*call.args, call)]
    return all(isinstance(ty, TensorType) and ty.dtype == WIDE for ty in types)


def _pays(conv: Call) -> bool:
    """Whether a convolution of constant weights is faster with narrow factors."""
    attrs, weight = conv.attrs, conv.args[1]
    assert isinstance(weight, Constant)
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or attrs.data_layout)
    if layouts != ("NCHW", "OIHW", "NCHW") or attrs.groups != 1:
        return False
    outs, ins, *taps = weight.data.shape
    winograd = taps == [3, 3] and _all_ones(attrs.strides) and _all_ones(attrs.dilation)
    return outs % _CHANNELS == 0 and ins % _CHANNELS == 0 and not (winograd and _is_large(type_of(conv)))


def _is_large(image: Any) -> bool:
    """Whether images have, or may have, more than _WINOGRAD_PIXELS."""
    assert isinstance(image, TensorType) and image.dims is not None
    rows, columns = (dim.value if isinstance(dim, IntImm) else _WINOGRAD_PIXELS + 1 for dim in image.dims[2:])
    return rows * columns > _WINOGRAD_PIXELS


def _all_ones(steps: Sequence[int] | int) -> bool:
    return set(steps if isinstance(steps, Sequence) else (steps,)) == {1}
