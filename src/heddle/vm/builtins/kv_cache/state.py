"""The interface that paged caches and recurrent states share, and its checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import Trap, TrapTypeError, TrapValueError
from heddle.vm.codes import V0402, V0701, V0702, V0703, V0708


class KVState(ABC):
    """The state of many sequences. The program chooses their ids.

    A step: `begin_forward` names the sequences of a batch and how many tokens each gets, the program runs its
    layers, and `end_forward` makes the tokens part of the sequences.
    """

    @abstractmethod
    def clear(self) -> None:
        """Remove all sequences and abort a step in progress."""

    @abstractmethod
    def add_sequence(self, seq_id: int) -> None:
        """Add an empty sequence. Raises: Trap V0702."""

    @abstractmethod
    def remove_sequence(self, seq_id: int) -> None:
        """Remove a sequence. Raises: Trap V0701."""

    @abstractmethod
    def fork_sequence(self, parent_id: int, child_id: int, position: int = -1) -> None:
        """Add a sequence that starts with the first `position` tokens of another one (-1: all).

        Raises: Trap V0701, V0702, V0703, V0704.
        """

    @abstractmethod
    def popn(self, seq_id: int, count: int) -> None:
        """Remove the last `count` tokens of a sequence. Raises: Trap V0701, V0703."""

    @abstractmethod
    def begin_forward(
        self, seq_ids: Sequence[int], lengths: Sequence[int], parents: Sequence[int] | None = None
    ) -> None:
        """Begin a step. `parents` are the parent indices of the token trees, concatenated.

        Raises: Trap V0701, V0703, V0704, V0705, V0706.
        """

    @abstractmethod
    def end_forward(self) -> None:
        """End the step. Raises: Trap V0705."""


def check_known(seq_id: int, known: Mapping[int, Any]) -> None:
    """Check that a sequence exists. Raises: Trap V0701 if not."""
    if seq_id not in known:
        raise Trap(V0701, f"there is no sequence {seq_id}", notes=_ids(known))


def check_new(seq_id: int, known: Mapping[int, Any]) -> None:
    """Check that a sequence does not exist. Raises: Trap V0702 if it does."""
    if seq_id in known:
        raise Trap(V0702, f"sequence {seq_id} exists already")


def _ids(known: Mapping[int, Any]) -> list[str]:
    shown = ", ".join(map(str, sorted(known)[:16]))
    return [f"there are {len(known)} sequences" + (f": {shown}" if known else "")]


def check_batch(seq_ids: Sequence[int], lengths: Sequence[int], known: Mapping[int, Any]) -> None:
    """Check the sequences of a step. Raises: Trap V0701 for an unknown id, V0703 for a repeated id or an
    invalid length."""
    if len(seq_ids) != len(lengths):
        raise Trap(V0703, f"expected a length for each of {len(seq_ids)} sequences, got {len(lengths)}")
    if not seq_ids:
        raise Trap(V0703, "a batch names at least one sequence")
    if len(set(seq_ids)) != len(seq_ids):
        raise Trap(V0703, f"a batch names each sequence once, got {list(seq_ids)}")
    for seq_id, length in zip(seq_ids, lengths, strict=True):
        check_known(seq_id, known)
        if length < 1:
            raise Trap(V0703, f"sequence {seq_id}: expected at least one token to append, got {length}")


def check_count(seq_id: int, count: int, most: int, what: str) -> None:
    """Check a count; `what` names it in the message. Raises: Trap V0703 for a count below 0 or above
    `most`.
    """
    if not 0 <= count <= most:
        raise Trap(V0703, f"sequence {seq_id}: expected {what} between 0 and {most}, got {count}")


def check_tensor(what: str, value: Any, shape: Sequence[int | None], dtype: Any) -> Tensor:
    """Check that a value is a compact tensor of a shape and dtype, and return it. None in `shape` means any
    size.

    Raises: TrapTypeError V0402 if it is not a tensor; TrapValueError V0708 for another shape, dtype or
    layout.
    """
    if not isinstance(value, Tensor):
        raise TrapTypeError(V0402, f"{what}: expected a tensor, got {type(value).__name__}")
    sizes = tuple(value.shape)
    fits = len(sizes) == len(shape) and all(w in (None, s) for w, s in zip(shape, sizes, strict=True))
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise TrapValueError(V0708, f"{what}: expected shape ({wanted}), got {sizes}")
    if value.dtype != dtype:
        raise TrapValueError(V0708, f"{what}: expected dtype {dtype}, got {value.dtype}")
    if not value.is_contiguous:
        raise TrapValueError(V0708, f"{what}: expected a compact tensor, got strides {value.strides}")
    return value
