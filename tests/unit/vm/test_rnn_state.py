"""Recurrent states."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle.runtime import tensor
from heddle.script import tir as T
from heddle.support.diagnostics import Trap

from .cache_model import builtin

SLOTS, HISTORY, LAYERS = 4, 3, 2


@T.prim_func
def read_state(
    storage: T.Buffer((SLOTS, HISTORY, 2, 3), "float32"), seqs: T.handle, history: T.handle, out: T.handle
):
    batch = T.int32(is_size_var=True)
    seq_slots = T.match_buffer(seqs, (batch,), "int32")
    history_slots = T.match_buffer(history, (batch,), "int32")
    target = T.match_buffer(out, (batch, 2, 3), "float32")
    for i, j, k in T.grid(batch, 2, 3):
        target[i, j, k] = storage[seq_slots[i], history_slots[i], j, k]


@T.prim_func
def write_state(
    storage: T.Buffer((SLOTS, HISTORY, 2, 3), "float32"), seqs: T.handle, history: T.handle, data: T.handle
):
    batch = T.int32(is_size_var=True)
    seq_slots = T.match_buffer(seqs, (batch,), "int32")
    history_slots = T.match_buffer(history, (batch,), "int32")
    source = T.match_buffer(data, (batch, 2, 3), "float32")
    for i, j, k in T.grid(batch, 2, 3):
        storage[seq_slots[i], (history_slots[i] + 1) % HISTORY, j, k] = source[i, j, k]


def read_numbers(storage, seqs, history, out):
    out[:] = storage.numpy()[seqs.numpy(), history.numpy()]


def write_numbers(storage, seqs, history, data):
    storage.numpy()[seqs.numpy(), (history.numpy() + 1) % HISTORY] = data.numpy()


@pytest.fixture
def state():
    kernels = heddle.build({"read_state": read_state, "write_state": write_state})
    initial = [tensor(np.full((2, 3), 0.5, "f4")), tensor(np.arange(5, dtype="i4"))]
    return builtin("rnn_state_create")(
        LAYERS,
        SLOTS,
        HISTORY,
        [kernels["read_state"], read_numbers],
        [kernels["write_state"], write_numbers],
        initial,
    )


SHAPES = (((2, 3), "float32"), ((5,), "int32"))
START = (np.full((2, 3), 0.5, "f4"), np.arange(5, dtype="i4"))


def values_of(state, seq_id):
    get = builtin("rnn_state_debug_get")
    return [get(state, layer, i, seq_id).numpy() for layer in range(LAYERS) for i in range(2)]


def step(state, ids, lengths, rng):
    """Read all states, write new ones; gives what was read and written, for each sequence."""
    builtin("kv_state_begin_forward")(state, ids, lengths)
    read, written = [], []
    for layer in range(LAYERS):
        for i, (shape, dtype) in enumerate(SHAPES):
            out = np.zeros((len(ids), *shape), dtype)
            builtin("rnn_state_get")(state, layer, i, out)
            data = rng.integers(-1000, 1000, out.shape).astype(dtype)
            assert builtin("rnn_state_set")(state, layer, i, data) is state
            read.append(out)
            written.append(data)
    builtin("kv_state_end_forward")(state)
    per_seq = [[[part[row] for part in parts] for row in range(len(ids))] for parts in (read, written)]
    return per_seq[0], per_seq[1]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.fact("10.11")
def test_random_program(state):
    """Each sequence is a list of states, of which the last ones can be gone back to."""
    rng, initial = np.random.default_rng(0), list(START) * LAYERS
    model: dict[int, list] = {}  # id → states that can still be reached, newest last
    lengths: dict[int, int] = {}
    for number in range(1500):
        name = (
            rng.choice(["add", "remove", "fork", "fork", "pop", "step", "step", "step"]) if model else "add"
        )
        known = list(model)
        if name in ("add", "fork") and len(model) == SLOTS:
            with pytest.raises(Trap, match=r"V0704.*at most 4 sequences"):
                builtin("kv_state_add_sequence")(state, number)
        elif name == "add":
            builtin("kv_state_add_sequence")(state, number)
            model[number], lengths[number] = [initial], 0
        elif name == "remove":
            gone = int(rng.choice(known))
            builtin("kv_state_remove_sequence")(state, gone)
            del model[gone]
        elif name == "fork":
            parent = int(rng.choice(known))
            back = int(rng.integers(0, len(model[parent])))
            at = lengths[parent] - back if back or rng.random() < 0.5 else -1
            builtin("kv_state_fork_sequence")(state, parent, number, at)
            model[number] = model[parent][: len(model[parent]) - back]
            lengths[number] = lengths[parent] - back
        elif name == "pop":
            seq = int(rng.choice(known))
            count = int(rng.integers(0, len(model[seq])))
            builtin("kv_state_popn")(state, seq, count)
            model[seq] = model[seq][: len(model[seq]) - count]
            lengths[seq] -= count
        else:
            ids = [int(i) for i in rng.permutation(known)[: rng.integers(1, len(known) + 1)]]
            counts = [int(n) for n in rng.choice([1, 1, 1, 4], len(ids))]
            read, written = step(state, ids, counts, rng)
            for seq, count, before, after in zip(ids, counts, read, written, strict=True):
                assert same(before, model[seq][-1])
                model[seq] = [*model[seq], after][-HISTORY:] if count == 1 else [after]
                lengths[seq] += count
        for seq, states in model.items():
            assert same(values_of(state, seq), states[-1])


@pytest.mark.fact("10.11")
def test_history_ends(state):
    """At most max_history - 1 steps back, none after several tokens at once."""
    rng, pop = np.random.default_rng(1), builtin("kv_state_popn")
    builtin("kv_state_add_sequence")(state, 5)
    for _ in range(4):
        step(state, [5], [1], rng)
    with pytest.raises(RuntimeError, match=r"V0703.*sequence 5: expected a number of steps.*0 and 2, got 3"):
        pop(state, 5, 3)
    pop(state, 5, 2)
    with pytest.raises(Trap, match="between 0 and 0, got 1"):
        pop(state, 5, 1)
    step(state, [5], [2], rng)
    with pytest.raises(Trap, match="between 0 and 0, got 1"):
        pop(state, 5, 1)
    with pytest.raises(Trap, match=r"V0703.*fork position from 4 to 4, got 2"):
        builtin("kv_state_fork_sequence")(state, 5, 6, 2)


@pytest.mark.fact("10.4")
def test_slots_are_handed_out_low_first_and_reused_last_first(state):
    add, remove = builtin("kv_state_add_sequence"), builtin("kv_state_remove_sequence")
    for seq in (10, 11, 12, 13):
        add(state, seq)
    assert [state.sequences[seq].slot for seq in (10, 11, 12, 13)] == [0, 1, 2, 3]
    remove(state, 10)
    remove(state, 12)
    add(state, 14)
    add(state, 15)
    assert [state.sequences[seq].slot for seq in (14, 15)] == [2, 0]
    builtin("kv_state_clear")(state)
    add(state, 16)
    assert state.sequences[16].slot == 0
    assert same(values_of(state, 16), list(START) * LAYERS)


@pytest.mark.fact("10.4")
def test_order_of_calls_and_ids(state):
    begin, end = builtin("kv_state_begin_forward"), builtin("kv_state_end_forward")
    add = builtin("kv_state_add_sequence")
    add(state, 1)
    for call in (
        lambda: add(state, 1),
        lambda: builtin("kv_state_fork_sequence")(state, 1, 1),
    ):
        with pytest.raises(Trap, match=r"V0702.*sequence 1 exists already"):
            call()
    with pytest.raises(Trap, match=r"V0701.*no sequence 9"):
        begin(state, [9], [1])
    with pytest.raises(Trap, match=r"V0705.*expected begin_forward"):
        end(state)
    with pytest.raises(Trap, match="V0705"):
        builtin("rnn_state_get")(state, 0, 0, np.zeros((1, 2, 3), "f4"))
    begin(state, [1], [1])
    for call in (lambda: begin(state, [1], [1]), lambda: add(state, 2)):
        with pytest.raises(Trap, match="V0705"):
            call()
    end(state)


@pytest.mark.fact("10.9")
def test_only_chains(state):
    """Recurrent states accept only token trees that are chains."""
    begin = builtin("kv_state_begin_forward")
    builtin("kv_state_add_sequence")(state, 1)
    with pytest.raises(Trap, match=r"V0707.*only token trees that are chains"):
        begin(state, [1], [3], [-1, 0, 0])
    with pytest.raises(Trap, match=r"V0703.*expected 3 parents.*got 2"):
        begin(state, [1], [3], [-1, 0])
    begin(state, [1], [3], [-1, 0, 1])


@pytest.mark.fact("10.11")
def test_what_does_not_fit(state):
    builtin("kv_state_add_sequence")(state, 1)
    builtin("kv_state_begin_forward")(state, [1], [1])
    get = builtin("rnn_state_get")
    for arguments, message in (
        ((0, 0, np.zeros((2, 2, 3), "f4")), r"V0708.*shape \(1, 2, 3\), got \(2, 2, 3\)"),
        ((0, 0, np.zeros((1, 2, 3), "f2")), "V0708.*dtype float32, got float16"),
        ((2, 0, np.zeros((1, 2, 3), "f4")), "V0703.*layer from 0 to 1, got 2"),
        ((0, 2, np.zeros((1, 2, 3), "f4")), "V0703.*state from 0 to 1, got 2"),
    ):
        with pytest.raises(Trap, match=message):
            get(state, *arguments)
    create = builtin("rnn_state_create")
    with pytest.raises(ValueError, match=r"V0707.*as many kernels.*1, 1 and 0"):
        create(1, 1, 1, [read_numbers], [write_numbers], [])
    with pytest.raises(ValueError, match=r"V0707.*positive number of history slots, got 0"):
        create(1, 1, 0, [], [], [])
    with pytest.raises(TypeError, match=r"V0402.*function, got None"):
        create(1, 1, 1, [None], [write_numbers], [tensor(np.zeros(2, "f4"))])
    with pytest.raises(TypeError, match=r"V0402.*expected a recurrent state, got int"):
        get(3, 0, 0, np.zeros(1))
