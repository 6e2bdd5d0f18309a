"""Sampling, and the traces that keep what was decided."""

import json
from collections import Counter
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.ir.structural import assert_structural_equal, structural_equal
from heddle.prim.nodes import Var
from heddle.support.diagnostics import FormatError
from heddle.tir.schedule import Schedule, ScheduleError, Trace
from heddle.tir.schedule.base import PRIMITIVES
from heddle.tir.schedule.sampling import count_tilings
from heddle.tir.schedule.trace import PURE
from tests.unit.schedule.programs import chain, check, matmul, replays


@settings(max_examples=15)
@given(st.sampled_from([1, 2, 7, 12, 24, 60]), st.integers(1, 4), st.integers(0, 2**30))
def test_perfect_tiles(extent, parts, seed):
    before = matmul(n=extent)
    sch = Schedule(before, seed=seed)
    loop = sch.get_loops("C")[0]
    factors = sch.sample_perfect_tile(loop, parts, max_innermost_factor=64)
    numbers = [sch.get(factor) for factor in factors]
    assert prod(numbers) == extent and numbers[-1] <= 64
    assert sch.get(factors[0] * 2) == numbers[0] * 2
    sch.split(loop, factors)
    check(before, sch, machine=False)
    again = Schedule(before, seed=seed)
    loop = again.get_loops("C")[0]
    drawn = again.sample_perfect_tile(loop, parts, max_innermost_factor=64)
    assert [again.get(factor) for factor in drawn] == numbers


def test_every_tiling_is_as_likely():
    sch = Schedule(matmul(n=12), seed=1)
    loop = sch.get_loops("C")[0]
    seen = Counter(tuple(sch.get(v) for v in sch.sample_perfect_tile(loop, 3, 4)) for _ in range(1500))
    assert len(seen) == count_tilings(12, 3, 4)
    assert all(prod(tiling) == 12 and tiling[-1] <= 4 for tiling in seen)
    assert min(seen.values()) > 0.5 * 1500 / len(seen)


@settings(max_examples=12)
@given(st.sampled_from([7, 12, 24]), st.integers(0, 3), st.sampled_from([1, 2, 4, 5]), st.integers(0, 999))
def test_partitioned_tiles(extent, position, factor, seed):
    sch = Schedule(matmul(n=extent), seed=seed)
    loop = sch.get_loops("C")[0]
    numbers = [sch.get(v) for v in sch.sample_partitioned_tile(loop, 3, position, factor)]
    assert prod(numbers) == extent
    if extent % factor == 0 and position < 3:
        assert prod(numbers[position:]) % factor == 0
    elif extent % factor:
        assert numbers == [extent, 1, 1]


def test_categories_follow_their_probabilities():
    sch = Schedule(matmul(), seed=3)
    seen = Counter(sch.get(sch.sample_categorical([16, 32, 64], [0.5, 0.5, 0.0])) for _ in range(400))
    assert set(seen) == {16, 32} and min(seen.values()) > 140
    assert sch.get(sch.sample_categorical([16, 32, 64], [0.5, 0.5, 0.0], decision=2)) == 64


@given(st.integers(0, 2**30))
@settings(max_examples=15)
def test_locations_keep_the_program(seed):
    before = chain(n=4)
    sch = Schedule(before, seed=seed)
    location = sch.sample_compute_location("F")
    sch.compute_at("F", location)
    check(before, sch, machine=False)


def test_locations_are_all_found():
    decisions = set()
    for seed in range(40):
        sch = Schedule(chain(n=4), seed=seed)
        sch.sample_compute_location("F")
        decisions.add(sch.trace.get_decision(sch.trace.insts[-1]))
    assert decisions == {-2, -1, 0, 1}


# ---- traces


def _tuned(seed=7):
    sch = Schedule(matmul(n=12), seed=seed)
    block = sch.get_sblock("C")
    i, j, r = sch.get_loops(block)
    sch.get_consumers(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, 2))
    width = sch.sample_categorical([2, 4], [0.5, 0.5])
    j0, j1 = sch.split(j, [None, width * 2])
    sch.sample_categorical([1, 2], [0.5, 0.5])
    sch.reorder(i0, j0, r, i1, j1)
    sch.annotate(i0, "hint", {"depth": 3, "names": ["a", "b"]})
    sch.enter_postproc()
    sch.parallel(i0)
    return sch


def test_a_trace_as_python_runs():
    sch = _tuned()
    lines = sch.trace.as_python()
    assert lines[0] == "b0 = sch.get_sblock(name='C', func_name=None)"
    again = Schedule(matmul(n=12))
    exec("\n".join(lines), {"sch": again})
    assert_structural_equal(again.mod, sch.mod)
    assert again.trace.as_python() == lines


def test_traces_replay_every_way():
    sch = _tuned()
    replays(matmul(n=12), sch)
    short = sch.trace.simplified(remove_postproc=True)
    kinds = [inst.kind for inst in short.insts]
    assert "get_consumers" not in kinds and "parallel" not in kinds and "enter_postproc" not in kinds
    assert kinds.count("sample_categorical") == 1
    again = Schedule(matmul(n=12))
    sch.trace.apply_to_schedule(again, remove_postproc=True)
    assert not structural_equal(again.mod, sch.mod)
    other = Schedule(matmul(n=12))
    short.apply_to_schedule(other)
    assert_structural_equal(again.mod, other.mod)


def test_decisions_can_be_changed():
    sch = _tuned()
    tiling = next(inst for inst in sch.trace.insts if inst.kind == "sample_perfect_tile")
    changed = Schedule(matmul(n=12))
    sch.trace.with_decision(tiling, [3, 4]).apply_to_schedule(changed)
    assert "sample_perfect_tile(loop=l1, n=2, max_innermost_factor=16, decision=[3, 4])" in str(changed.trace)
    provided = Schedule(matmul(n=12))
    sch.trace.apply_to_schedule(
        provided, decision_provider=lambda inst, arguments, decision: [3, 4] if inst is tiling else decision
    )
    assert_structural_equal(provided.mod, changed.mod)


def test_the_last_instruction_can_be_taken_back():
    sch = _tuned()
    count = len(sch.trace.insts)
    copy = sch.trace.copy()
    assert copy.pop().kind == "parallel"
    assert (len(copy.insts), len(sch.trace.insts)) == (count - 1, count)
    assert Trace().pop() is None


def test_copies_go_their_own_way():
    sch = _tuned()
    other = sch.copy()
    other.unroll(other.get_loops("D")[0])
    assert len(other.trace.insts) == len(sch.trace.insts) + 2
    assert not structural_equal(other.mod, sch.mod)
    assert sch.fork_seed() != sch.fork_seed()
    sch.seed(5)
    drawn = sch.fork_seed()
    sch.seed(5)
    assert sch.fork_seed() == drawn


BROKEN = {
    "no list": ({}, "list of instructions"),
    "unknown primitive": ([[["work_on", {}, []]], []], "instruction 0"),
    "private": ([[["_update", {}, []]], []], "instruction 0"),
    "unknown handle": ([[["get_loops", {"block": "b3"}, ["l0"]]], []], "'b3'"),
    "wrong arguments": ([[["get_sblock", {"title": '"C"'}, ["b0"]]], []], "does not take"),
    "wrong outputs": ([[["get_sblock", {"name": '"C"'}, []]], []], "1 handles, not 0"),
    "no node": ([[["get_sblock", {"name": {"node": "?"}}, ["b0"]]], []], "no saved node"),
    "no text": ([[["get_sblock", {"name": '"C'}, ["b0"]]], []], "no text in quotes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_traces_are_refused(name):
    data, text = BROKEN[name]
    with pytest.raises(FormatError) as caught:
        Trace.apply_json_to_schedule(json.dumps(data), Schedule(matmul()))
    assert caught.value.code == "T0421"
    assert text in str(caught.value)


def test_maps_of_loops_are_saved():
    before = matmul(n=4)
    sch = Schedule(before)
    sch.prefetch("C", 1, sch.get_loops("C")[0], lambda i: (i + 1, 0))
    replays(before, sch)


def test_unknown_variables_are_not_saved():
    sch = Schedule(matmul(n=4))
    sch.annotate(sch.get_loops("C")[0], "hint", Var("unknown", "int64") + 1)
    with pytest.raises(FormatError) as caught:
        sch.trace.as_json()
    assert "annotate" in str(caught.value)


WRONG = {
    "symbolic": lambda s: s.sample_perfect_tile(s.get_loops("C")[0], 2),
    "wrong product": lambda s: s.sample_perfect_tile(s.get_loops("C")[1], 2, decision=[3, 2]),
    "wrong number": lambda s: s.sample_partitioned_tile(s.get_loops("C")[1], 2, decision=[8]),
    "no partition": lambda s: s.sample_partitioned_tile(s.get_loops("C")[1], 2, 3, 2),
    "no candidates": lambda s: s.sample_categorical([], []),
    "no probability": lambda s: s.sample_categorical([1, 2], [0.0, 0.0]),
    "no such choice": lambda s: s.sample_categorical([1, 2], [0.5, 0.5], decision=2),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_sampled(name):
    with pytest.raises(ScheduleError) as caught:
        WRONG[name](Schedule(matmul()))
    assert caught.value.code == "T0419"


def test_pure_primitives_exist():
    assert set(PRIMITIVES) >= PURE
