"""Choosing by chance."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.rules import require_float, require_int, require_ndim, unknown_dims, wide_indices
from heddle.runtime.dtype import DataType
from heddle.topi import sampling


def _infer(ctx: Inference) -> Type:
    prob, uniform, rows = ctx.tensor(0), ctx.tensor(1), ctx.tensor(2)
    for ty, what in ((prob, "prob"), (uniform, "uniform_sample"), (rows, "sample_indices")):
        require_ndim(ctx, ty, 2, what)
    require_float(ctx, prob, uniform)
    ctx.same_dtype(prob, uniform)
    require_int(ctx, rows, "sample_indices")
    if uniform.dims is not None and rows.dims is not None:
        for drawn, named in zip(uniform.dims, rows.dims, strict=True):
            ctx.require_equal(drawn, named, "the numbers drawn and the rows named")
    if prob.dims is not None and uniform.dims is not None:
        ctx.require_elements(prob.dims[0], uniform.dims, "prob", "{} has no rows to choose from")
    dtype = DataType(ctx.attrs.dtype)
    return TensorType(uniform.dims, dtype) if uniform.dims is not None else unknown_dims(dtype, 2)


def _reference(attrs: Any, prob: Any, uniform: Any, rows: Any) -> Any:
    chosen = prob[np.clip(wide_indices(rows[:, 0]), 0, prob.shape[0] - 1)]
    place = (np.cumsum(chosen, axis=1, dtype=prob.dtype) <= uniform).sum(1, keepdims=True)
    result: Any = np.clip(place, 0, max(prob.shape[1] - 1, 0)).astype(DataType(attrs.dtype).numpy())
    return result


def _sample(num_rows: int, num_values: int, num_draws: int, **attrs: Any) -> Sample:
    def make(rng: Any, dtype: str) -> tuple[Any, ...]:
        prob = rng.random((num_rows, num_values)).astype(dtype)
        prob /= np.maximum(prob.sum(1, keepdims=True), np.finfo(dtype).tiny)
        rows = rng.integers(0, num_rows, size=(num_draws, 1))
        return prob, rng.random((num_draws, 1)).astype(dtype), rows.astype("int64")

    shapes = ((num_rows, num_values), (num_draws, 1), (num_draws, 1))
    return Sample(shapes, attrs, ("float32", "float64"), make)


def declare() -> None:
    """Put the operators of this file into the table."""
    declare_op(
        OpDef(
            name="multinomial_from_uniform",
            inputs=(
                Input("prob", meaning="(b, v): rows of probabilities"),
                Input("uniform_sample", meaning="(n, 1): numbers drawn from [0, 1)"),
                Input("sample_indices", meaning="(n, 1): the row that each number chooses from"),
            ),
            attrs=(AttrSpec("dtype", "dtype", "int64", "of the result"),),
            doc=(
                "For each number drawn the first position of its row whose running sum exceeds it, the last "
                "one where none does: (n, 1)."
            ),
            infer=_infer,
            reference=_reference,
            lower=lambda a, prob, uniform, rows: sampling.multinomial_from_uniform(
                prob, uniform, rows, str(a.dtype)
            ),
            layout=Without("rows of probabilities have no layout"),
            samples=(
                _sample(3, 7, 5),
                _sample(1, 13, 4, dtype="int32"),
                _sample(2, 1, 3),
                _sample(2, 3, 0),
            ),
            errors=(
                ErrorSample(((3,), (5, 1), (5, 1)), {}, "R0203", "prob must have 2 dimensions"),
                ErrorSample(((3, 7), (5, 1), (5, 1)), {}, "R0204", "sample_indices must be integers"),
            ),
            dispatch="sampling",
        )
    )
