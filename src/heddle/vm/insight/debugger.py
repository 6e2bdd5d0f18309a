"""A debugger that goes both ways.

    debugger = Debugger.of_call(vm, "main", x)
    debugger.add_breakpoint("nan")
    stop = debugger.resume()               # runs until an instruction computes a NaN
    debugger.step_back()                   # stands before that instruction
    debugger.registers()

It stands between two steps of a recording. Going forward over steps that were recorded replays them; at the
end of what was recorded, a live run executes the next instruction and records it. So nothing is executed
twice, and going back is exact as far as the recording reaches (see `heddle.vm.insight.recording`).
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
    """Where the debugger came to stand. `reason` is "step", "end", "start", "error", or what a breakpoint
    found; `breakpoint` its number. `next_site` is the instruction that comes next. `step` is the one that the
    breakpoint found something in, or that raised.
    """

    reason: str
    position: int
    next_site: Site | None
    step: Step | None = None
    breakpoint: int | None = None


class Debugger:
    """Steps through a recording, or through a run as it happens."""

    def __init__(self, recording: Recording, sites: Sites, recorder: Recorder | None = None) -> None:
        self.recording = recording
        self.sites = sites
        self._recorder = recorder
        self._cursor = Cursor(recording)
        self.breakpoints: dict[int, Breakpoint] = {}
        self._next_breakpoint = 1

    @classmethod
    def of_call(cls, machine: Any, name: str, *args: Any, options: RecordOptions | None = None) -> Debugger:
        """A debugger of a call that has not run anything yet. Raises: as `Recorder`."""
        recorder = Recorder(machine, name, args, options)
        return cls(recorder.recording, recorder.sites, recorder)

    @classmethod
    def of_recording(cls, machine: Any, recording: Recording) -> Debugger:
        """A debugger of a recording of this machine's program; it stands at its beginning."""
        return cls(recording, Sites(machine.executable))

    # Where it stands

    @property
    def position(self) -> int:
        """The number of the step that comes next."""
        return self._cursor.position

    @property
    def is_live(self) -> bool:
        """Whether a run is under way, and not only a recording."""
        return self._recorder is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing comes next."""
        return self.position == self.recording.num_steps and (
            self._recorder is None or self.recording.is_finished
        )

    @property
    def next_site(self) -> Site | None:
        """The instruction that comes next; None at the end."""
        if self.position < self.recording.num_steps:
            return self.recording.step(self.position).site
        return None if self._recorder is None else self._recorder.next_site

    @property
    def last_step(self) -> Step | None:
        """The step before this place; None where it is not kept."""
        if self.position <= self.recording.first_step:
            return None
        return self.recording.step(self.position - 1)

    def stack(self) -> tuple[FrameState, ...]:
        """The calls in progress, the innermost first."""
        return tuple(reversed(self._cursor.frames))

    def frame(self, level: int = 0) -> FrameState:
        """The call `level` calls out. Raises: UsageError V0506 where there is none."""
        stack = self.stack()
        if not 0 <= level < len(stack):
            raise UsageError(V0506, f"there is no frame {level}: the stack has {len(stack)}")
        return stack[level]

    def registers(self, level: int = 0) -> dict[int, Summary]:
        """The registers of a call as they are here, those that hold something."""
        return dict(sorted(self.frame(level).registers.items()))

    def register(self, number: int, level: int = 0) -> Summary:
        """Raises: UsageError V0506 for a register that holds nothing."""
        frame = self.frame(level)
        if number not in frame.registers:
            raise UsageError(V0506, f"register %{number} of {frame.function!r} holds nothing here")
        return frame.registers[number]

    def value(self, number: int, level: int = 0) -> Any:
        """A register's value as it was here. Raises: UsageError V0506 where it holds nothing, or its value
        was not kept.
        """
        return self.recording.value(self.register(number, level))

    def history(self, number: int, level: int = 0) -> list[Step]:
        """The kept steps before this place that wrote a register of a call, in order."""
        wanted = self.frame(level).number
        return [
            step
            for step in self.recording
            if step.number < self.position
            and any(write.frame == wanted and write.register == number for write in step.writes)
        ]

    # Breakpoints

    def add_breakpoint(self, text: str) -> int:
        """Stop there from now on; gives the breakpoint's number. See `heddle.vm.insight.breakpoints`.

        Raises: UsageError V0505, V0506.
        """
        number = self._next_breakpoint
        self.breakpoints[number] = parse_breakpoint(text, self.sites)
        self._next_breakpoint += 1
        return number

    def remove_breakpoint(self, number: int) -> None:
        """Raises: UsageError V0506 where there is none of this number."""
        if self.breakpoints.pop(number, None) is None:
            raise UsageError(V0506, f"there is no breakpoint {number}")

    # Going forward

    def step(self) -> Stop:
        """Over one instruction, into what it calls. Raises: UsageError V0507 at the end."""
        if self.is_over:
            raise UsageError(V0507, "the run is over")
        return self._stop_behind(self._forward(), "step")

    def resume(self) -> Stop:
        """On to the next breakpoint, error, or the end."""
        return self._on(lambda: False)

    def next(self) -> Stop:
        """As `step`, but over what the instruction calls, unless a breakpoint is in there."""
        depth = len(self._cursor.frames)
        return self._on(lambda: len(self._cursor.frames) <= depth, "step")

    def finish(self) -> Stop:
        """On until the innermost call has returned."""
        depth = len(self._cursor.frames)
        return self._on(lambda: len(self._cursor.frames) < depth, "returned")

    def _on(self, is_there: Callable[[], bool], reason: str = "step") -> Stop:
        """Forward until `is_there`, a breakpoint, an error or the end."""
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
        """Back over one instruction, into what it called. Raises: UsageError V0507 at the first kept step."""
        self._cursor.back()
        return self._stop("step")

    def next_back(self) -> Stop:
        """Back over one instruction, not into what it called, unless a breakpoint is in there."""
        depth = len(self._cursor.frames)
        return self._back(lambda: len(self._cursor.frames) <= depth)

    def resume_back(self) -> Stop:
        """Back to the breakpoint before, or the first kept step."""
        return self._back(lambda: False)

    def _back(self, is_there: Callable[[], bool]) -> Stop:
        """A place behind a found value counts only where it is not the one that this began at."""
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
        """To before step `position`. Raises: UsageError V0506 where it is not kept; V0507 past the end."""
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
        """Back to before the step that gave a register its value; clearing it does not count.

        Raises: UsageError V0506 where no kept step did.
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
