"""Groups of operators that somebody knows as one, as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.relay.dataflow_pattern import DFPattern, partition
from heddle.relay.transform.rewriting import TypedPass
from heddle.relay.typed import infer_expr
from heddle.support.frozen import frozen

COMPOSITE = "Composite"
"""The attribute of a function with the name of what it is."""


@frozen(slots=False)
class MergeComposite(TypedPass):
    """Make functions of what patterns fit, in the order of the table.

        nn.relu(nn.conv2d(%x, %w))

    becomes, with `("dnn.conv_relu", is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard())))`,

        (fn (%a, %b, Composite="dnn.conv_relu", PartitionedFromPattern="nn.conv2d_nn.relu_") {
          nn.relu(nn.conv2d(%a, %b)) })(%x, %w)

    A row is a name, a pattern, and, if there is one, a check of the root. Earlier rows win.
    """

    pattern_table: Sequence[tuple[str, DFPattern] | tuple[str, DFPattern, Callable[[Any], bool]]]

    def change(self, func: Function, mod: IRModule) -> Function:
        body: Any = func.body
        for name, pattern, *checks in self.pattern_table:
            made = partition(pattern, body, {COMPOSITE: name}, checks[0] if checks else lambda expr: True)
            body = body if made is body else infer_expr(made, mod)
        return func if body is func.body else replace(func, body=body, ty=None)
