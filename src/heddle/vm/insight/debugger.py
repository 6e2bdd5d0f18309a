"""A debugger that runs a program forwards and backwards.

    debugger = Debugger.of_call(vm, "main", x)
    debugger.add_breakpoint("nan")
    stop = debugger.resume()               # runs until an instruction computes a NaN
    debugger.step_back()                   # stands before that instruction
    debugger.registers()

The debugger is positioned between two steps of a recording. Moving forward over recorded steps replays them.
At the end of the recording, a live run executes the next instruction and records it. So nothing is executed
twice, and moving back is exact as far as the recording reaches (see `heddle.vm.insight.recording`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen
from heddle.vm.codes import V0506, V0507
from heddle.vm.insight.breakpoints import Breakpoint, parse_breakpoint
from heddle.vm.insight.recorder import Recorder, RecordOptions
from heddle.vm.insight.recording import Cursor, FrameState, Recording, Step
from heddle.vm.insight.sites import Site, Sites
from heddle.vm.insight.summary import EMPTY, Summary


@frozen
class Stop:
    """Where the debugger stopped. `reason` is "step", "end", "start", "error", or the reason of a breakpoint;
    `breakpoint` is its number. `next_site` is the next instruction. `step` is the step that triggered the
    breakpoint or raised an error."""

    reason: str
    position: int
    next_site: Site | None
    step: Step | None = None
    breakpoint: int | None = None


class Debugger:
    """Steps through a recording, or through a live run."""

    def __init__(self, recording: Recording, sites: Sites, recorder: Recorder | None = None) -> None:
        self.recording = recording
        self.sites = sites
        self._recorder = recorder
        self._cursor = Cursor(recording)
        self.breakpoints: dict[int, Breakpoint] = {}
        self._next_breakpoint = 1

    @classmethod
    def of_call(cls, machine: Any, name: str, *args: Any, options: RecordOptions | None = None) -> Debugger:
        """Create a debugger for a call that has not started. Raises: as `Recorder`."""
        recorder = Recorder(machine, name, args, options)
        return cls(recorder.recording, recorder.sites, recorder)

    @classmethod
    def of_recording(cls, machine: Any, recording: Recording) -> Debugger:
        """Create a debugger at the beginning of a recording of this machine's program."""
        return cls(recording, Sites(machine.executable))

    # Where it stands

    @property
    def position(self) -> int:
        """The number of the next step."""
        return self._cursor.position

    @property
    def is_live(self) -> bool:
        """Whether a program is running, as opposed to a mere recording."""
        return self._recorder is not None

    @property
    def is_over(self) -> bool:
        """Whether there is no next step."""
        return self.position == self.recording.num_steps and (
            self._recorder is None or self.recording.is_finished
        )

    @property
    def next_site(self) -> Site | None:
        """Return the next instruction; None at the end."""
        if self.position < self.recording.num_steps:
            return self.recording.step(self.position).site
        return None if self._recorder is None else self._recorder.next_site

    @property
    def last_step(self) -> Step | None:
        """Return the step before this position; None if it is no longer stored."""
        if self.position <= self.recording.first_step:
            return None
        return self.recording.step(self.position - 1)

    def stack(self) -> tuple[FrameState, ...]:
        """Return the active calls, the innermost first."""
        return tuple(reversed(self._cursor.frames))

    def frame(self, level: int = 0) -> FrameState:
        """Return the active call `level` levels out from the innermost one. Raises: UsageError V0506 if there
        is none."""
        stack = self.stack()
        if not 0 <= level < len(stack):
            raise UsageError(V0506, f"there is no frame {level}: the stack has {len(stack)}")
        return stack[level]

    def registers(self, level: int = 0) -> dict[int, Summary]:
        """Return the non-empty registers of a call at this position."""
        return dict(sorted(self.frame(level).registers.items()))

    def register(self, number: int, level: int = 0) -> Summary:
        """Return the summary of a register. Raises: UsageError V0506 if it is empty."""
        frame = self.frame(level)
        if number not in frame.registers:
            raise UsageError(V0506, f"register %{number} of {frame.function!r} holds nothing here")
        return frame.registers[number]

    def value(self, number: int, level: int = 0) -> Any:
        """Return the value of a register at this position. Raises: UsageError V0506 if it is empty, or if its
        value was not stored."""
        return self.recording.value(self.register(number, level))

    def history(self, number: int, level: int = 0) -> list[Step]:
        """Return the stored steps before this position that wrote a register of a call, in order."""
        wanted = self.frame(level).number
        return [
            step
            for step in self.recording
            if step.number < self.position
            and any(write.frame == wanted and write.register == number for write in step.writes)
        ]

    # Breakpoints

    def add_breakpoint(self, text: str) -> int:
        """Add a breakpoint and return its number. See `heddle.vm.insight.breakpoints` for the syntax.

        Raises: UsageError V0505, V0506.
        """
        number = self._next_breakpoint
        self.breakpoints[number] = parse_breakpoint(text, self.sites)
        self._next_breakpoint += 1
        return number

    def remove_breakpoint(self, number: int) -> None:
        """Remove a breakpoint. Raises: UsageError V0506 if there is none with this number."""
        if self.breakpoints.pop(number, None) is None:
            raise UsageError(V0506, f"there is no breakpoint {number}")

    # Going forward

    def step(self) -> Stop:
        """Execute one instruction; stop inside the function that it calls. Raises: UsageError V0507 at the
        end."""
        if self.is_over:
            raise UsageError(V0507, "the run is over")
        return self._stop_behind(self._forward(), "step")

    def resume(self) -> Stop:
        """Run to the next breakpoint, error, or the end."""
        return self._on(lambda: False)

    def next(self) -> Stop:
        """Execute one instruction and everything that it calls, unless a breakpoint there stops first."""
        depth = len(self._cursor.frames)
        return self._on(lambda: len(self._cursor.frames) <= depth, "step")

    def finish(self) -> Stop:
        """Run until the innermost call has returned."""
        depth = len(self._cursor.frames)
        return self._on(lambda: len(self._cursor.frames) < depth, "returned")

    def _on(self, is_there: Callable[[], bool], reason: str = "step") -> Stop:
        """Move forward until `is_there`, a breakpoint, an error or the end."""
        if self.is_over:
            raise UsageError(V0507, "the run is over")
        while True:
            step = self._forward()
            hit = self._hit_after(step) or self._hit_before(self.next_site)
            if hit is not None:
                return hit
            if self.is_over or is_there():
                return self._stop_behind(step, reason)

    def _forward(self) -> Step:
        if self.position == self.recording.num_steps and self._recorder is not None:
            self._recorder.advance()
        return self._cursor.forward()

    # Going back

    def step_back(self) -> Stop:
        """Move back over one instruction, into what it called. Raises: UsageError V0507 at the first stored
        step."""
        self._cursor.back()
        return self._stop("step")

    def next_back(self) -> Stop:
        """Move back over one instruction and everything that it called, unless a breakpoint there stops
        first."""
        depth = len(self._cursor.frames)
        return self._back(lambda: len(self._cursor.frames) <= depth)

    def resume_back(self) -> Stop:
        """Move back to the previous breakpoint, or the first stored step."""
        return self._back(lambda: False)

    def _back(self, is_there: Callable[[], bool]) -> Stop:
        """Move back until `is_there`. A breakpoint that triggers after a step does not count at the starting
        position."""
        while True:
            step = self._cursor.back()
            before = self.last_step
            hit = self._hit_before(step.site)
            if hit is None and before is not None:
                hit = self._hit_after(before)
            if hit is not None:
                return hit
            if self.position == self.recording.first_step:
                return self._stop("start")
            if is_there():
                return self._stop("step")

    def go_to(self, position: int) -> Stop:
        """Move to the position before step `position`. Raises: UsageError V0506 if it is not stored; V0507
        past the end."""
        if position < self.recording.first_step:
            raise UsageError(V0506, f"step {position} is not kept: the first is {self.recording.first_step}")
        while self.position > position:
            self._cursor.back()
        while self.position < position:
            if self.is_over:
                raise UsageError(V0507, f"the run is over after {self.position} steps")
            self._forward()
        return self._stop("step")

    def origin(self, number: int, level: int = 0) -> Stop:
        """Move back to the position before the step that gave a register its value. Clearing a register does
        not count.

        Raises: UsageError V0506 if no stored step did.
        """
        wanted = self.frame(level).number
        steps = [
            step
            for step in self.history(number, level)
            if any(w.frame == wanted and w.register == number and w.after is not EMPTY for w in step.writes)
        ]
        if not steps:
            raise UsageError(V0506, f"no kept step before this place wrote %{number}")
        return self.go_to(steps[-1].number)

    # Shared

    def _hit_after(self, step: Step) -> Stop | None:
        for number, point in self.breakpoints.items():
            reason = point.stops_after(step)
            if reason is not None:
                return self._stop(reason, step, number)
        return None

    def _hit_before(self, site: Site | None) -> Stop | None:
        if site is None:
            return None
        for number, point in self.breakpoints.items():
            if point.stops_before(site):
                return self._stop(str(point), None, number)
        return None

    def _stop_behind(self, step: Step, reason: str) -> Stop:
        if not self.is_over:
            return self._stop(reason)
        return self._stop("error", step) if self.recording.error is not None else self._stop("end")

    def _stop(self, reason: str, step: Step | None = None, breakpoint: int | None = None) -> Stop:
        return Stop(reason, self.position, self.next_site, step, breakpoint)
