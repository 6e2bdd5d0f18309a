"""Recurrent states of many sequences, with a history for undoing steps.

The storage of a layer's state has shape (sequence slots, history slots, *state). A sequence owns a sequence
slot and knows its current history slot h. In a step, the program's own kernels read slot h and write slot h +
1, modulo the length of the history. `end_forward` makes that slot the current one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heddle.runtime.tensor import Tensor, empty, tensor
from heddle.support.diagnostics import Trap, TrapTypeError, TrapValueError
from heddle.vm.builtins.kv_cache.config import Kernel, parse_kernel
from heddle.vm.builtins.kv_cache.forward import bounds, numbers
from heddle.vm.builtins.kv_cache.state import (
    KVState,
    check_batch,
    check_count,
    check_known,
    check_new,
    check_tensor,
)
from heddle.vm.builtins.kv_cache.token_tree import TokenTree
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0703, V0704, V0705, V0707, V0708


class _Recurrent:
    """A sequence. `history` is the current history slot, `available` the number of steps that can be
    undone.
    """

    __slots__ = ("available", "history", "length", "slot")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.length = 0
        self.history = 0
        self.available = 0


class RNNState(KVState):
    """Recurrent states of sequences; see the docstring of the module. `storages[layer][state]` are the
    storage tensors."""

    def __init__(
        self,
        num_layers: int,
        num_seqs: int,
        max_history: int,
        gets: Sequence[Kernel],
        sets: Sequence[Kernel],
        initial: Sequence[Tensor],
    ) -> None:
        self.num_seqs, self.max_history = num_seqs, max_history
        self.gets, self.sets, self.initial = list(gets), list(sets), list(initial)
        self.storages = [
            [empty((num_seqs, max_history, *value.shape), value.dtype, value.device) for value in initial]
            for _ in range(num_layers)
        ]
        self._step: list[tuple[_Recurrent, int]] | None = None
        self.clear()

    def clear(self) -> None:
        self.sequences: dict[int, _Recurrent] = {}
        self._free = list(range(self.num_seqs))[::-1]
        self._step = None

    def _check_idle(self) -> None:
        if self._step is not None:
            raise Trap(V0705, "sequences cannot change between begin_forward and end_forward")

    def _take(self, seq_id: int) -> _Recurrent:
        check_new(seq_id, self.sequences)
        if not self._free:
            raise Trap(V0704, f"expected at most {self.num_seqs} sequences, got one more")
        made = self.sequences[seq_id] = _Recurrent(self._free.pop())
        return made

    def add_sequence(self, seq_id: int) -> None:
        self._check_idle()
        slot = self._take(seq_id).slot
        for layer in self.storages:
            for storage, value in zip(layer, self.initial, strict=True):
                storage.numpy()[slot, 0] = value.numpy()

    def remove_sequence(self, seq_id: int) -> None:
        self._check_idle()
        check_known(seq_id, self.sequences)
        self._free.append(self.sequences.pop(seq_id).slot)

    def fork_sequence(self, parent_id: int, child_id: int, position: int = -1) -> None:
        """Add a sequence that starts at `position` of another one. The position must be within the parent's
        history."""
        self._check_idle()
        check_known(parent_id, self.sequences)
        parent = self.sequences[parent_id]
        back = 0 if position == -1 else parent.length - position
        if not 0 <= back <= parent.available:
            raise Trap(
                V0703,
                f"sequence {parent_id}: expected a fork position from {parent.length - parent.available} to "
                f"{parent.length}, got {position}",
            )
        child = self._take(child_id)
        for layer in self.storages:
            for storage in layer:
                storage.numpy()[child.slot] = storage.numpy()[parent.slot]
        child.length, child.history, child.available = parent.length, parent.history, parent.available
        self._step_back(child, back)

    def popn(self, seq_id: int, count: int) -> None:
        self._check_idle()
        check_known(seq_id, self.sequences)
        seq = self.sequences[seq_id]
        check_count(seq_id, count, seq.available, "a number of steps in the history")
        self._step_back(seq, count)

    def _step_back(self, seq: _Recurrent, count: int) -> None:
        seq.length -= count
        seq.available -= count
        seq.history = (seq.history - count) % self.max_history

    def begin_forward(
        self, seq_ids: Sequence[int], lengths: Sequence[int], parents: Sequence[int] | None = None
    ) -> None:
        """Begin a step. Token trees must be chains, because a state has one successor."""
        if self._step is not None:
            raise Trap(V0705, "begin_forward comes after the end_forward of the step before")
        check_batch(seq_ids, lengths, self.sequences)
        if parents is not None:
            self._check_chains(seq_ids, lengths, parents)
        batch = [self.sequences[seq_id] for seq_id in seq_ids]
        self._step = list(zip(batch, lengths, strict=True))
        self._seq_slots = numbers([seq.slot for seq in batch])
        self._history_slots = numbers([seq.history for seq in batch])

    def _check_chains(self, seq_ids: Sequence[int], lengths: Sequence[int], parents: Sequence[int]) -> None:
        if len(parents) != sum(lengths):
            raise Trap(V0703, f"expected {sum(lengths)} parents in the token trees, got {len(parents)}")
        at = bounds(lengths)
        for position, seq_id in enumerate(seq_ids):
            if not TokenTree(seq_id).extended(parents[at[position] : at[position + 1]]).is_chain:
                message = f"sequence {seq_id}: recurrent states take only token trees that are chains"
                raise TrapValueError(V0707, message)

    def _current(self) -> list[tuple[_Recurrent, int]]:
        if self._step is None:
            raise Trap(V0705, "expected begin_forward before this call")
        return self._step

    def end_forward(self) -> None:
        """End the step. After a step of several tokens the history is empty, because the states between them
        were not stored."""
        for seq, length in self._current():
            seq.length += length
            seq.history = (seq.history + 1) % self.max_history
            seq.available = min(seq.available + 1, self.max_history - 1) if length == 1 else 0
        self._step = None

    def _storage(self, layer: int, state: int) -> Tensor:
        if not 0 <= layer < len(self.storages):
            raise Trap(V0703, f"expected a layer from 0 to {len(self.storages) - 1}, got {layer}")
        if not 0 <= state < len(self.initial):
            raise Trap(V0703, f"expected a state from 0 to {len(self.initial) - 1}, got {state}")
        return self.storages[layer][state]

    def _data(self, state: int, data: Tensor) -> Tensor:
        value = self.initial[state]
        return check_tensor("state", data, (len(self._current()), *value.shape), value.dtype)

    def get(self, layer: int, state: int, out: Tensor) -> None:
        """Read the states of the step's sequences into `out`, (batch, *state)."""
        storage = self._storage(layer, state)
        self.gets[state](storage, *self._slots(), self._data(state, out))

    def set(self, layer: int, state: int, data: Tensor) -> None:
        """Store the states after the step, (batch, *state)."""
        storage = self._storage(layer, state)
        self.sets[state](storage, *self._slots(), self._data(state, data))

    def _slots(self) -> tuple[Tensor, Tensor]:
        self._current()
        return self._seq_slots, self._history_slots

    def debug_get(self, layer: int, state: int, seq_id: int) -> Tensor:
        """Return a copy of a sequence's state."""
        check_known(seq_id, self.sequences)
        seq = self.sequences[seq_id]
        found: np.ndarray[Any, Any] = self._storage(layer, state).numpy()[seq.slot, seq.history]
        return tensor(found)


def _rnn(value: Any) -> RNNState:
    if not isinstance(value, RNNState):
        raise TrapTypeError(V0402, f"expected a recurrent state, got {type(value).__name__}")
    return value


@builtin("rnn_state_create")
def rnn_state_create(
    num_layers: int, num_seqs: int, max_history: int, gets: Any, sets: Any, initial: Any
) -> RNNState:
    """Create a recurrent state. For each state of a layer, give a kernel that reads it and one that writes it
    (parameters: storage, sequence slots, history slots, data), and its initial value.

    Raises: TrapTypeError V0402; TrapValueError V0707, V0708.
    """
    for what, size in (("layers", num_layers), ("sequences", num_seqs), ("history slots", max_history)):
        if size < 1:
            raise TrapValueError(V0707, f"expected a positive number of {what}, got {size}")
    if not len(gets) == len(sets) == len(initial):
        counts = f"{len(gets)}, {len(sets)} and {len(initial)}"
        raise TrapValueError(V0707, f"expected as many kernels as initial values, got {counts}")
    for value in initial:
        if not isinstance(value, Tensor):
            raise TrapTypeError(V0402, f"initial value: expected a tensor, got {type(value).__name__}")
        if not value.is_contiguous:
            raise TrapValueError(V0708, "initial value: expected a compact tensor")
    return RNNState(num_layers, num_seqs, max_history, _kernels(gets), _kernels(sets), initial)


def _kernels(values: Any) -> list[Kernel]:
    found = [parse_kernel("kernel", value) for value in values]
    if None in found:
        raise TrapTypeError(V0402, "kernel: expected a function, got None")
    return [kernel for kernel in found if kernel is not None]


@builtin("rnn_state_get")
def rnn_state_get(state: RNNState, layer: int, index: int, out: Tensor) -> Tensor:
    """Write the states of the step's sequences to `out` (batch, *state), and return it."""
    _rnn(state).get(layer, index, out)
    return out


@builtin("rnn_state_set")
def rnn_state_set(state: RNNState, layer: int, index: int, data: Tensor) -> RNNState:
    """Store the states after the step. Return the recurrent state."""
    _rnn(state).set(layer, index, data)
    return state


@builtin("rnn_state_debug_get")
def rnn_state_debug_get(state: RNNState, layer: int, index: int, seq_id: int) -> Tensor:
    """Return a copy of a sequence's state."""
    return _rnn(state).debug_get(layer, index, seq_id)
