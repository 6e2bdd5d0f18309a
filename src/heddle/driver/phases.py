"""Compile time by phase. The running passes determine the phase; listeners can watch the progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from heddle.driver.pipeline import finalize_passes, legalize_passes, optimize_passes, precision_passes
from heddle.ir.module import IRModule
from heddle.ir.transform import PassInfo, PassInstrument
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.nodes import PrimFunc

MACHINE_CODE = "machine code"
_FIRST_LOWERING_PASS = "LowerBlocks"


@frozen
class Progress:
    """The current progress: a phase, the pass in it, and for machine code how many functions were started, of
    how many."""

    phase: str
    detail: str
    done: int = 0
    total: int = 0


def ignore(_progress: Progress) -> None:
    """A listener that does nothing."""


@dataclass(slots=True)
class PhaseClock(PassInstrument):
    """Counts seconds per phase. Time belongs to the phase that was entered last."""

    needs_every_pass = False
    target: Target
    listener: Callable[[Progress], None] = ignore
    seconds: dict[str, float] = field(default_factory=dict)
    _phases: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    _phase: str = ""
    _since: float = 0.0
    _functions: int = 0
    _begun: int = 0

    def __post_init__(self) -> None:
        for name, passes in (
            ("optimize", (*optimize_passes(self.target), *precision_passes("bf16"))),
            ("legalize", legalize_passes(self.target)),
            ("finalize", finalize_passes(self.target)),
        ):
            self._phases.append((name, frozenset(step.info.name for step in passes)))

    def enter(self, phase: str, detail: str = "") -> None:
        """End the previous phase and begin `phase`."""
        now = time.perf_counter()
        if self._phase:
            self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now
        if phase:
            self.listener(Progress(phase, detail, self._begun, self._functions))

    def stop(self) -> None:
        """End the current phase."""
        self.enter("")

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        names = [name for name, _ in self._phases]
        reached = names.index(self._phase) if self._phase in names else 0
        for name, passes in self._phases[reached:] if self._phase != MACHINE_CODE else ():
            if info.name in passes:
                self.enter(name, info.name)
                return
        if info.name == _FIRST_LOWERING_PASS:
            self._begun += 1
        self.enter(MACHINE_CODE, info.name)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if self._phase != MACHINE_CODE:
            self._functions = sum(isinstance(func, PrimFunc) for func in mod.functions.values())
