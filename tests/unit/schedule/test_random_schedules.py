"""Any sequence of primitives that apply keeps what a program computes, and its trace leads there again."""

from __future__ import annotations

import random

import numpy as np
import pytest

from heddle.ir.module import IRModule
from heddle.ir.structural import assert_structural_equal
from heddle.tir.schedule import SBlockRV, Schedule, ScheduleError, Trace
from heddle.tir.verify import verify_prim_func
from tests.unit.schedule.programs import chain, compiled, interpreted, matmul, padded, window
from tests.unit.schedule.test_row_tiles import rows_and_columns

PROGRAMS = {
    "matmul": lambda rng: matmul(rng.choice(["n", 1, 7]), rng.choice([1, 4, 5]), rng.choice([1, 6])),
    "chain": lambda rng: chain(rng.choice(["n", 3]), rng.choice([1, 5, 8])),
    "window": lambda rng: window(rng.choice([4, 7]), 3, rng.choice([1, 3])),
    "padded": lambda rng: padded(rng.choice(["n", 1, 5]), 3, rng.choice([0, 1]), rng.choice([0, 2])),
}


def _loop(sch, rng):
    return rng.choice(sch.get_loops(_block(sch, rng)))


def _block(sch, rng):
    return rng.choice(sch.blocks()).name


def _two(sch, rng):
    loops = sch.get_loops(_block(sch, rng))
    k = rng.choice(range(len(loops) - 1))
    return loops[k : k + 2]


STEPS = {
    "split": lambda s, r: s.split(_loop(s, r), r.choice([[None, 2], [None, 3], [2, None], [None, 1, 2]])),
    "split_ragged": lambda s, r: s.split_ragged(_loop(s, r), r.choice([2, 3])),
    "fuse": lambda s, r: s.fuse(*_two(s, r)),
    "reorder": lambda s, r: s.reorder(*_two(s, r)[::-1]),
    "loop_partition": lambda s, r: s.loop_partition(_loop(s, r), r.choice([[2, None], [None, 1]])),
    "merge": lambda s, r: s.merge(_loop(s, r), _loop(s, r)),
    "add_unit_loop": lambda s, r: s.add_unit_loop(_loop(s, r)),
    "unroll": lambda s, r: s.unroll(_loop(s, r)),
    "parallel": lambda s, r: s.parallel(_loop(s, r)),
    "compute_inline": lambda s, r: s.compute_inline(_block(s, r)),
    "reverse_compute_inline": lambda s, r: s.reverse_compute_inline(_block(s, r)),
    "compute_at": lambda s, r: s.compute_at(_block(s, r), _loop(s, r), r.random() < 0.5),
    "reverse_compute_at": lambda s, r: s.reverse_compute_at(_block(s, r), _loop(s, r), r.random() < 0.5),
    "cache_read": lambda s, r: s.cache_read(_block(s, r), 0, "local"),
    "cache_write": lambda s, r: s.cache_write(_block(s, r), 0, "local"),
    "reindex": lambda s, r: s.reindex(_block(s, r), (r.choice(["read", "write"]), 0)),
    "decompose_reduction": lambda s, r: s.decompose_reduction(_block(s, r), _loop(s, r)),
    "rfactor": lambda s, r: s.rfactor(_loop(s, r), 0),
    "decompose_padding": lambda s, r: s.decompose_padding(_block(s, r), _loop(s, r)),
    "rolling_buffer": lambda s, r: s.rolling_buffer(_block(s, r), 0),
    "blockize": lambda s, r: s.blockize(_loop(s, r)),
    "blockize two": lambda s, r: s.blockize([_block(s, r), _block(s, r)]),
    "transform_layout": lambda s, r: _layout(s, _block(s, r)),
    "transform_block_layout": lambda s, r: s.transform_block_layout(_block(s, r), lambda *i: i[::-1]),
    "reorder_block_iter_var": lambda s, r: s.reorder_block_iter_var(_block(s, r), [1, 0]),
    "pad_einsum": lambda s, r: s.pad_einsum(_block(s, r), [2, 1, 2]),
    "tile_rows": lambda s, r: s.tile_rows(s.blocks()[-1].name, r.choice([0, 1]), r.choice([1, 2, 3])),
    "sample_compute_location": lambda s, r: _sampled(s, _block(s, r)),
}


ROW_PROGRAMS = {
    "matmul": PROGRAMS["matmul"],
    "chain": PROGRAMS["chain"],
    "rows": lambda rng: rows_and_columns(rng.choice([1, 4, 7]), rng.choice([1, 3, 6])),
}
ROW_STEPS = {
    name: STEPS[name]
    for name in ("tile_rows", "split", "compute_at", "decompose_reduction", "loop_partition", "reindex")
} | {"share_output": lambda s, r: s.share_output(_block(s, r), r.choice([0, 1]))}
"""Rows in tiles, and temporaries in results: little else leaves programs as these primitives need them."""


def _layout(sch, block):
    if sch.get(SBlockRV(block)).writes[0].buffer not in sch.func.buffers:
        sch.transform_layout(block, 0, lambda *i: (*i[1:], i[0] // 2, i[0] % 2))


def _sampled(sch, block):
    sch.compute_at(block, sch.sample_compute_location(block))


def grow(seed: int, steps: int, programs=PROGRAMS, choices=STEPS):
    """A program, a schedule of it by steps that chance chooses, and which of them applied."""
    rng = random.Random(seed)
    before = programs[rng.choice(list(programs))](rng)
    sch = Schedule(before, seed=seed)
    applied = []
    for _ in range(steps):
        name = rng.choice(list(choices))
        try:
            choices[name](sch, rng)
        except (ScheduleError, IndexError):  # of an empty list of loops: nothing to choose from
            continue
        applied.append(name)
    return before, sch, applied


def agree(seed: int, steps: int, machine: bool, programs=PROGRAMS, choices=STEPS) -> None:
    before, sch, applied = grow(seed, steps, programs, choices)
    assert verify_prim_func(sch.func, IRModule.from_expr(sch.func)) == [], applied
    run = compiled(sch.func) if machine else None
    for n in (0, 1, 3, 7) if "n: " in str(before) or "n = " in str(before) else (0,):
        wanted = interpreted(before, n)
        np.testing.assert_allclose(
            interpreted(sch.func, n), wanted, rtol=1e-4, atol=1e-5, err_msg=f"{applied}"
        )
        if run is not None:
            np.testing.assert_allclose(run(n), wanted, rtol=1e-4, atol=1e-5, err_msg=str(applied))
    again = Schedule(before)
    Trace.apply_json_to_schedule(sch.trace.simplified().as_json(), again)
    assert_structural_equal(again.mod, sch.mod)


@pytest.mark.parametrize("seed", range(40))
def test_random_schedules(seed):
    agree(seed, steps=12, machine=seed % 4 == 0)


@pytest.mark.parametrize("seed", range(40))
def test_random_schedules_of_rows(seed):
    agree(seed, steps=8, machine=seed % 4 == 0, programs=ROW_PROGRAMS, choices=ROW_STEPS)


@pytest.mark.parametrize("seed", [5017, 5080, 5245, 5255, 5345, 5516, 5585])
def test_schedules_that_went_wrong(seed):
    """Unit loops cut into parts; consumers moved to where only a part of what they read is made; padded axes
    that are no index of the result.
    """
    agree(seed, steps=10, machine=True)
