"""Gradients of products over common dimensions."""

from __future__ import annotations

from typing import Any

from heddle.graph.gradient import Cotangent, Step, Through
from heddle.graph.infer import type_of
from heddle.graph.op_builder import call_op
from heddle.ir.expr import Tuple, TupleGetItem
from heddle.ir.op_def import Without


def _swapped(step: Step, x: Any, ndim: int) -> Any:
    """The last two axes exchanged."""
    axes = [*range(ndim - 2), ndim - 1, ndim - 2]
    return step("permute_dims", x, axes=axes)


def _rows(step: Step, x: Any, dims: list[Any]) -> Any:
    """All but the last axis as one."""
    while len(dims) > 2:
        x = step.words.join_axes(x, dims, 0)
        dims = [dims[0] * dims[1], *dims[2:]]
    return x


def _matmul(step: Step) -> tuple[Cotangent, ...]:
    """a b: d b^T and a^T d, summed over what was broadcast. Vectors are matrices of one row or column."""
    (a, b), grad, words = step.args, step.grad, step.words
    ranks = step.ndim(0), step.ndim(1)
    dims_a, dims_b = list(step.dims(0)), list(step.dims(1))
    dims_d = list(step.result_type.dims)  # type: ignore[attr-defined]
    if str(step.result_type.dtype) != step.dtype(0):  # type: ignore[attr-defined]
        grad = step("astype", grad, dtype=step.dtype(0))
    if ranks[0] == 1:
        a, dims_a = step("expand_dims", a, axis=[0]), [1, *dims_a]
        place = len(dims_d) - (ranks[1] > 1)
        grad = step("expand_dims", grad, axis=[place])
        dims_d.insert(place, 1)
    if ranks[1] == 1:
        b, dims_b = step("expand_dims", b, axis=[1]), [*dims_b, 1]
        grad = step("expand_dims", grad, axis=[len(dims_d)])
        dims_d.append(1)
    ndim_a, ndim_b, ndim_d = len(dims_a), len(dims_b), len(dims_d)
    to_a = words.matmul(grad, _swapped(step, b, ndim_b), (ndim_d, ndim_b))
    if ndim_b == 2 and ndim_a > 2:
        rows, flat = _rows(step, a, dims_a), _rows(step, grad, dims_d)
        to_b = words.matmul(_swapped(step, rows, 2), flat, (2, 2))
    else:
        to_b = words.matmul(_swapped(step, a, ndim_a), grad, (ndim_a, ndim_d))
    is_stack = ndim_d > 2
    return _settled(step, to_a, 0, is_stack), _settled(step, to_b, 1, is_stack)


def _settled(step: Step, x: Any, k: int, is_stack: bool) -> Any:
    """A gradient in the shape of an argument."""
    ndim = step.ndim(k)
    if ndim == 1:
        if is_stack:
            x = step("squeeze", x, axis=[-2] if k == 0 else [-1])
            return step.words.shaped("sum", x, step.args[k], step.types[k])
        return step.reshaped(x, k)
    others = step.dims(1 - k)
    is_alone = ndim == 2 and len(others) <= 2
    if is_alone or (k == 1 and ndim == 2):
        return x
    return step.words.shaped("sum", x, step.args[k], step.types[k])


def _linear(attrs: Any, data: Any, weight: Any, bias: Any = None) -> Any:
    ndim = type_of(weight).ndim  # type: ignore[attr-defined]
    turned = call_op("permute_dims", weight, axes=[1, 0]) if ndim == 2 else weight
    made = call_op("matmul", data, turned, out_dtype=attrs.out_dtype)
    return made if bias is None else call_op("add", made, bias)


def _outer(attrs: Any, a: Any, b: Any) -> Any:
    return call_op("multiply", call_op("expand_dims", a, axis=[1]), call_op("expand_dims", b, axis=[0]))


def _einsum(step: Step) -> tuple[Cotangent, ...]:
    """The same sum with the gradient in an operand's place."""
    text = str(step.attrs.subscripts).replace(" ", "")
    if "." in text or "->" not in text:
        step.refuse(f"of {text!r}: state the result's letters, without an ellipsis")
    inputs, out = text.split("->")
    names = inputs.split(",")
    given = step.args[0]
    fields = (
        list(given.fields)
        if isinstance(given, Tuple)
        else [TupleGetItem(given, place) for place in range(len(names))]
    )
    found = []
    for place, own in enumerate(names):
        others = [name for k, name in enumerate(names) if k != place]
        if len(set(own)) < len(own) or not set(own) <= set(out).union(*others):
            step.refuse(f"of {text!r}: operand {place} has a letter twice, or alone")
        operands = Tuple((*(field for k, field in enumerate(fields) if k != place), step.grad))
        found.append(step("einsum", operands, subscripts=f"{','.join([*others, out])}->{own}"))
    return (tuple(found),)


def rules() -> dict[str, Any]:
    """The rules of this file by the names of records."""
    return {
        "matmul": _matmul,
        "linear": Through(_linear),
        "outer": Through(_outer),
        "einsum": _einsum,
        "nn.attention": Without("no rule is written: write it as products and a softmax"),
        "linalg.det": Without("it needs the inverse, for which there is no operator"),
        "signal.fft": Without("no rule is written for complex pairs"),
    }
