"""Rows of any length in tiles of several sizes."""

import pytest

from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import Var
from heddle.tir.schedule.rules.convolution_tile import TileCost
from heddle.tir.schedule.rules.ragged_tiles import first_size, ragged_tiles, tile_sizes, tiles_of

LENGTHS = (*range(70), 112, 1000)


def planned(length: int, largest: int, dtype: str, cost) -> list[tuple[int, int]]:
    """Begin and size of each tile, by the expressions."""
    n = Var("n", dtype)
    tiles, binds = ragged_tiles(n, tile_sizes(largest), cost)
    known = {n: length}
    for bind in binds:
        known[bind.var] = evaluate(bind.value, known)
    return [
        (min(known[tile.begin] + k * tile.size, length - tile.size), tile.size)
        for tile in tiles
        for k in range(known[tile.count])
    ]


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("largest", [1, 2, 3, 4, 6, 9, 14])
def test_tiles_cover_the_loop_and_stay_inside(largest, dtype):
    for length in LENGTHS:
        tiles = planned(length, largest, dtype, TileCost(2))
        covered = [i for begin, size in tiles for i in range(begin, begin + size)]
        assert set(covered) == set(range(length))
        assert len(covered) - length < largest


@pytest.mark.parametrize("cost", [TileCost(1), TileCost(2, 4.0), TileCost(2, 16.0), lambda size: 1])
def test_the_expressions_choose_as_the_plan_does(cost):
    sizes = tile_sizes(14)
    for length in range(62):
        first = first_size(length, sizes, cost)
        assert [size for _, size in planned(length, 14, "int64", cost)] == tiles_of(length, sizes[first:])


def test_short_rows_begin_with_the_size_that_makes_them_cheapest():
    cost, sizes = TileCost(2), tile_sizes(14)
    for length in range(1, 62):
        totals = [sum(map(cost, tiles_of(length, sizes[number:]))) for number in range(len(sizes))]
        assert sum(map(cost, tiles_of(length, sizes[first_size(length, sizes, cost) :]))) == min(totals)
    assert tiles_of(36, sizes[first_size(36, sizes, cost) :]) == [7, 7, 7, 7, 7, 1]
    assert tiles_of(20, sizes[first_size(20, sizes, cost) :]) == [5, 5, 5, 5]


@pytest.mark.parametrize("largest", range(5, 15))
@pytest.mark.parametrize("cost", [TileCost(1), TileCost(2), TileCost(1, 4.0), TileCost(4, 16.0)])
def test_a_row_of_five_is_one_tile(largest, cost):
    sizes = tile_sizes(largest)
    assert tiles_of(5, sizes[first_size(5, sizes, cost) :]) == [5]


def test_weights_that_come_slowly_make_tiles_large():
    sizes = tile_sizes(14)
    slow = TileCost(2, 16.0)
    assert len(tiles_of(12, sizes[first_size(12, sizes, slow) :])) <= len(
        tiles_of(12, sizes[first_size(12, sizes, TileCost(2)) :])
    )
