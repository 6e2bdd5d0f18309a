"""How an operator is fused, whatever it is called with: as the attribute `TOpPattern` of TVM's operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.graph.op_builder import build_call
from heddle.graph.te_call import te_call
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Tuple, Var
from heddle.ir.op_def import AnyLayout, OpAlias, OpDef, Sample
from heddle.prim.nodes import as_expr
from heddle.runtime.dtype import DataType, dtype_of
from heddle.support.diagnostics import HeddleError
from heddle.tir.analysis.op_pattern import OpPattern, op_pattern

_KINDS: dict[str, OpPattern] = {}
"""The kinds that were found, by the name of the record."""


def fusion_kind(record: OpDef, alias: OpAlias) -> OpPattern:
    """The kind of what a dialect calls an operator.

    That of the record. Where the record only finishes what its first input is computed to (a cast, say), or
    the operator is an expression of others, nothing is known, and it is opaque. An expression around a call
    of the record of the same name (a pool whose result is moved to another layout) is of that record's kind.
    """
    if alias.expression is not None and alias.name.rsplit(".", 1)[-1] != record.name.rsplit(".", 1)[-1]:
        return OpPattern.OPAQUE
    if record.name not in _KINDS:
        _KINDS[record.name] = _kind(record)
    kind = _KINDS[record.name]
    is_prepared = bool(record.inputs) and callable(alias.arguments.get(record.inputs[0].name))
    return OpPattern.OPAQUE if is_prepared and kind is OpPattern.ELEMENTWISE else kind


def _kind(record: OpDef) -> OpPattern:
    """Elementwise or broadcasting by the layout rule; else what the loops of the first sample are. What has
    no loops of its own is opaque."""
    if isinstance(record.layout, AnyLayout):
        tensors = sum(spec.kind == "tensor" for spec in record.inputs)
        return OpPattern.BROADCAST if tensors > 1 else OpPattern.ELEMENTWISE
    lower, samples = record.lower, record.samples
    if lower is None or not record.is_pure or not isinstance(samples, tuple) or not samples:
        return OpPattern.OPAQUE
    try:
        call = build_call(record, _arguments(record, samples[0]), dict(samples[0].attrs))
        func = te_call(lambda arg: arg, lambda *args: lower(call.attrs, *args), call.args, {})[0]
    except HeddleError:
        return OpPattern.OPAQUE
    return op_pattern(func)


def _arguments(record: OpDef, sample: Sample) -> list[Any]:
    """The arguments of a sample as variables with types."""
    dtype = sample.dtypes[0]
    given = sample.shapes if sample.make is None else sample.make(np.random.default_rng(0), dtype)
    kinds = [spec.kind for spec in record.inputs]
    kinds = (kinds + kinds[-1:] * len(given))[: len(given)]
    return [_argument(kind, value, dtype) for kind, value in zip(kinds, given, strict=True)]


def _argument(kind: str, value: Any, dtype: str) -> Any:
    if kind == "tensors":
        return Tuple(tuple(_argument("tensor", each, dtype) for each in value))
    if kind == "args":
        return Tuple(tuple(map(as_expr, value)))
    if isinstance(value, np.ndarray):
        return Var("x", TensorType(value.shape, dtype_of(value.dtype)))
    if kind == "tensor":
        return Var("x", TensorType(value, DataType(dtype)))
    return ShapeExpr(tuple(map(as_expr, value))) if kind == "shape" else as_expr(value)
