"""Rows of any length in tiles of several sizes."""

import pytest

from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import Var
from heddle.tir.schedule.rules.ragged_tiles import ragged_tiles, tile_sizes

SIZES = (0, 1, 2, 3, 5, 6, 7, 8, 13, 14, 15, 20, 27, 29, 61)


@pytest.mark.parametrize("largest", [1, 2, 6, 9, 14])
def test_tiles_cover_the_loop_and_stay_inside(largest):
    n = Var("n", "int64")
    tiles, binds = ragged_tiles(n, tile_sizes(largest))
    for length in SIZES:
        known = {n: length}
        for bind in binds:
            known[bind.var] = evaluate(bind.value, known)
        begins = [
            (min(known[tile.begin] + k * tile.size, length - tile.size), tile.size)
            for tile in tiles
            for k in range(known[tile.count])
        ]
        covered = [i for begin, size in begins for i in range(begin, begin + size)]
        assert set(covered) == set(range(length))
        assert len(covered) - length < largest
