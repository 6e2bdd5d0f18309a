"""Between real numbers and integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.graph.codes import R0204
from heddle.graph.infer import Inference
from heddle.graph.types import TensorType
from heddle.ir.op_def import AttrSpec, ErrorSample, Input, OpDef, Sample, Without, declare_op
from heddle.ir.types import Type
from heddle.ops.rules import require_float, unknown_dims
from heddle.runtime.dtype import DataType
from heddle.topi import quantization as topi


def _rule(is_quantize: bool) -> Callable[[Inference], Type]:
    def infer(ctx: Inference) -> Type:
        x, dtype = ctx.tensor(0), DataType(ctx.attrs.out_dtype)
        require_float(ctx, x if is_quantize else TensorType(None, dtype), ctx.tensor(1))
        given = dtype if is_quantize else x.dtype
        if given is not None and given.is_bool:
            ctx.fail(R0204, "bool has no scale")
        axis = ctx.axis(int(ctx.attrs.axis), x.ndim) if x.ndim > 0 else 0
        for k, what in ((1, "scale"), (2, "zero_point")):
            ty = ctx.tensor(k)
            if ty.ndim > 1:
                ctx.shape_error(f"{what} must have at most 1 dimension, got {ty.ndim}")
            if ty.dims and x.dims and getattr(ty.dims[0], "value", None) != 1:
                ctx.require_equal(x.dims[axis], ty.dims[0], f"sizes of data and {what} on axis {axis}")
        return TensorType(x.dims, dtype) if x.dims is not None else unknown_dims(dtype, x.ndim)

    return infer


def _along(factor: Any, x: Any, axis: int) -> Any:
    if factor.ndim == 0:
        return factor
    shape = [1] * x.ndim
    shape[axis] = factor.shape[0]
    return factor.reshape(shape)


def _np_quantize(attrs: Any, x: Any, scale: Any, zero_point: Any) -> Any:
    value = np.rint(x.astype(np.float32) / _along(scale, x, attrs.axis).astype(np.float32)) + _along(
        zero_point, x, attrs.axis
    )
    dtype = np.dtype(DataType(attrs.out_dtype).numpy())
    if dtype.kind in "iu":
        value = np.clip(value, np.iinfo(dtype).min, np.iinfo(dtype).max)
    return value.astype(dtype)


def _np_dequantize(attrs: Any, x: Any, scale: Any, zero_point: Any) -> Any:
    value = (x.astype(np.float64) - _along(zero_point, x, attrs.axis)).astype(np.float32)
    scale = _along(scale, x, attrs.axis).astype(np.float32)
    return (value * scale).astype(DataType(attrs.out_dtype).numpy())


def _sample(shape: tuple[int, ...], channels: tuple[int, ...], attrs: dict[str, Any], dtype: str) -> Sample:
    def make(rng: Any, data_dtype: str) -> tuple[Any, ...]:
        is_float = data_dtype.startswith("float")
        data = rng.standard_normal(shape) * 40 if is_float else rng.integers(0, 100, size=shape)
        scale = np.asarray(rng.uniform(0.25, 1, size=channels)).astype("float32")
        zero_dtype = attrs.get("out_dtype", "int8") if is_float else data_dtype
        return (
            np.asarray(data).astype(data_dtype),
            scale,
            np.asarray(rng.integers(0, 9, size=channels)).astype(zero_dtype),
        )

    return Sample((shape, channels, channels), attrs, (dtype,), make)


def declare() -> None:
    """Put the operators of this file into the table."""
    axis = AttrSpec("axis", "int", -1, "the axis of channels")
    rows = (
        (
            "quantize",
            True,
            _np_quantize,
            topi.quantize,
            "int8",
            "round(data / scale) + zero_point within the range of the result",
            (
                _sample((3, 5), (5,), {}, "float32"),
                _sample((3, 5), (), {"out_dtype": "uint8"}, "float32"),
                _sample((3, 5), (3,), {"axis": 0, "out_dtype": "int16"}, "float16"),
            ),
        ),
        (
            "dequantize",
            False,
            _np_dequantize,
            topi.dequantize,
            "float32",
            "(data - zero_point) * scale",
            (
                _sample((3, 5), (5,), {}, "int8"),
                _sample((3, 5), (), {}, "uint8"),
                _sample((2, 3), (2,), {"axis": 0, "out_dtype": "float16"}, "int32"),
            ),
        ),
    )
    for name, is_quantize, reference, function, default, formula, samples in rows:
        declare_op(
            OpDef(
                name=name,
                inputs=(
                    Input("data", meaning="a tensor"),
                    Input("scale", meaning="() or (channels,)"),
                    Input("zero_point", meaning="() or (channels,)"),
                ),
                attrs=(axis, AttrSpec("out_dtype", "dtype", default)),
                doc=f"Elementwise {formula}.",
                infer=_rule(is_quantize),
                reference=reference,
                lower=lambda a, x, s, z, function=function: function(x, s, z, int(a.axis), a.out_dtype),
                layout=Without("the axis is an attribute"),
                samples=samples,
                errors=(
                    ErrorSample(
                        ((3, 5), (4,), (5,)),
                        {},
                        "R0203",
                        "sizes of data and scale",
                        "float32" if is_quantize else "int8,float32",
                    ),
                    ErrorSample(
                        ((3, 5), (5,), (5,)),
                        {"axis": 2},
                        "R0205",
                        "axis 2 is out of range",
                        "float32" if is_quantize else "int8,float32",
                    ),
                ),
            )
        )
