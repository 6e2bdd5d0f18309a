"""Which tiles Winograd's filtering takes for a convolution, if it takes any: a model of the cycles.

An image of any size has no best tile: the transformed weights of 4 × 4 results are four times as many as the
taps, which a small image does not pay back. So the costs are compared at several sizes that images probably
have, and that way is taken that is never far from the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replace_fields
from fractions import Fraction
from typing import Any

import numpy as np

from heddle.prim.nodes import PrimExpr
from heddle.prim.ops import ceildiv as ceildiv_of
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.nodes import Buffer, SBlock
from heddle.tir.schedule.rules.convolution_tile import FREE_WIDTH, ConvolutionTile, best_tile


def ceildiv(size: Any, factor: Any) -> Any:
    """How many pieces a size has: a number where both are, else an expression."""
    are_numbers = isinstance(size, int) and isinstance(factor, int)
    return -(-size // factor) if are_numbers else ceildiv_of(size, factor)


TAPS = 3
BAND_BYTES = 3 << 20
"""What the transformed data and products of a band of tiles may take."""

_G = {
    2: ((1, 0, 0), (Fraction(1, 2),) * 3, (Fraction(1, 2), Fraction(-1, 2), Fraction(1, 2)), (0, 0, 1)),
    4: (
        (Fraction(1, 4), 0, 0),
        (Fraction(-1, 6), Fraction(-1, 6), Fraction(-1, 6)),
        (Fraction(-1, 6), Fraction(1, 6), Fraction(-1, 6)),
        (Fraction(1, 24), Fraction(1, 12), Fraction(1, 6)),
        (Fraction(1, 24), Fraction(-1, 12), Fraction(1, 6)),
        (0, 0, 1),
    ),
}
"""G for tiles of m × m results."""


@frozen
class WinogradProblem:
    """A convolution that can be taken so: images of `ins` to images of `outs` channels, both in blocks of
    `lanes`; results of `rows` × `columns` pixels that start `before` pixels outside the data. `epilogue` is
    the block that reads the buffer `sums` under `conditions` on its axes, or None where `sums` is
    the function's result."""

    data: Buffer
    weights: Buffer
    sums: Buffer
    epilogue: SBlock | None
    conditions: tuple[PrimExpr, ...]
    before: tuple[int, int]
    ins: int
    outs: int
    rows: int | PrimExpr
    columns: int | PrimExpr
    lanes: int

    @property
    def is_free(self) -> bool:
        """Whether images may have any size."""
        return not (isinstance(self.rows, int) and isinstance(self.columns, int))


@frozen
class WinogradPlan:
    """Tiles of `size` × `size` results, `band` rows of them at a time, or as many as fit the cache (None);
    `product` is the register tile."""

    problem: WinogradProblem
    size: int
    band: int | None
    product: ConvolutionTile

    @property
    def reach(self) -> int:
        """How many elements of the input a tile needs along an axis."""
        return self.size + TAPS - 1

    @property
    def tiles(self) -> tuple[Any, Any]:
        """Rows and columns of tiles."""
        return tuple(ceildiv(n, self.size) for n in (self.problem.rows, self.problem.columns))

    @property
    def bytes_of_column(self) -> int:
        """What the data and the products of a tile take, transformed."""
        return self.reach**2 * (self.problem.ins + self.problem.outs) * 4

    @property
    def panel(self) -> int:
        """How many columns a panel of the transformed weights has."""
        return self.product.vectors * self.problem.lanes

    def weights(self, array: Any) -> Any:
        """(outs, ins, 3, 3) → (positions, outs / panel, ins / lanes, lanes, panel)."""
        g = np.array(_G[self.size], dtype=np.float64)
        made = np.einsum("ar,oirs,bs->aboi", g, array.astype(np.float64), g)
        outs, ins, lanes = self.problem.outs, self.problem.ins, self.problem.lanes
        split = made.reshape(self.reach**2, outs // self.panel, self.panel, ins // lanes, lanes)
        return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2).astype(array.dtype))


ASSUMED_SIZES = ((16, 16), (32, 32), (64, 64))
"""Sizes of an image where nothing is known of them."""


def plan_winograd(
    problem: WinogradProblem, target: Target, likely: Sequence[tuple[int, int]] = ASSUMED_SIZES
) -> WinogradPlan | None:
    """The plan that takes the fewest cycles; None where summing the taps one by one is as fast.

    - `likely`: rows and columns that images of a free size probably have. The plan is the one that is, at the
      size where it is worst, least far from the best.
    """
    known = [(problem.rows, problem.columns)] if not problem.is_free else likely
    costs = [_costs(replace_fields(problem, rows=rows, columns=columns), target) for rows, columns in known]
    size = min(_SIZES, key=lambda size: max(cost[size] / min(cost.values()) for cost in costs))
    if not size:
        return None
    if not problem.is_free:
        return _plan(problem, size, target)
    tile = best_tile(FREE_WIDTH, problem.outs // problem.lanes, target)
    return WinogradPlan(problem, size, None, tile)


_SIZES = (0, 2, 4)
"""Of tiles; 0 is the direct sum."""


def _costs(problem: WinogradProblem, target: Target) -> dict[int, float]:
    """Cycles for a known size by size of tiles; of the direct sum as many as make the transforms worth
    their code."""
    taps = problem.ins * problem.outs * TAPS * TAPS
    pixels = _int(problem.rows) * _int(problem.columns)
    direct = WORTH * max(taps * pixels / (2 * problem.lanes), taps * 4 / BYTES_PER_CYCLE)
    return {0: direct} | {size: _cycles(_plan(problem, size, target)) for size in _SIZES if size}


BYTES_PER_CYCLE = 5.0
"""What memory gives a core."""
WORTH = 0.75
"""The share of the direct convolution's cycles below which the transforms are worth their code."""


def _int(size: int | PrimExpr) -> int:
    assert isinstance(size, int)
    return size


def _plan(problem: WinogradProblem, size: int, target: Target) -> WinogradPlan:
    """The plan for an image of a known size, with bands that divide it."""
    plan = WinogradPlan(problem, size, 1, ConvolutionTile(1, 1))
    rows, columns = plan.tiles
    bands = [
        n
        for n in range(1, rows + 1)
        if rows % n == 0 and (n == 1 or n * columns * plan.bytes_of_column <= BAND_BYTES)
    ]
    product = best_tile(bands[-1] * columns, problem.outs // problem.lanes, target)
    return WinogradPlan(problem, size, bands[-1], product)


def _cycles(plan: WinogradPlan) -> float:
    """An estimate: products at nine tenths of the peak or as fast as weights come, and transforms, which move
    every position of every tile through the cache."""
    problem, positions = plan.problem, plan.reach**2
    tiles = plan.tiles[0] * plan.tiles[1]
    weights = positions * problem.ins * problem.outs
    products = max(weights * tiles / (2 * problem.lanes) / 0.9, weights * 4 / BYTES_PER_CYCLE)
    return float(products + tiles * (problem.ins + problem.outs) / problem.lanes * positions * 4)
