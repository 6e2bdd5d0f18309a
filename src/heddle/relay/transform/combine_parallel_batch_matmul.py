"""Parallel products of batches as one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from heddle.relay.transform.combine_parallel import CombineParallel, joined, slices
from heddle.relay.transform.rewriting import dtype_of, is_call, recalled, sizes
from heddle.support.frozen import frozen


@frozen(slots=False)
class CombineParallelBatchMatmul(CombineParallel):
    """Multiply one batch with the columns of several at once.

        (nn.batch_matmul(%x, %w1), nn.batch_matmul(%x, %w2), nn.batch_matmul(%x, %w3))

    becomes, with `%y = nn.batch_matmul(%x, concatenate((%w1, %w2, %w3), axis=1))`, slices of `%y`.
    """

    def key(self, expr: Any) -> Hashable:
        other = sizes(expr.args[1]) if is_call(expr, "nn.batch_matmul") else None
        if other is None:
            return None
        attrs, axis = expr.attrs, _columns(expr)
        kept = tuple(size for place, size in enumerate(other) if place != axis)
        dtypes = dtype_of(expr.args[1]), dtype_of(expr), attrs.out_dtype
        return kept, attrs.transpose_a, attrs.transpose_b, dtypes

    def combined(self, calls: list[Any]) -> list[Any]:
        first, axis = calls[0], _columns(calls[0])
        others = [each.args[1] for each in calls]
        widths = [(sizes(other) or ())[axis] for other in others]
        return slices(recalled(first, first.args[0], joined(others, axis)), widths, 2, 3)


def _columns(expr: Any) -> int:
    """The axis of the second operand that is the result's last."""
    return 1 if expr.attrs.transpose_b else 2
