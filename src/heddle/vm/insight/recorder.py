"""Run a program instruction by instruction and record what each instruction did.

Instructions run one at a time, so a debugger can stop between any two. If a callee runs the machine again (a
Python function that calls `vm["f"]`), that inner run is recorded too. It runs to its end within the step that
began it, and its steps come before that step.

The values that an instruction wrote are: its result; for kernels, the tensors that the compiler marked as
outputs; for other functions, the arguments whose digest changed. Other registers that share the written
memory are recorded as well, so reused storage does not lead to wrong values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

from heddle.runtime.storage import Allocator, Storage
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen
from heddle.vm.builtins.table import PREFIX
from heddle.vm.codes import V0502, V0503
from heddle.vm.frames import new_frame
from heddle.vm.insight.kernel_cost import KernelCosts
from heddle.vm.insight.loop import WatchedFrame, WatchedLoop
from heddle.vm.insight.recording import (
    DEFAULT_BUDGET_BYTES,
    DEFAULT_MAX_STEPS,
    FrameState,
    Recording,
    Step,
    ValueStore,
    Write,
)
from heddle.vm.insight.sites import Site, Sites
from heddle.vm.insight.summary import EMPTY, Summary, summarize
from heddle.vm.steps import LinkedFunction

_FRESH = (PREFIX + "alloc_tensor", PREFIX + "alloc_storage")
_SMALL_BYTES = 4096
"""Builtins write only to small tensors (the shape heap)."""


@frozen
class RecordOptions:
    """Options of a recording. `keep_values` stores every value; otherwise the newest copies that fit into
    `budget_bytes` are stored. `fuel` limits the total cost of the instructions."""

    keep_values: bool = False
    budget_bytes: int = DEFAULT_BUDGET_BYTES
    max_steps: int = DEFAULT_MAX_STEPS
    fuel: int | None = None

    def __post_init__(self) -> None:
        if self.fuel is not None and self.fuel < 0:
            raise UsageError(V0503, f"fuel must not be negative, got {self.fuel}")


@dataclass(slots=True)
class _Frame(WatchedFrame):
    """An active call. `is_outermost`: Python code made the call and receives its result."""

    number: int = 0
    is_outermost: bool = False
    known: dict[int, Summary] = field(default_factory=dict)

    def state(self) -> FrameState:
        return FrameState(self.number, self.function.name, self.pc, dict(self.known))


@dataclass(slots=True)
class _Happened:
    """What the current instruction has done so far."""

    reads: tuple[tuple[int, Summary], ...] = ()
    writes: list[Write] = field(default_factory=list)
    enters: _Frame | None = None
    left: tuple[FrameState, ...] = ()
    resumes: bool = False
    allocations: list[int] = field(default_factory=list)


class Recorder(WatchedLoop[_Frame]):
    """Records one call of a function of a machine.

    Raises: UnknownFunctionError V0301; UsageError V0502, V0503; the errors of a call with these arguments.
    """

    keeps_callers = True  # a debugger goes back into them

    def __init__(
        self, machine: Any, name: str, args: Sequence[Any], options: RecordOptions | None = None
    ) -> None:
        super().__init__(machine)
        options = options or RecordOptions()
        machine.check_watchable(name)
        self.fuel = options.fuel
        self.sites = Sites(machine.executable)
        self._costs = KernelCosts(machine.executable.metadata)
        self._thread = get_ident()
        self._frames: list[_Frame] = []
        self._num_frames = 0
        self._now = _Happened()
        self._shapes: dict[tuple[str, int], tuple[int, ...]] = {}
        values = ValueStore(None if options.keep_values else options.budget_bytes)
        self.recording = Recording(name, max_steps=options.max_steps, values=values)
        entry, given = self._entry(name, args)
        self._outermost = self.steps(self._push(entry, given, is_outermost=True))
        self.recording.begin(self._now.writes)

    def _entry(self, name: str, args: Sequence[Any]) -> tuple[LinkedFunction, Sequence[Any]]:
        """What a call of `name` comes to run, after its arguments became runtime values."""
        found: list[tuple[LinkedFunction, Sequence[Any]]] = []
        with self.machine.running_with(lambda function, given: found.append((function, given))):
            self.machine[name](*args)
        if not found:
            raise UsageError(V0502, f"{name!r} runs no bytecode")
        return found[0]

    # Running

    def advance(self) -> Step:
        """Execute one instruction. An exception of the program ends the recording and is stored in it."""
        with self._watching():
            self._one(self._outermost)
        return self.recording.steps[-1]

    def record(self) -> Recording:
        """Run to the end. An exception of the program is stored in the recording."""
        with self._watching():
            while not self.recording.is_finished:
                self._one(self._outermost)
        return self.recording

    @property
    def next_site(self) -> Site | None:
        """The instruction that comes next."""
        if self.recording.is_finished:
            return None
        frame = self._frames[-1]
        return self.sites.at(frame.function, frame.pc)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.push(self._is_kept)
            for allocator in dict.fromkeys(self.machine.allocators):
                stack.enter_context(allocator.watched(self._note_allocation))
            stack.enter_context(self.machine.running_with(self._inner_run))
            yield

    def _is_kept(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        """Whether an exception is stored in the recording. Internal errors and interrupts are raised
        instead.
        """
        return isinstance(error, Exception) and error is self.recording.error

    def _note_allocation(self, _allocator: Allocator, storage: Storage) -> None:
        if get_ident() == self._thread:
            self._now.allocations.append(storage.size_bytes)

    def _inner_run(self, function: LinkedFunction, args: Sequence[Any]) -> Any:
        """A run that a callee began: to its end, within the step that is going on."""
        outer, depth = self._now, len(self._frames)
        self._now = _Happened()
        caller = self._frames[-1]
        begun = self._now.enters = self._push(function, args, is_outermost=True)
        text = f"enter {function.name} from a callee"
        self._add_step(caller, depth - 1, Site(caller.function.name, caller.pc, "enter", text), caller.pc)
        steps = self.steps(begun)
        try:
            while len(self._frames) > depth:
                self._one(steps)
            return begun.result
        finally:
            self._now, self.is_in_program = outer, True

    def _push(self, function: LinkedFunction, args: Sequence[Any], is_outermost: bool) -> _Frame:
        values = new_frame(function, args)
        frame = _Frame(function, values, number=self._num_frames, is_outermost=is_outermost)
        self._num_frames += 1
        self._frames.append(frame)
        for register, value in enumerate(args):
            self._note(frame, register, value, "argument")
        return frame

    def _one(self, steps: Iterator[None]) -> None:
        """One instruction, and its step. Until `is_in_program` is taken back, what is raised is the program's
        own error."""
        frame = self._frames[-1]
        depth, pc = len(self._frames) - 1, frame.pc
        site = self.sites.at(frame.function, pc)
        now = self._now = _Happened(self._reads(frame, site))
        error: BaseException | None = None
        self.is_in_program = True
        try:
            next(steps, None)
            self.is_in_program = False
        finally:
            error = sys.exc_info()[1] if self.is_in_program else None
            self.is_in_program = False
            self._now = now
            if error is not None:
                self._end_run(error)
            self._add_step(frame, depth, site, pc, error)

    def _end_run(self, error: BaseException) -> None:
        """An error ends all calls up to the one that Python code began. Those of the recorded run stay to be
        looked at."""
        begun = max(index for index, frame in enumerate(self._frames) if frame.is_outermost)
        if begun == 0:
            self._finish(error=error)
            return
        self._now.left = tuple(frame.state() for frame in self._frames[begun:])
        del self._frames[begun:]

    def _add_step(
        self, frame: _Frame, depth: int, site: Site, pc: int, error: BaseException | None = None
    ) -> None:
        now = self._now
        entered = now.enters
        enters = None if entered is None else FrameState(entered.number, entered.function.name)
        text = None if error is None else f"{type(error).__name__}: {error}"
        self.recording.add(
            Step(
                self.recording.num_steps,
                frame.number,
                depth,
                site,
                pc,
                frame.pc,
                now.reads,
                tuple(now.writes),
                enters,
                now.left,
                now.resumes,
                tuple(now.allocations),
                text,
            )
        )

    def _finish(self, result: Any = None, error: BaseException | None = None) -> None:
        self.recording.is_finished, self.recording.result, self.recording.error = True, result, error

    # One instruction

    def entered(self, function: LinkedFunction, args: Sequence[Any]) -> _Frame:
        frame = self._now.enters = self._push(function, args, is_outermost=False)
        return frame

    def wrote(self, frame: _Frame, dst: int, value: Any, operands: Sequence[Any] | None) -> None:
        self.is_in_program = False
        site = self.sites.at(frame.function, frame.pc)
        if operands is not None:
            self._note_call(frame, site, operands, value)
            return
        if site.dst is not None:
            self._note(frame, site.dst, value, "result")
        self._now.resumes = True

    def left(self, frame: _Frame, value: Any, depth: int) -> None:
        self._frames.pop()
        self._now.left = (frame.state(),)
        if not self._frames:
            self._finish(result=value)

    # What it did

    def _reads(self, frame: _Frame, site: Site) -> tuple[tuple[int, Summary], ...]:
        registers = dict.fromkeys(register for register in site.operands if register is not None)
        return tuple((register, frame.known.get(register, EMPTY)) for register in registers)

    def _note(self, frame: _Frame, register: int, value: Any, how: str, is_fresh: bool = False) -> Summary:
        summary = summarize(value, is_fresh)
        self.recording.values.keep(summary, value)
        before = frame.known.get(register, EMPTY)
        function = frame.function.name
        last_shape = self._shapes.get((function, register))
        if summary.shape is not None:
            self._shapes[function, register] = summary.shape
        self._now.writes.append(Write(frame.number, function, register, before, summary, how, last_shape))
        frame.known[register] = summary
        return summary

    def _note_call(self, frame: _Frame, site: Site, operands: Sequence[Any], value: Any) -> None:
        written: list[tuple[int, int]] = []
        noted: set[tuple[int, int]] = set()
        for register, operand in self._written_arguments(frame, site, operands):
            summary = self._note(frame, register, operand, "memory")
            written += summary.memory
            noted.add((frame.number, register))
        if written:
            self._note_aliases(tuple(written), noted)
        if site.dst is not None:
            self._note(frame, site.dst, value, "result", is_fresh=site.callee in _FRESH)

    def _written_arguments(
        self, frame: _Frame, site: Site, operands: Sequence[Any]
    ) -> list[tuple[int, Tensor]]:
        """Registers whose tensor the call wrote into."""
        tensors = {
            position: (register, operand)
            for position, (register, operand) in enumerate(zip(site.operands, operands, strict=False))
            if register is not None and isinstance(operand, Tensor)
        }
        cost = self._costs.of(site.callee or "")
        if cost is not None and cost.outputs:
            positions = [position + site.first_argument for position in cost.outputs]
            return [tensors[position] for position in positions if position in tensors]
        is_builtin = (site.callee or "").startswith(PREFIX)
        found = []
        for register, operand in tensors.values():
            known = frame.known.get(register, EMPTY)
            if is_builtin and (operand.size_bytes > _SMALL_BYTES or known.digest is None):
                continue
            if summarize(operand).digest != known.digest:
                found.append((register, operand))
        return found

    def _note_aliases(self, written: tuple[tuple[int, int], ...], noted: set[tuple[int, int]]) -> None:
        """Registers of any frame that lie in memory that was just written."""
        for frame in self._frames:
            for register, known in list(frame.known.items()):
                if known.digest is None or (frame.number, register) in noted:
                    continue
                if known.overlaps(written):
                    self._note(frame, register, frame.values[register], "alias")
