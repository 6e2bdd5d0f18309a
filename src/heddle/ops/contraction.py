"""Products of tensors beyond matmul: linear, outer, einsum."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.graph.op_builder import call_op
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.manipulate import tuple_types
from heddle.ops.rules import computed_in, contraction_work, require_ndim, unknown_dims
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError
from heddle.topi.contraction import einsum, letter_sizes, parse_subscripts

_LAYOUT = Without("packing is a matter of the loop schedule")


def _infer_linear(ctx: Inference) -> Type:
    data, weight = ctx.tensor(0), ctx.tensor(1)
    dtype = DataType(ctx.attrs.out_dtype) if ctx.attrs.out_dtype else ctx.same_dtype(data, weight)
    require_ndim(ctx, weight, 2, "weight")
    if data.ndim == 0:
        ctx.shape_error("data needs at least 1 dimension")
    if data.dims is None or weight.dims is None:
        return unknown_dims(dtype, data.ndim)
    ctx.require_equal(data.dims[-1], weight.dims[1], "input features of data and weight")
    if len(ctx.args) > 2:
        bias = ctx.tensor(2)
        require_ndim(ctx, bias, 1, "bias")
        if bias.dims is not None:
            ctx.require_equal(weight.dims[0], bias.dims[0], "output features of weight and bias")
    return TensorType((*data.dims[:-1], weight.dims[0]), dtype)


def _decompose_linear(builder: Any, call: Any) -> Any:
    data, weight, *bias = call.args
    turned = builder.emit(call_op("permute_dims", weight, axes=(1, 0)))
    product = call_op("matmul", data, turned, out_dtype=call.attrs.out_dtype)
    return call_op("add", builder.emit(product), *bias) if bias else product


def _np_linear(attrs: Any, x: Any, w: Any, *bias: Any) -> Any:
    dtype = DataType(attrs.out_dtype).numpy() if attrs.out_dtype else x.dtype
    wide = computed_in(dtype)
    result = x.astype(wide) @ w.astype(wide).T
    return (result + bias[0] if bias else result).astype(dtype)


def _infer_einsum(ctx: Inference) -> Type:
    types = tuple_types(ctx)
    dtype = ctx.same_dtype(*types)
    if any(ty.dims is None for ty in types):
        return unknown_dims(dtype)
    shapes = [ty.dims or () for ty in types]
    try:
        inputs, output = parse_subscripts(str(ctx.attrs.subscripts), [len(shape) for shape in shapes])
    except IRTypeError as error:
        ctx.attr_error(error.diagnostics[0].message)
    sizes = letter_sizes(inputs, shapes)
    for letters, shape in zip(inputs, shapes, strict=True):
        for letter, dim in zip(letters, shape, strict=True):
            if getattr(dim, "value", None) != 1:
                ctx.require_equal(sizes[letter], dim, f"sizes of {letter!r}")
    return TensorType(tuple(sizes[c] for c in output), dtype)


def _infer_outer(ctx: Inference) -> Type:
    a, b = ctx.tensor(0), ctx.tensor(1)
    dtype = ctx.same_dtype(a, b)
    require_ndim(ctx, a, 1, "x1")
    require_ndim(ctx, b, 1, "x2")
    return (
        unknown_dims(dtype, 2)
        if a.dims is None or b.dims is None
        else TensorType((a.dims[0], b.dims[0]), dtype)
    )


def _einsum_work(attrs: Any, shapes: Sequence[tuple[int, ...]], result: tuple[int, ...]) -> int:
    """The product of all letters' sizes; what an ellipsis stands for counts once for each operand."""
    terms = str(attrs.subscripts).replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    rest = 1
    for term, shape in zip(terms, shapes, strict=False):
        head, _, tail = term.partition("...")
        ends = (*zip(head, shape, strict=False), *zip(reversed(tail), reversed(shape), strict=False))
        sizes.update({letter: max(size, sizes.get(letter, 1)) for letter, size in ends})
        if "..." in term:
            rest *= prod(shape[len(head) : len(shape) - len(tail)])
    return prod(sizes.values()) * rest


def declare() -> None:
    """Put the operators of this file into the table."""
    declare_op(
        OpDef(
            name="linear",
            inputs=(
                Input("data", meaning="(..., in)"),
                Input("weight", meaning="(out, in)"),
                Input("bias", "tensor", "(out,)", True),
            ),
            attrs=(
                AttrSpec(
                    "out_dtype",
                    "dtype",
                    None,
                    "element type of accumulation and result; default: the inputs'",
                ),
            ),
            doc="data @ weight.T + bias.",
            infer=_infer_linear,
            reference=_np_linear,
            work=contraction_work,
            decompose=_decompose_linear,
            layout=_LAYOUT,
            samples=(
                Sample(((3, 5), (7, 5), (7,))),
                Sample(((2, 3, 4), (2, 4))),
                Sample(((4,), (3, 4), (3,))),
            ),
            errors=(
                ErrorSample(((3, 5), (7, 4)), {}, "R0203", "input features"),
                ErrorSample(((3, 5), (7, 5), (5,)), {}, "R0203", "output features"),
            ),
        )
    )
    declare_op(
        OpDef(
            name="outer",
            inputs=(Input("x1", meaning="(n,)"), Input("x2", meaning="(m,)")),
            attrs=(),
            doc="The products of all pairs of elements of two vectors.",
            infer=_infer_outer,
            reference=lambda attrs, a, b: np.outer(a, b),
            lower=lambda attrs, a, b: einsum("i,j->ij", a, b),
            layout=_LAYOUT,
            samples=(Sample(((3,), (5,)), dtypes=("float32", "int32")), Sample(((0,), (2,)))),
            errors=(ErrorSample(((3, 2), (5,)), {}, "R0203", "x1 must have 1 dimensions"),),
        )
    )
    declare_op(
        OpDef(
            name="einsum",
            inputs=(Input("operands", "tensors", "the factors"),),
            attrs=(AttrSpec("subscripts", "str"),),
            doc="Products over equal letters, summed over letters that the result lacks, as numpy's einsum.",
            infer=_infer_einsum,
            reference=lambda attrs, xs: np.asarray(
                np.einsum(attrs.subscripts, *(x.astype(computed_in(x.dtype)) for x in xs))
            ).astype(xs[0].dtype),
            work=_einsum_work,
            lower=lambda attrs, xs: einsum(str(attrs.subscripts), *xs),
            layout=_LAYOUT,
            samples=(
                Sample((((3, 5), (5, 7)),), {"subscripts": "ij,jk->ik"}),
                Sample((((2, 3, 4), (2, 4, 5)),), {"subscripts": "bij,bjk->bik"}),
                Sample((((3, 4),),), {"subscripts": "ij->ji"}),
                Sample((((3, 3),),), {"subscripts": "ii"}),
                Sample((((3, 5),),), {"subscripts": "ij->j"}),
                Sample((((2, 3, 4), (4, 5)),), {"subscripts": "...i,ij->...j"}),
                Sample((((2, 3), (3, 4), (4, 5)),), {"subscripts": "ij,jk,kl->il"}),
                Sample((((3,), (3,)),), {"subscripts": "i,i"}),
            ),
            errors=(
                ErrorSample((((3, 4), (5, 2)),), {"subscripts": "ij,jk->ik"}, "R0203", "sizes of 'j' differ"),
                ErrorSample((((3, 4),),), {"subscripts": "ij,jk->ik"}, "R0205", "name 2 operands"),
                ErrorSample(
                    (((3, 4),),), {"subscripts": "ijk->i"}, "R0205", "do not fit a tensor of 2 dimensions"
                ),
            ),
        )
    )
