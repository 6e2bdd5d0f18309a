"""Inverting an iterator map: the input iterators as functions of the outputs.

[i * 8 + j] with output f:   i = f // 8,  j = f % 8
[f // 8, f % 8] with outputs a, b:   f = a * 8 + b
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.arith.analyzer import Analyzer
from heddle.arith.iters.iter_nodes import IterSumExpr, marks_of
from heddle.prim.nodes import PrimExpr, Sub, Var


def inverse_affine_iter_map(iter_map: Sequence[IterSumExpr], outputs: Sequence[Any]) -> dict[Var, PrimExpr]:
    """For a bijective map from `detect_iter_map`: each input variable in terms of the output expressions."""
    analyzer = Analyzer()
    values: dict[int, Any] = {}

    def take(item: IterSumExpr, value: Any) -> None:
        """Split the value of a sum over its digits, and add each to the value of its iterator."""
        rest = value - item.base
        for index, arg in enumerate(item.args):
            digit = rest // arg.scale
            if index > 0:
                digit = digit % arg.extent
            part = digit * arg.lower_factor
            known = values.get(id(arg.source))
            values[id(arg.source)] = part if known is None else known + part

    for item, output in zip(iter_map, outputs, strict=True):
        take(item, output)
    result: dict[Var, PrimExpr] = {}
    for mark in marks_of(iter_map):
        value = analyzer.simplify(values[id(mark)])
        if isinstance(mark.source, IterSumExpr):
            take(mark.source, value)
        elif isinstance(mark.source, Var):
            result[mark.source] = value
        elif isinstance(mark.source, Sub) and isinstance(mark.source.a, Var):
            result[mark.source.a] = analyzer.simplify(value + mark.source.b)
    return result
