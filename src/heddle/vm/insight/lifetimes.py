"""The machine's loop with lifetime checks, which find memory errors of compilers (`heddle run --sanitize`).

    call alloc_storage ..., dst: %0        the memory begins as all ones: NaN, -1
    call alloc_tensor %0, ..., dst: %1     so does the tensor
    call alloc_tensor %0, ..., dst: %2     %1 has lost its memory: V0410 where it is read from now on
    call null_value, dst: %0               %0 is cleared: V0409 where it is read from now on

Freed memory is filled with ones too (the poisoned kind of `heddle.runtime.storage`). A register that was
never written is found before the program runs (V0107).

Every register has the time of its last write. Every piece of a storage has the time at which a tensor was
placed on it. A tensor is stale if a part of its memory is newer than its register. Writing a register from a
valid one (a copy, a view, an element of a tuple or an argument) makes it valid at that time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from ctypes import memset
from dataclasses import dataclass, field
from typing import Any

from heddle.runtime.shape import Array
from heddle.runtime.storage import Storage
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import Trap
from heddle.support.frozen import frozen
from heddle.vm.builtins.table import PREFIX
from heddle.vm.codes import V0409, V0410
from heddle.vm.dataflow import callee_of, registers_read
from heddle.vm.frames import new_frame
from heddle.vm.insight.loop import WatchedFrame, WatchedLoop
from heddle.vm.steps import LinkedFunction

_CLEAR, _STORAGE, _TENSOR, _ITEM = (
    PREFIX + name for name in ("null_value", "alloc_storage", "alloc_tensor", "tuple_getitem")
)


@frozen
class _Cleared:
    """The content of a register that instruction `pc` cleared."""

    pc: int


@frozen
class _Claim:
    """Bytes from `start` to `end` belong to the tensor that was placed there at `time`."""

    start: int
    end: int
    time: int
    place: str


@dataclass(slots=True)
class _Frame(WatchedFrame):
    times: list[int] = field(default_factory=list)


class _Memory:
    """Maps each piece of each storage to the tensor that owns it."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._claims: dict[int, list[_Claim]] = {}

    def lent(self, storage: Storage) -> None:
        """Record new memory: earlier information about these addresses is discarded."""
        first = bisect_left(self._bases, storage.address)
        last = bisect_left(self._bases, storage.address + max(storage.size_bytes, 1))
        for base in self._bases[first:last]:
            del self._claims[base]
        self._bases[first:last] = [storage.address]
        self._claims[storage.address] = []

    def placed(self, storage: Storage, tensor: Tensor, time: int, place: str) -> None:
        if storage.address not in self._claims:
            insort(self._bases, storage.address)
        end = _end(tensor)
        older = self._claims.get(storage.address, ())
        kept = [claim for claim in older if claim.start < tensor.address or claim.end > end]
        self._claims[storage.address] = [*kept, _Claim(tensor.address, end, time, place)]
        memset(tensor.address, 0xFF, end - tensor.address)

    def claim_since(self, tensor: Tensor, time: int) -> _Claim | None:
        """Return the claim that was placed on the tensor's memory after a time; None if there is none."""
        at = bisect_right(self._bases, tensor.address) - 1
        end = _end(tensor)
        for claim in self._claims[self._bases[at]] if at >= 0 else ():
            if claim.time > time and claim.start < end and tensor.address < claim.end:
                return claim
        return None


class CheckedRunner(WatchedLoop[_Frame]):
    """Runs the bytecode of a machine. `run_call` is what `Watchable.running_with` takes."""

    def __init__(self, machine: Any) -> None:
        super().__init__(machine)
        self._program = machine.executable.program
        self._memory = _Memory()
        self._time = 0
        self._known: dict[str, list[tuple[str, tuple[int, ...]]]] = {}

    def run_call(self, function: LinkedFunction, args: Sequence[Any]) -> Any:
        """Raises: Trap V0409, V0410, and what the machine's own loop raises."""
        self.machine.ensure_linked()
        return self.run(self.entered(function, args))

    def entered(self, function: LinkedFunction, args: Sequence[Any]) -> _Frame:
        values = new_frame(function, args)
        return _Frame(function, values, times=[self._time] * len(values))

    def before(self, frame: _Frame) -> None:
        self._check(frame, *self._operands(frame.function)[frame.pc])
        self._time += 1

    def wrote(self, frame: _Frame, dst: int, value: Any, operands: Sequence[Any] | None) -> None:
        frame.times[dst] = self._time

    def call(self, frame: _Frame, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        value = function(*operands)
        callee, _ = self._operands(frame.function)[frame.pc]
        if callee == _CLEAR and frame.values[frame.function.code[frame.pc][3]] is not None:
            return _Cleared(frame.pc)
        if callee == _STORAGE and isinstance(value, Storage):
            self._memory.lent(value)
        elif callee == _TENSOR and isinstance(value, Tensor):
            place = f"instruction {frame.pc} of {frame.function.name!r}"
            self._memory.placed(operands[0], value, self._time, place)
        return value

    def _operands(self, function: LinkedFunction) -> list[tuple[str, tuple[int, ...]]]:
        """Of each instruction the function that it calls, and the registers that it reads."""
        found = self._known.get(function.name)
        if found is None:
            count = len(function.code)
            found = [self._operands_at(function.first + pc) for pc in range(count)]
            self._known[function.name] = found
        return found

    def _operands_at(self, index: int) -> tuple[str, tuple[int, ...]]:
        step = self._program.instruction(index)
        special = self._program.isa.special
        registers = tuple(register for register in registers_read(step) if register not in special)
        number = callee_of(step)
        return "" if number is None else self._program.functions[number].name, registers

    def _check(self, frame: _Frame, callee: str, registers: Sequence[int]) -> None:
        for register in registers:
            value = frame.values[register]
            if type(value) is _Cleared:
                raise Trap(
                    V0409,
                    f"register %{register} of {frame.function.name!r} is read after instruction {value.pc} "
                    "cleared it",
                )
            tensors = [frame.values[register]] if callee != _ITEM else self._item(frame)
            for tensor in _tensors(tensors):
                claim = self._memory.claim_since(tensor, frame.times[register])
                if claim is not None:
                    raise Trap(
                        V0410,
                        f"the tensor in register %{register} of {frame.function.name!r} is read after "
                        f"{claim.place} gave its memory to another",
                    )

    def _item(self, frame: _Frame) -> list[Any]:
        """Of a tuple whose element is taken, the element alone."""
        given = frame.function.code[frame.pc][2](frame.values)
        items, index = (*given, None, None)[:2]
        is_inside = isinstance(items, Array) and isinstance(index, int) and 0 <= index < len(items)
        return [items[index]] if is_inside else []


def _end(tensor: Tensor) -> int:
    return tensor.address + tensor.layout.num_elements * tensor.dtype.itemsize


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    """All tensors in values and the tuples among them."""
    left = list(values)
    while left:
        value = left.pop()
        if type(value) is Tensor:
            yield value
        elif isinstance(value, Array):
            left += value
