"""Parallel products with weights as one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from heddle.relay.transform.combine_parallel import CombineParallel, joined, slices
from heddle.relay.transform.rewriting import call, dtype_of, is_call, rank, recalled, sizes
from heddle.support.frozen import frozen


@frozen(slots=False)
class CombineParallelDense(CombineParallel):
    """Multiply one tensor with the weights of several `nn.dense` at once.

        (nn.dense(%x, %w1), nn.dense(%x, %w2), nn.dense(%x, %w3))

    becomes, with `to_batch`, a `nn.batch_matmul` of the stacked data and the stacked weights, which then have
    one size, and else slices of `nn.dense(%x, concatenate((%w1, %w2, %w3), axis=0))`.
    """

    to_batch: bool = True

    def key(self, expr: Any) -> Hashable:
        weight = sizes(expr.args[1]) if is_call(expr, "nn.dense") else None
        if weight is None or (self.to_batch and rank(expr.args[0]) != 2):
            return None
        kept = weight if self.to_batch else weight[1:]
        return kept, dtype_of(expr.args[1]), dtype_of(expr), expr.attrs.out_dtype

    def combined(self, calls: list[Any]) -> list[Any]:
        first, weights = calls[0], [each.args[1] for each in calls]
        widths = [(sizes(weight) or ())[0] for weight in weights]
        if not self.to_batch:
            whole = recalled(first, first.args[0], joined(weights, 0), units=sum(widths))
            return slices(whole, widths, rank(first) - 1, rank(first))
        data = joined([call("expand_dims", first.args[0], axis=0)] * len(calls), 0)
        stacked = joined([call("expand_dims", weight, axis=0) for weight in weights], 0)
        whole = call("nn.batch_matmul", data, stacked, out_dtype=first.attrs.out_dtype)
        return [call("squeeze", part, axis=[0]) for part in slices(whole, [1] * len(calls), 0, 3)]
