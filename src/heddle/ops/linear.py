"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.rules import broadcast_dims, computed_in, contraction_work
from heddle.runtime.dtype import DataType
from heddle.topi.matmul import matmul


def _infer_matmul(ctx: Inference) -> Type:
    a, b = ctx.tensor(0), ctx.tensor(1)
    dtype = DataType(ctx.attrs.out_dtype) if ctx.attrs.out_dtype else ctx.same_dtype(a, b)
    if 0 in (a.ndim, b.ndim):
        ctx.shape_error("both tensors need at least one dimension")
    if a.dims is None or b.dims is None:
        ranks = (a.ndim, b.ndim)
        known = -1 if -1 in ranks else max(a.ndim, b.ndim) - (a.ndim == 1) - (b.ndim == 1)
        return TensorType(None, dtype, None, known)
    ctx.require_equal(a.dims[-1], b.dims[-2] if b.ndim > 1 else b.dims[0], "inner dimensions")
    batch = (
        broadcast_dims(ctx, TensorType(a.dims[:-2], dtype), TensorType(b.dims[:-2], dtype))
        if (a.ndim > 2 or b.ndim > 2)
        else ()
    )
    rows = a.dims[-2:-1] if a.ndim > 1 else ()
    columns = b.dims[-1:] if b.ndim > 1 else ()
    return TensorType((*(batch or ()), *rows, *columns), dtype)


def _reference_matmul(attrs: Any, a: Any, b: Any) -> Any:
    dtype = DataType(attrs.out_dtype).numpy() if attrs.out_dtype else a.dtype
    wide = computed_in(dtype)
    return np.matmul(a.astype(wide), b.astype(wide)).astype(dtype)


def declare() -> None:
    """Put the operators of this file into the table."""
    declare_op(
        OpDef(
            name="matmul",
            inputs=(Input("x1", meaning="(..., m, k) or (k,)"), Input("x2", meaning="(..., k, n) or (k,)")),
            attrs=(
                AttrSpec(
                    "out_dtype",
                    "dtype",
                    None,
                    "element type of accumulation and result; default: the inputs'",
                ),
            ),
            doc=(
                "numpy's matmul: products over the last axis of x1 and the last but one of x2; "
                "leading axes broadcast."
            ),
            infer=_infer_matmul,
            reference=_reference_matmul,
            work=contraction_work,
            lower=lambda attrs, a, b: matmul(a, b, attrs.out_dtype),
            layout=Without("packing is a matter of the loop schedule"),
            samples=tuple(
                Sample(shapes, dtypes=dtypes)
                for shapes, dtypes in (
                    (((3, 5), (5, 7)), ("float32", "float64", "int32", "bfloat16", "int8")),
                    (((2, 3, 4), (4, 5)), ("float32", "bfloat16")),
                    (((2, 1, 3, 4), (5, 4, 6)), ("float32",)),
                    (((4,), (4,)), ("float32",)),
                    (((4,), (4, 3)), ("float32",)),
                    (((3, 4), (4,)), ("float32",)),
                    (((17, 33), (33, 19)), ("float32", "float16")),
                    (((0, 4), (4, 2)), ("float32",)),
                    (((3, 0), (0, 2)), ("float32",)),
                )
            ),
            errors=(ErrorSample(((2, 3), (4, 5)), {}, "R0203", "inner dimensions differ"),),
        )
    )
