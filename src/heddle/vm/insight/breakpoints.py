"""Breakpoints: where a debugger stops.

| text | stops |
|---|---|
| `NAME` | before a call of that function, kernel or builtin, and at the start of a function of the program |
| `FUNCTION:PC` | before that instruction |
| `shape [FUNCTION:]%REGISTER` | after the register got a tensor of another shape than before |
| `nan`, `inf`, `nonfinite` | after an instruction computed such a value from operands without one |
| `alloc BYTES` | after an allocation of more than so many bytes (`K`, `M`, `G` are powers of 1024) |
| `error` | after an instruction that raised |
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.vm.codes import V0505, V0506
from heddle.vm.insight.recording import Step, num_inf, num_nan, num_not_finite
from heddle.vm.insight.sites import Site, Sites

_COUNTS = {"nan": num_nan, "inf": num_inf, "nonfinite": num_not_finite}
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE = re.compile(r"([0-9]{1,15})\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_REGISTER = re.compile(r"(?:(?P<function>[^%]+):)?%(?P<number>[0-9]{1,9})")
_INSTRUCTION = re.compile(r"(?P<function>.+):(?P<pc>[0-9]{1,9})")


@dataclass(slots=True)
class Breakpoint(ABC):
    """A breakpoint. `text` is what the user wrote."""

    text: str

    def stops_before(self, site: Site) -> bool:
        """Whether to stop before the instruction at `site`."""
        return False

    def stops_after(self, step: Step) -> str | None:
        """Return the reason to stop after a step, or None."""
        return None

    @abstractmethod
    def __str__(self) -> str:
        """Return a one-line description of the condition."""


@dataclass(slots=True)
class AtFunction(Breakpoint):
    def stops_before(self, site: Site) -> bool:
        return site.callee == self.text or (site.function == self.text and site.pc == 0)

    def __str__(self) -> str:
        return f"calls of {self.text}"


@dataclass(slots=True)
class AtInstruction(Breakpoint):
    function: str
    pc: int

    def stops_before(self, site: Site) -> bool:
        return site.function == self.function and site.pc == self.pc

    def __str__(self) -> str:
        return f"instruction {self.function}:{self.pc}"


@dataclass(slots=True)
class OnShapeChange(Breakpoint):
    """A write gives the register a tensor of another shape than the previous write did, in any call of the
    function."""

    function: str | None
    register: int

    def stops_after(self, step: Step) -> str | None:
        for write in step.writes:
            shape, last = write.after.shape, write.last_shape
            if write.register != self.register or self.function not in (None, write.function):
                continue
            if shape is not None and last is not None and shape != last:
                return f"shape of %{self.register} in {write.function} went from {last} to {shape}"
        return None

    def __str__(self) -> str:
        where = "" if self.function is None else f" in {self.function}"
        return f"changes of the shape of %{self.register}{where}"


@dataclass(slots=True)
class OnValue(Breakpoint):
    count: Callable[[Any], int]

    def stops_after(self, step: Step) -> str | None:
        if not step.makes(self.count):
            return None
        write = next(write for write in step.outputs if self.count(write.after))
        return f"{self.text} in %{write.register}: {write.after}"

    def __str__(self) -> str:
        return f"{self.text} in what an instruction computes"


@dataclass(slots=True)
class OnAllocation(Breakpoint):
    size_bytes: int

    def stops_after(self, step: Step) -> str | None:
        large = [size for size in step.allocations if size > self.size_bytes]
        return f"allocation of {large[0]} bytes" if large else None

    def __str__(self) -> str:
        return f"allocations over {self.size_bytes} bytes"


@dataclass(slots=True)
class OnError(Breakpoint):
    def stops_after(self, step: Step) -> str | None:
        return step.error

    def __str__(self) -> str:
        return "errors"


def parse_breakpoint(text: str, sites: Sites) -> Breakpoint:
    """Parse a breakpoint.

    Raises: UsageError V0505 for a malformed text, V0506 for a place that the program does not have.
    """
    text = text.strip()
    word, _, rest = text.partition(" ")
    if word in _COUNTS and not rest:
        return OnValue(text, _COUNTS[word])
    if text == "error":
        return OnError(text)
    if word == "alloc":
        return OnAllocation(text, _bytes(rest))
    if word == "shape":
        found = _REGISTER.fullmatch(rest.strip())
        if found is None:
            raise UsageError(V0505, f"expected shape [FUNCTION:]%REGISTER, got {text!r}")
        if found["function"] is not None:
            _sites_of(found["function"], sites)
        return OnShapeChange(text, found["function"], int(found["number"]))
    place = _INSTRUCTION.fullmatch(text)
    if place is not None:
        if int(place["pc"]) >= len(_sites_of(place["function"], sites)):
            raise UsageError(V0506, f"function {place['function']!r} has no instruction {place['pc']}")
        return AtInstruction(text, place["function"], int(place["pc"]))
    names = [row.name for row in sites.executable.program.functions]
    if text not in names:
        raise UsageError(
            V0506,
            f"the program has no function {text!r}",
            help=did_you_mean(text, (*names, *_COUNTS, "error")),
        )
    return AtFunction(text)


def _sites_of(function: str, sites: Sites) -> tuple[Site, ...]:
    found = sites.of(function)
    if not found:
        rows = sites.executable.program.functions
        known = [row.name for row in rows if row.has_bytecode]
        raise UsageError(
            V0506,
            f"the program has no function {function!r} of bytecode: it has {', '.join(known)}",
            help=did_you_mean(function, known),
        )
    return found


def _bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(V0505, f"expected a number of bytes such as 4096 or 16M, got {text!r}")
    return int(found[1]) * _UNITS[found[2].lower()]
