"""Determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.rules import require_float, unknown_dims
from heddle.topi import linalg as topi


def _infer_det(ctx: Inference) -> Type:
    x = ctx.tensor(0)
    require_float(ctx, x)
    if x.ndim < 0:
        return unknown_dims(x.dtype)
    if x.ndim < 2:
        ctx.shape_error(f"matrices must have at least 2 dimensions, got {x.ndim}")
    if x.dims is None:
        return unknown_dims(x.dtype, x.ndim - 2)
    ctx.require_equal(x.dims[-2], x.dims[-1], "rows and columns")
    return TensorType(tuple(x.dims[:-2]), x.dtype)


def _np_det(_attrs: Any, x: Any) -> Any:
    return np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)


def declare() -> None:
    """Put the operators of this file into the table."""
    declare_op(
        OpDef(
            name="linalg.det",
            inputs=(Input("x", meaning="(..., n, n)"),),
            attrs=(),
            doc="The determinants of the matrices of the last two axes; 1 of an empty one.",
            infer=_infer_det,
            reference=_np_det,
            lower=lambda attrs, x: topi.det(x),
            layout=Without("axes have fixed places"),
            samples=tuple(
                Sample((shape,), {}, ("float32", "float64"))
                for shape in ((2, 2), (1, 1), (3, 5, 5), (2, 3, 4, 4), (0, 0), (2, 0, 0), (0, 3, 3))
            ),
            errors=(
                ErrorSample(((2, 3),), {}, "R0203", "rows and columns differ"),
                ErrorSample(((3,),), {}, "R0203", "at least 2 dimensions"),
            ),
        )
    )
