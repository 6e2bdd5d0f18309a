"""Matrix products."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.registry import converts
from heddle.ir.expr import Expr
from heddle.prim.nodes import is_const_int
from heddle.prim.ops import multiply
from heddle.runtime.dtype import DataType


@converts("MatMul")
def matmul(ctx: NodeContext) -> Result:
    """MatMul: numpy.matmul."""
    return product(ctx, ctx.tensor(0), ctx.tensor(1))


def product(ctx: NodeContext, a: Expr, b: Expr, out_dtype: str | None = None) -> Expr:
    """numpy's matmul; batch and inner dimensions that are symbolic are made to agree."""
    a, b = with_common_inner(ctx, a, b)
    return ctx.call("matmul", a, b, out_dtype=out_dtype)


def with_common_inner(ctx: NodeContext, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """The factors of a product with one inner dimension, which is checked when the program runs where that of
    either is symbolic."""
    x, y = ctx.dims_of(a), ctx.dims_of(b)
    if len(x) > 1 and len(y) > 1:
        inner = ctx.importer.common_dim((x[-1], y[-2]))
        if not (is_const_int(x[-1]) and is_const_int(y[-2])):
            a = ctx.cast_shape(a, (*x[:-1], inner))
            b = ctx.cast_shape(b, (*y[:-2], inner, y[-1]))
    return a, b


@converts("Gemm")
def gemm(ctx: NodeContext) -> Expr:
    """alpha * A' @ B' + beta * C."""
    a, b = ctx.tensor(0), ctx.tensor(1)
    if ctx.ndim(0) != 2 or ctx.ndim(1) != 2:
        ctx.malformed(f"expected matrices, got {ctx.ndim(0)} and {ctx.ndim(1)} dimensions")
    if ctx.flag("transA"):
        a = ctx.call("permute_dims", a, axes=(1, 0))
    if ctx.flag("transB"):
        b = ctx.call("permute_dims", b, axes=(1, 0))
    made = ctx.call("matmul", a, b)
    made = scaled(ctx, made, ctx.attr("alpha", 1.0))
    if not ctx.has(2):
        return made
    return ctx.binary("add", made, scaled(ctx, ctx.tensor(2), ctx.attr("beta", 1.0)))


def scaled(ctx: NodeContext, x: Expr, factor: float) -> Expr:
    """The tensor times a factor; itself for 1."""
    return x if factor == 1.0 else ctx.call("multiply", x, ctx.like(factor, 0))


@converts("Einsum")
def einsum(ctx: NodeContext) -> Result:
    """Einsum: the sum of products that the equation names."""
    subscripts, tensors = _without_own_sums(ctx, ctx.attr("equation").replace(" ", ""), ctx.tensors())
    made = _as_matrix_product(ctx, subscripts, tensors)
    return ctx.call("einsum", tuple(tensors), subscripts=subscripts) if made is None else made


_WIDE = ("float32", "float64", "int32", "int64", "uint32", "uint64")
"""Types in which a sum of a part is as good as one of the whole."""


def _without_own_sums(ctx: NodeContext, subscripts: str, tensors: list[Expr]) -> tuple[str, list[Expr]]:
    """Letters that one tensor alone has are summed before the products: `ij,jk->i` is `ij,j->i` of the sums
    over k, a product for each k less."""
    sides, arrow, result = subscripts.partition("->")
    letters = sides.split(",")
    if not arrow or "." in subscripts or not 2 <= len(letters) == len(tensors) or ctx.dtype(0) not in _WIDE:
        return subscripts, tensors
    made = list(tensors)
    for number, own in enumerate(letters):
        others = "".join(letters[:number] + letters[number + 1 :]) + result
        alone = [k for k, letter in enumerate(own) if letter not in others and own.count(letter) == 1]
        if alone and len(own) == len(ctx.dims_of(made[number])):
            made[number] = ctx.call("sum", made[number], axis=tuple(alone))
            letters[number] = "".join(letter for k, letter in enumerate(own) if k not in alone)
    return ",".join(letters) + arrow + result, made


_TWO_OPERANDS = re.compile(r"([a-zA-Z]+),([a-zA-Z]+)->([a-zA-Z]*)")


def _as_matrix_product(ctx: NodeContext, subscripts: str, tensors: Sequence[Expr]) -> Expr | None:
    """An Einsum of two tensors that is a product of matrices, perhaps many: each letter stands in both
    tensors and the result (batch), in both tensors alone (inner), or in one tensor and the result (rows,
    columns)."""
    found = _TWO_OPERANDS.fullmatch(subscripts)
    if found is None or not DataType(ctx.dtype(0)).is_float:
        return None
    left, right, result = found.groups()
    if any(len(set(letters)) != len(letters) for letters in (left, right, result)):
        return None
    dims = [ctx.dims_of(tensor) for tensor in tensors]
    if len(dims) != 2 or (len(left), len(right)) != (len(dims[0]), len(dims[1])):
        return None
    batch = [letter for letter in result if letter in left and letter in right]
    rows = [letter for letter in result if letter in left and letter not in right]
    columns = [letter for letter in result if letter in right and letter not in left]
    inner = [letter for letter in left if letter in right and letter not in result]
    is_product = {*batch, *rows, *inner} == set(left) and {*batch, *inner, *columns} == set(right)
    if not (
        is_product and len(batch) + len(rows) + len(columns) == len(result) and rows and columns and inner
    ):
        return None
    sizes = dict(zip(left, dims[0], strict=True)), dict(zip(right, dims[1], strict=True))
    if not all(ctx.importer.same_dims((sizes[0][k],), (sizes[1][k],)) for k in (*batch, *inner)):
        return None
    size = sizes[0] | sizes[1]
    made = product(
        ctx,
        _arranged(ctx, tensors[0], left, (batch, rows, inner)),
        _arranged(ctx, tensors[1], right, (batch, inner, columns)),
    )
    order = [*batch, *rows, *columns]
    made = ctx.reshape(made, [size[letter] for letter in order])
    return _in_order(ctx, made, order, list(result))


def _arranged(ctx: NodeContext, x: Expr, letters: str, groups: Sequence[Sequence[str]]) -> Expr:
    """A tensor with its axes by groups; the letters of the last two groups become an axis each."""
    size = dict(zip(letters, ctx.dims_of(x), strict=True))
    batch, *matrix = groups
    moved = _in_order(ctx, x, list(letters), [letter for group in groups for letter in group])
    flat = [reduce(multiply, (size[letter] for letter in group)) for group in matrix]
    return ctx.reshape(moved, [*(size[letter] for letter in batch), *flat])


def _in_order(ctx: NodeContext, x: Expr, letters: list[str], wanted: list[str]) -> Expr:
    axes = tuple(letters.index(letter) for letter in wanted)
    return x if axes == tuple(range(len(axes))) else ctx.call("permute_dims", x, axes=axes)


@converts("Det")
def det(ctx: NodeContext) -> Result:
    """Det: (..., m, m) → (...)."""
    return ctx.call("linalg.det", ctx.tensor(0))


@converts("MatMulInteger")
def matmul_integer(ctx: NodeContext) -> Result:
    """(A - a_zero) @ (B - b_zero) in int32, of differences that are exact in int16; a zero point is one
    value, or one for each row of A or column of B. The bytes themselves get a common inner dimension: the
    compiler looks for a product of differences."""
    a, b = (ctx.astype(x, "int16") for x in with_common_inner(ctx, ctx.tensor(0), ctx.tensor(1)))
    if ctx.has(2):
        zero = ctx.astype(ctx.tensor(2), "int16")
        if ctx.ndim(2) == 1:
            zero = ctx.reshape(zero, (*ctx.dims(2), 1))
        a = ctx.binary("subtract", a, zero)
    if ctx.has(3):
        b = ctx.binary("subtract", b, ctx.astype(ctx.tensor(3), "int16"))
    return product(ctx, a, b, "int32")
