"""What expressions, and models of C functions, may ask of the machine that runs them (`interpret.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

from heddle.support.diagnostics import Code
from heddle.systems.races import Races
from heddle.systems.simulated_memory import SimulatedMemory
from heddle.systems.simulated_threads import Scheduler, SimulatedThread
from heddle.systems.types import FunctionType, Sized
from heddle.systems.words import NativeFunction

Value = int | tuple[int, ...]


class Running(Protocol):
    """A checking machine in the middle of a program."""

    platform: Mapping[str, int]
    memory: SimulatedMemory
    races: Races
    scheduler: Scheduler
    state: dict[Any, Any]
    at_end: list[Callable[[], object]]

    def global_at(self, name: str) -> int:
        """The address of a global."""

    def text_at(self, name: str) -> int:
        """The address of a text of the program."""

    def address_of(self, declared: NativeFunction) -> int:
        """The address of a function of the program."""

    def place(self) -> str:
        """Where the running thread is, for a message."""

    def fail(self, code: Code, message: str, notes: tuple[str, ...] = ()) -> NoReturn:
        """Raise what went wrong at the place that runs."""

    def step(self) -> None:
        """Count a step, and let another thread go on now and then."""

    def touch(self, start: int, size_bytes: int, *, writes: bool, is_atomic: bool = False) -> None:
        """Note an access for the search of races."""

    def load(self, address: int, kind: Sized, *, is_atomic: bool = False) -> int:
        """The value at an address."""

    def store(self, address: int, kind: Sized, value: int, *, is_atomic: bool = False) -> None:
        """Put a value at an address."""

    def string(self, address: int, most_bytes: int | None = None) -> bytes:
        """The bytes at an address up to a zero byte, of which no more than `most_bytes` are read."""

    def text(self, address: int) -> str:
        """The string at an address, up to its zero byte."""

    def spawn(self, work: Callable[[], object]) -> SimulatedThread:
        """Start a thread of the simulation, which calls the program."""

    def call_address(self, address: int, args: tuple[Value, ...], signature: FunctionType | None) -> Value:
        """Call the function at an address, of a type that is checked if it is known."""

    def call_function(self, declared: NativeFunction, args: tuple[Value, ...]) -> Value:
        """Call a function of the program."""

    def room(self, kind: Sized, count: int = 1) -> int:
        """Memory of the call that runs."""
