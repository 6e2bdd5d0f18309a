"""Pass instruments: verify, time, print and dump modules while passes run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from heddle.ir.codes import I0503, I0504, I0506, I0507
from heddle.ir.dialect import dialect_of
from heddle.ir.expr import BaseFunc
from heddle.ir.module import IRModule
from heddle.ir.nesting import refusing_deep_nesting
from heddle.ir.properties import PROPERTIES, breach_of
from heddle.ir.transform import Pass, PassInfo, PassInstrument
from heddle.support.diagnostics import Diagnostic, InternalError, UsageError
from heddle.support.files import make_folder, write_bytes


def verify_function(func: BaseFunc, mod: IRModule) -> list[Diagnostic]:
    """Verify a function by its dialect's verifier and return the findings; none for an external function.

    Raises: MissingNameError S0202 for an undeclared dialect; UsageError I0510 for one that nests too deep.
    """
    if not func.dialect:
        return []
    with refusing_deep_nesting("the verifier", [func]):
        return dialect_of(func).verify(func, mod)


def verify_module(mod: IRModule) -> list[Diagnostic]:
    """Verify all functions of a module and return the findings in the module's order."""
    return [finding for func in mod.functions.values() for finding in verify_function(func, mod)]


def pass_instrument(pi_cls: type | None = None) -> Any:
    """Decorate a class that has some of the methods of PassInstrument: make it an instrument."""

    def make(cls: type) -> type:
        if issubclass(cls, PassInstrument):
            return cls
        words = {"__doc__": cls.__doc__, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
        return type(cls.__name__, (cls, PassInstrument), words)

    return make if pi_cls is None else make(pi_cls)


class VerifyEach(PassInstrument):
    """Verify the module before the first pass and after every pass, and check the contract of each pass.

    Raises: InternalError I0504 if the result of one of Heddle's passes is invalid, I0503 if it lacks what the
    pass promises; UsageError I0506 for a user's pass, I0507 if the given program is invalid, I0503 if it
    lacks what a pass requires.
    """

    def __init__(self) -> None:
        self._verified: IRModule | None = None

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        if self._verified is None and (notes := self._findings(mod)):
            raise UsageError(I0507, f"the program does not verify before pass {info.name}", notes=notes)
        for name, where in _breaches(info.required, mod):
            raise UsageError(
                I0503, f"pass {info.name} requires {name!r}, which {where} breaks", help=_made_by(name)
            )

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._verify_after(mod, info)
        for name, where in _breaches(info.established, mod):
            text = f"pass {info.name} establishes {name!r}, and {where} of its result breaks that"
            raise InternalError(I0503, text) if info.is_ours else UsageError(I0506, f"your {text}")

    def _verify_after(self, mod: IRModule, info: PassInfo) -> None:
        if mod is self._verified:  # a pass that changes nothing returns what it was given
            return
        notes = self._findings(mod)
        if notes and not info.is_ours:
            raise UsageError(
                I0506, f"your pass {info.name!r} made a program that does not verify", notes=notes
            )
        if notes:
            raise InternalError(I0504, f"pass {info.name} made a program that does not verify", notes=notes)

    def _findings(self, mod: IRModule) -> list[str]:
        self._verified = mod
        return [finding.render() for finding in verify_module(mod)[:10]]


def _breaches(names: Iterable[str], mod: IRModule) -> Iterator[tuple[str, str]]:
    """The properties among `names` that a module does not have, and where. Names that are no property are
    passed over: a user's pass may name passes.
    """
    for name in names:
        found = breach_of(name, mod) if name in PROPERTIES else None
        if found is not None:
            yield name, f"{found.part.node_kind} in function {found.function!r}"


def _made_by(name: str) -> str | None:
    """A line that tells which passes establish a property."""
    makers = sorted(step.__name__ for step in _subclasses(Pass) if name in step.establishes)
    return f"run {' or '.join(makers)} before it" if makers else None


def _subclasses(cls: Any) -> Iterator[type[Pass]]:
    for below in cls.__subclasses__():
        yield below
        yield from _subclasses(below)


class PassTimingInstrument(PassInstrument):
    """Wall time per pass, in execution order, including passes that other passes run."""

    def __init__(self) -> None:
        self.times_s: list[tuple[str, float]] = []
        self._starts: list[float] = []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._starts.append(time.perf_counter())

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.times_s.append((info.name, time.perf_counter() - self._starts.pop()))

    def render(self) -> str:
        """A line for each pass that ran: milliseconds and name."""
        return "\n".join(f"{seconds * 1e3:10.2f} ms  {name}" for name, seconds in self.times_s)


class PrintAfterAll(PassInstrument):
    def __init__(self, write: Callable[[str], Any] = print) -> None:
        self._write = write

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._write(f"# after {info.name}\n{mod}\n")


class PrintAfter(PassInstrument):
    """Show the module after each run of some passes, or of `all` passes."""

    def __init__(self, names: Iterable[str], write: Callable[[str], Any] = print) -> None:
        self._names, self._write = frozenset(names), write

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if not self._names.isdisjoint((info.name, "all")):
            self._write(f"# after {info.name}\n{mod}")


class PrintBeforeAll(PassInstrument):
    def __init__(self, write: Callable[[str], Any] = print) -> None:
        self._write = write

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._write(f"# before {info.name}\n{mod}\n")


class DumpIR(PassInstrument):
    """Write the module after each pass to `folder/NNN_PassName.py`."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._count = 0

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        make_folder(self._folder)
        write_bytes(self._folder / f"{self._count:03d}_{info.name}.py", str(mod).encode())
        self._count += 1
