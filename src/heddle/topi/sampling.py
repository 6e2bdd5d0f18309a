"""Sampling from distributions with given uniform random numbers."""

from __future__ import annotations

from collections.abc import Sequence

from heddle import te
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, if_then_else, maximum, minimum
from heddle.tir.nodes import Buffer, Stmt, seq
from heddle.topi.dims import wide_index
from heddle.topi.loops import Cell, load, loop, on_threads, store

_COST_OF_STEP = 8
"""Work in elements: a probability that is added to those before."""


def multinomial_from_uniform(prob: te.Tensor, uniform: te.Tensor, rows: te.Tensor, dtype: str) -> te.Tensor:
    """For each random number, return the first position in its row whose running sum of probabilities exceeds
    it; if there is none, the last position. Row numbers are clamped to the valid range.

    Shapes: prob (b, v), uniform (n, 1), rows (n, 1) → (n, 1).
    """

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        total, place = Cell("running", prob.dtype), Cell("place")
        num_rows, num_values = (cast("int64", dim) for dim in prob.shape)

        def draw(index: tuple[PrimExpr, ...]) -> Stmt:
            row = maximum(minimum(wide_index(load(inputs[2], index)), num_rows - 1), constant(0, "int64"))

            def step(position: PrimExpr) -> Stmt:
                passed = total.get() <= load(inputs[1], index)
                further = place.set(
                    place.get() + if_then_else(passed, constant(1, "int64"), constant(0, "int64"))
                )
                return seq(total.set(total.get() + load(inputs[0], (row, position))), further)

            last = maximum(minimum(place.get(), num_values - 1), constant(0, "int64"))
            return seq(
                total.declare(),
                place.declare(),
                total.set(constant(0, prob.dtype)),
                place.set(constant(0, "int64")),
                loop("k", prob.shape[1], step),
                store(outputs[0], cast(dtype, last), index),
            )

        return on_threads("i", uniform.shape, num_values * _COST_OF_STEP, draw)

    result: te.Tensor = te.extern(
        tuple(uniform.shape), [prob, uniform, rows], body, name="multinomial", dtype=dtype
    )
    return result
