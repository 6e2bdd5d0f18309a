"""Operators of the default domain as parts of others: each goes through its own converter."""

from __future__ import annotations

from typing import Any

from heddle.frontend.onnx.context import NodeContext
from heddle.frontend.onnx.importer import as_values
from heddle.frontend.onnx.proto import Node
from heddle.frontend.onnx.registry import MICROSOFT
from heddle.frontend.onnx.schemas import schema_of
from heddle.frontend.onnx.values import Value
from heddle.ir.expr import Expr

OPSET = 24
"""The operator set whose meanings the parts have, unless another is asked for."""


def expect_ranks(ctx: NodeContext, **ranks: int | tuple[int, ...]) -> None:
    """Refuse inputs of other numbers of dimensions, by the names that the operator's form gives them. Raises:
    N0106."""
    form = schema_of(MICROSOFT, ctx.node.op_type)
    assert form is not None
    for index, spec in enumerate(form.inputs):
        allowed = ranks.pop(spec.name, None)
        if allowed is None or not ctx.has(index):
            continue
        allowed = allowed if isinstance(allowed, tuple) else (allowed,)
        if ctx.ndim(index) not in allowed:
            some = " or ".join(map(str, allowed))
            ctx.malformed(f"input {spec.name!r} must have {some} dimensions, got {ctx.ndim(index)}")
    assert not ranks


def wide(ctx: NodeContext, x: Expr) -> str:
    """The type that scores and statistics of a tensor are computed in: float32, or its own where it has more
    bits."""
    dtype = ctx.type_of(x).dtype
    return str(dtype) if dtype is not None and dtype.bits > 32 else "float32"


def standard(
    ctx: NodeContext,
    op: str,
    *inputs: Expr | Value | None,
    num_outputs: int = 1,
    opset: int = OPSET,
    **attrs: Any,
) -> list[Expr]:
    """The outputs of an operator of the default domain, whatever operator set the model imports."""
    importer = ctx.importer
    outputs = tuple(f"{ctx.node.label}_{op}_{index}" for index in range(num_outputs))
    names = tuple("" if item is None else f"{op}_{index}" for index, item in enumerate(inputs))
    given = [None if item is None else as_values(item)[0] for item in inputs]
    outer = importer.opsets
    importer.opsets = {**outer, "": opset}
    try:
        found = importer.convert(Node(op, "", ctx.node.label, names, outputs, attrs), given)
        return [importer.tensor_of(value) for value in found[:num_outputs]]
    finally:
        importer.opsets = outer
