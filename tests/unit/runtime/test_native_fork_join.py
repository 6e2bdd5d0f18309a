"""The fork-join pool in the checking interpreter: many orders of its threads, each without a race."""

import random

import pytest

from heddle.runtime.native.part_layout import Part, PartLog
from heddle.runtime.native.source import fork_join, thread
from heddle.support.diagnostics import Trap
from heddle.systems.types import ArrayType, u64
from tests.unit.runtime.native_machine import changed_program, last_error, machine_of


def _covered(ranges):
    """The indices of some ranges, in order."""
    return sorted(index for begin, end in ranges for index in range(begin, end))


def _run_loops(machine, threads, loops, body=None, spins=4):
    """The ranges that each loop ran in; `loops` are extents and grains."""
    machine.call("heddle_pool_configure", threads, spins)
    ran = []

    def record(begin, end, ctx):
        ran[-1].append((begin, end))
        return 0 if body is None else body(begin, end, ctx)

    at = machine.function(record)
    statuses = []
    for extent, grain in loops:
        ran.append([])
        statuses.append(machine.call("heddle_parallel_for", at, 0, extent, grain))
    return ran, statuses


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_parallel_loops_run_every_index_once_and_nothing_races(threads, seed):
    rng = random.Random(seed)
    loops = [
        (rng.choice([-1, 0, 1, 2, 7, 13, 64, 101]), rng.choice([-64, -3, -1, 0, 1, 3, 64])) for _ in range(6)
    ]
    with machine_of(seed=seed) as machine:
        ran, statuses = _run_loops(machine, threads, loops)
    assert statuses == [0] * len(loops)
    for (extent, grain), ranges in zip(loops, ran, strict=True):
        covered = sorted(index for begin, end in ranges for index in range(begin, end))
        assert covered == list(range(extent)), (extent, grain, ranges)


@pytest.mark.parametrize("seed", range(8))
def test_the_first_error_of_a_part_reaches_the_caller(seed):
    with machine_of(seed=seed) as machine:
        note = machine.text_at("no_memory")

        def body(begin, end, ctx):
            if begin >= 5:
                machine.call("heddle_set_error", 9, note, begin, end)
                return -1
            return 0

        _, statuses = _run_loops(machine, 2, [(10, 1), (4, 1), (10, 1)], body)
        assert statuses == [-1, 0, -1]
        word, begin, _, message = last_error(machine)
        assert (word, message) == (9, thread.no_memory.text)
        assert begin >= 5


@pytest.mark.parametrize("seed", range(4))
def test_nested_loops_run_inline(seed):
    with machine_of(seed=seed) as machine:
        inner = []
        small = machine.function(lambda begin, end, ctx: inner.append((begin, end)) or 0)
        body = machine.function(lambda begin, end, ctx: machine.call("heddle_parallel_for", small, 0, 8, 1))
        machine.call("heddle_pool_configure", 2, 4)
        assert machine.call("heddle_parallel_for", body, 0, 2, 1) == 0
        assert inner == [(0, 8), (0, 8)]


@pytest.mark.parametrize("seed", range(6))
def test_a_pool_that_can_have_no_threads_does_all_alone(seed):
    with machine_of(seed=seed) as machine:
        machine.state["max_threads"] = 1
        ran, _ = _run_loops(machine, 4, [(32, 1)] * 3)
        assert ran == [[(first, first + 2) for first in range(0, 32, 2)]] * 3


@pytest.mark.parametrize("seed", range(6))
def test_threads_on_one_processor_sleep_at_once(seed):
    with machine_of(seed=seed) as machine:
        machine.state["cpu"] = 7
        ran, _ = _run_loops(machine, 2, [(16, 1)] * 4, spins=1_000_000)
        assert all(_covered(ranges) == list(range(16)) for ranges in ran)


@pytest.mark.parametrize("cpu", [2, 65, 8191])
def test_a_thread_leaves_a_processor_and_may_run_where_it_could_before(cpu):
    allowed, asked = {2, 65, 8191}, []

    def read(machine, size_bytes, mask):
        for number in allowed:
            word = mask + number // 64 * 8
            machine.store(word, u64, machine.load(word, u64) | 1 << number % 64)

    def choose(machine, size_bytes, mask):
        words = [machine.load(mask + 8 * k, u64) for k in range(size_bytes // 8)]
        asked.append({64 * k + bit for k, word in enumerate(words) for bit in range(64) if word >> bit & 1})

    with machine_of(externals={"read_processors": read, "choose_processors": choose}) as machine:
        machine.call("leave_processor", cpu)
        assert asked == [allowed - {cpu}, allowed]
        machine.call("leave_processor", 8192)  # of more processors than a mask holds
        machine.call("leave_processor", -3)  # where the system does not tell
    assert len(asked) == 2


@pytest.mark.parametrize("seed", range(4))
def test_a_worker_on_its_callers_processor_tries_another_one_now_and_then(tmp_path, seed):
    moves = []
    program = changed_program(tmp_path, fork_join, "> MOVE_CYCLES", ">= 0")
    models = {"choose_processors": lambda machine, *_: moves.append(1)}
    with machine_of(program, seed, models) as machine:
        machine.state["cpu"] = 7
        ran, _ = _run_loops(machine, 2, [(16, 1)] * 4, spins=3)
        assert all(_covered(ranges) == list(range(16)) for ranges in ran)
    assert moves


def _log_in(machine, capacity):
    """Where the pool writes its parts from now on."""
    log = machine.new(PartLog.layout)
    values = {
        "parts": machine.new(ArrayType(Part.layout, capacity)),
        "capacity": capacity,
        "count": 0,
    }
    for name, value in values.items():
        machine.store(log + PartLog.layout.fields[name].offset_bytes, u64, value)
    machine.call("heddle_log_parts", log)
    return log


def _logged(machine, log):
    """The parts in a log, as values of their fields, and how many there were."""
    layout = Part.layout
    at, count = (machine.field(log, PartLog.layout, name) for name in ("parts", "count"))
    places = range(min(count, machine.field(log, PartLog.layout, "capacity")))
    names = ("owner", "thread", "begin", "size", "start", "end")
    rows = [[machine.field(at + k * layout.size_bytes, layout, name) for name in names] for k in places]
    return rows, count


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_each_part_is_written_down_while_somebody_asks(threads, seed):
    with machine_of(seed=seed) as machine:
        _run_loops(machine, threads, [(9, 1)])
        log = _log_in(machine, 32)
        ran, _ = _run_loops(machine, threads, [(12, 1), (7, 1), (5, 5)])
        machine.call("heddle_log_parts", 0)
        _run_loops(machine, threads, [(9, 1)])
        rows, count = _logged(machine, log)
        me = machine.call("heddle_thread")
    expected = [part for ranges in ran[:2] for part in ranges] if threads > 1 else []
    assert sorted((begin, begin + size) for _, _, begin, size, _, _ in rows) == sorted(expected)
    assert count == len(rows)
    assert all(owner == me and start <= end for owner, _, _, _, start, end in rows)
    assert len({thread for _, thread, *_ in rows}) <= threads


@pytest.mark.parametrize("seed", range(6))
def test_parts_beyond_the_room_are_counted(seed):
    with machine_of(seed=seed) as machine:
        log = _log_in(machine, 3)
        _run_loops(machine, 2, [(12, 1)] * 4)
        rows, count = _logged(machine, log)
    assert len(rows) == 3 < count


@pytest.mark.parametrize("seed", range(10))
def test_parts_of_two_callers_are_told_apart(seed):
    with machine_of(seed=seed) as machine:
        log = _log_in(machine, 64)
        callers = []

        def work():
            callers.append(machine.call("heddle_thread"))
            _run_loops(machine, 2, [(7, 1), (12, -1)])

        other = machine.spawn(work)
        work()
        machine.join(other)
        rows, _ = _logged(machine, log)
    assert {owner for owner, *_ in rows} <= set(callers)


CLAIM = """\
        seen = ticket.load(ACQUIRE)
        first = seen & 65535
        left = (seen >> 16) & 65535
        if left == 0:
            return
        if not ticket.compare_exchange(seen, seen - 65536 + step, ACQ_REL, ACQUIRE):
"""
DONE = "if done.add(1, SEQ_CST) + 1 == parts"
WAIT = "    pthread_mutex_lock(lock)\n    caller_waits.store(1, SEQ_CST)\n"
JOIN_FAULTS = {
    "publishes carelessly": ("parts << 16, SEQ_CST)", "parts << 16, RELAXED)", "Y0405"),
    "claims carelessly": (
        CLAIM,
        CLAIM.replace("ACQUIRE", "RELAXED").replace("ACQ_REL", "RELAXED"),
        "Y0405",
    ),
    "finishes carelessly": (DONE, DONE.replace("SEQ_CST", "RELAXED"), "Y0405"),
    "forgets the caller": ("            pthread_cond_signal(work_done)\n", "", "Y0406"),
    "waits without its lock": (WAIT, "    caller_waits.store(1, SEQ_CST)\n", "Y0407"),
    "leaves a part to nobody": ("        if left == 0:", "        if left <= 1:", "Y0411"),
    "takes a part that another has": ("first + left - 1, parts)", "first, parts)", "twice"),
}


def _faults(program, seed):
    """What the interpreter says of some loops on two threads."""
    loops = [(7, 1), (12, 1), (9, 1), (8, 1)]
    try:
        with machine_of(program, seed, max_steps=20_000) as machine:
            ran, _ = _run_loops(machine, 2, loops, spins=2)
    except Trap as error:
        return error.code
    covered = [_covered(ranges) for ranges in ran]
    return None if covered == [list(range(extent)) for extent, _ in loops] else "twice"


@pytest.mark.parametrize(("old", "new", "code"), JOIN_FAULTS.values(), ids=JOIN_FAULTS)
def test_faults_in_the_fork_join_are_found(tmp_path, old, new, code):
    program = changed_program(tmp_path, fork_join, old, new)
    assert any(_faults(program, seed) == code for seed in range(200))


@pytest.mark.parametrize("seed", range(20))
def test_an_owner_who_gives_the_pool_back_too_early_is_found(tmp_path, seed):
    old = "status = run_owned(me,"
    program = changed_program(tmp_path, fork_join, old, f"busy.store(0, RELEASE)\n            {old}")
    with pytest.raises(Trap, match="Y0405"):
        _two_callers(program, seed)


def _two_callers(program, seed):
    loops = [(7, 1), (12, -1)]
    with machine_of(program, seed) as machine:
        other = machine.spawn(lambda: _run_loops(machine, 2, loops))
        ran, statuses = _run_loops(machine, 2, loops)
        machine.join(other)
    assert statuses == [0, 0]
    assert [_covered(ranges) for ranges in ran] == [list(range(7)), list(range(12))]


@pytest.mark.parametrize("seed", range(20))
def test_callers_on_several_threads_share_the_pool(seed):
    _two_callers(None, seed)
