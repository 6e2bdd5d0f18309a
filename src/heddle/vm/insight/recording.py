"""A recorded run: its steps, what each step wrote, and copies of values within a budget.

Storage is bounded. Steps: the newest `max_steps` are stored; moving back ends at the oldest of them. Values:
copies of contents, equal ones once, within `budget_bytes`; when the budget is full, the oldest copies are
dropped. Digests and summaries always stay with their steps.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen
from heddle.vm.codes import V0503, V0506, V0507
from heddle.vm.insight.sites import Site
from heddle.vm.insight.summary import EMPTY, Summary

DEFAULT_BUDGET_BYTES = 64 << 20
DEFAULT_MAX_STEPS = 200_000


@frozen
class Write:
    """A register that got a value, or whose value's memory was written. `frame` is the serial number of the
    call that owns the register. `function` is the function that was called.

    `how` is "result"; "argument" of a call that begins; "memory" that an instruction wrote through an
    argument; or "alias" if the register shares written memory with another one. `last_shape` is the shape of
    the tensor that was last written to this register of the function, in any call.
    """

    frame: int
    function: str
    register: int
    before: Summary
    after: Summary
    how: str
    last_shape: tuple[int, ...] | None = None


@dataclass(slots=True)
class FrameState:
    """An active call: summaries of its registers, and the next instruction."""

    number: int
    function: str
    pc: int = 0
    registers: dict[int, Summary] = field(default_factory=dict)

    def copy(self) -> FrameState:
        """Return a copy whose registers can be changed independently."""
        return FrameState(self.number, self.function, self.pc, dict(self.registers))


@frozen
class Step:
    """One executed instruction.

    `depth` is 0 in the recorded function itself. `pc` and `next_pc` are the positions of its function before
    and after. `reads` are the registers that were operands, before the instruction ran. `enters` is the call
    that it began. `left` are the calls that it ended, the innermost last, with their final registers.
    `resumes` says that the surrounding call continues after its call instruction. `allocations` are sizes in
    bytes. `error` is the exception that it raised. A call from a Python callee begins with a step of its own,
    whose mnemonic is "enter".
    """

    number: int
    frame: int
    depth: int
    site: Site
    pc: int
    next_pc: int
    reads: tuple[tuple[int, Summary], ...] = ()
    writes: tuple[Write, ...] = ()
    enters: FrameState | None = None
    left: tuple[FrameState, ...] = ()
    resumes: bool = False
    allocations: tuple[int, ...] = ()
    error: str | None = None

    @property
    def outputs(self) -> tuple[Write, ...]:
        """What the instruction computed: its result, and what it wrote through arguments."""
        return tuple(write for write in self.writes if write.how in ("result", "memory"))

    def makes(self, count: Callable[[Summary], int]) -> bool:
        """Whether `count` (the number of NaNs, for example) is 0 for all values read and not 0 for a computed
        value."""
        if not any(count(write.after) for write in self.outputs):
            return False
        return not any(count(summary) for _, summary in self.reads)

    def __str__(self) -> str:
        source = f"  ; {self.site.source}" if self.site.source else ""
        return f"#{self.number} {self.site.place}  {self.site.text}{source}"


def num_nan(summary: Summary) -> int:
    """How many elements are NaN."""
    return summary.num_nan


def num_inf(summary: Summary) -> int:
    """How many elements are infinite."""
    return summary.num_inf


def num_not_finite(summary: Summary) -> int:
    """How many elements are NaN or infinite."""
    return summary.num_nan + summary.num_inf


@dataclass(slots=True)
class ValueStore:
    """Copies of contents by digest. `budget_bytes`: None stores all, 0 none."""

    budget_bytes: int | None = DEFAULT_BUDGET_BYTES
    num_bytes: int = 0
    num_dropped: int = 0
    _arrays: OrderedDict[str, np.ndarray[Any, Any]] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        if self.budget_bytes is not None and self.budget_bytes < 0:
            raise UsageError(V0503, f"budget_bytes must not be negative, got {self.budget_bytes}")

    def keep(self, summary: Summary, value: Any) -> None:
        """Store a copy of the contents of a value that was just summarized, if it should be kept."""
        if isinstance(value, tuple) and summary.parts:
            for part, item in zip(summary.parts, value, strict=True):
                self.keep(part, item)
        elif isinstance(value, Tensor) and summary.digest is not None:
            self._keep_tensor(summary.digest, value)

    def _keep_tensor(self, digest: str, value: Tensor) -> None:
        if digest in self._arrays:
            self._arrays.move_to_end(digest)
            return
        size, budget = value.size_bytes, self.budget_bytes
        if budget is not None and size > budget:
            self.num_dropped += 1
            return
        self._arrays[digest] = value.numpy().copy()
        self.num_bytes += size
        while budget is not None and self.num_bytes > budget:
            _, oldest = self._arrays.popitem(last=False)
            self.num_bytes -= oldest.nbytes
            self.num_dropped += 1

    def get(self, summary: Summary) -> Any:
        """Return a stored value: an array for a tensor, a tuple of values for a tuple.

        Raises: UsageError V0506 if it was not stored.
        """
        if summary.parts:
            return tuple(self.get(part) for part in summary.parts)
        if summary.kind != "tensor":
            return summary.value
        found = self._arrays.get(summary.digest or "")
        if found is None:
            raise UsageError(
                V0506,
                f"the value was not kept: {summary.text}",
                help="keep_values=True keeps all values, a greater budget_bytes more",
            )
        return found

    def has(self, summary: Summary) -> bool:
        """Whether the value of a summary was stored."""
        if summary.parts:
            return all(self.has(part) for part in summary.parts)
        return summary.kind != "tensor" or (summary.digest or "") in self._arrays


@dataclass(slots=True)
class Recording:
    """A finished or unfinished run. `arguments` are those of the recorded function; `result` is its return
    value, `error` its exception. `base` are the active calls before the first stored step."""

    function: str
    arguments: tuple[Write, ...] = ()
    max_steps: int = DEFAULT_MAX_STEPS
    values: ValueStore = field(default_factory=ValueStore)
    steps: deque[Step] = field(default_factory=deque)
    num_steps: int = 0
    base: list[FrameState] = field(default_factory=list)
    is_finished: bool = False
    result: Any = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise UsageError(V0503, f"max_steps must be at least 1, got {self.max_steps}")

    def begin(self, arguments: Iterable[Write]) -> None:
        """Set the arguments of the recorded function."""
        self.arguments = tuple(arguments)
        registers = {write.register: write.after for write in self.arguments}
        self.base = [FrameState(0, self.function, 0, registers)]

    @property
    def first_step(self) -> int:
        """The number of the oldest stored step."""
        return self.num_steps - len(self.steps)

    def add(self, step: Step) -> None:
        """Add a step. If there are more than `max_steps`, the oldest step is merged into the initial
        state.
        """
        self.steps.append(step)
        self.num_steps += 1
        if len(self.steps) > self.max_steps:
            replay(self.base, self.steps.popleft())

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def step(self, number: int) -> Step:
        """Return a step. Raises: UsageError V0506 if it was not recorded or is no longer stored."""
        if not self.first_step <= number < self.num_steps:
            raise UsageError(
                V0506, f"step {number} is not kept: there are {self.first_step} to {self.num_steps - 1}"
            )
        return self.steps[number - self.first_step]

    def first(self, test: Callable[[Step], bool]) -> Step | None:
        """Return the first stored step that passes a test."""
        return next((step for step in self.steps if test(step)), None)

    def first_nan(self) -> Step | None:
        """The first step that computes a NaN from operands without one."""
        return self.first(lambda step: step.makes(num_nan))

    def first_not_finite(self) -> Step | None:
        """The first step that computes a NaN or an infinity from operands without any."""
        return self.first(lambda step: step.makes(num_not_finite))

    def value(self, of: Write | Summary) -> Any:
        """Return a value as it was then: an array for a tensor. Raises: UsageError V0506 if it was not
        stored."""
        return self.values.get(of.after if isinstance(of, Write) else of)

    def __str__(self) -> str:
        state = "raised " + repr(self.error) if self.error else "finished" if self.is_finished else "going on"
        dropped = f", {self.first_step} forgotten" if self.first_step else ""
        return (
            f"recording of {self.function!r}: {self.num_steps} steps{dropped}, "
            f"{self.values.num_bytes} bytes of values ({self.values.num_dropped} dropped), {state}"
        )


class Cursor:
    """A position between two steps of a recording, and the registers there. `position` is the number of the
    next step."""

    def __init__(self, recording: Recording) -> None:
        """Starts before the first kept step."""
        self.recording = recording
        self.position = recording.first_step
        self.frames = [frame.copy() for frame in recording.base]

    @property
    def frame(self) -> FrameState | None:
        """Return the innermost call; None if the run is over."""
        return self.frames[-1] if self.frames else None

    def forward(self) -> Step:
        """Move over the next recorded step. Raises: UsageError V0507 at the end."""
        if self.position >= self.recording.num_steps:
            raise UsageError(V0507, "the recording ends here")
        step = self.recording.step(self.position)
        replay(self.frames, step)
        self.position += 1
        return step

    def back(self) -> Step:
        """Move back over the last step. Raises: UsageError V0507 at the first stored step."""
        if self.position <= self.recording.first_step:
            forgotten = ": what came before is forgotten" if self.recording.first_step else ""
            raise UsageError(V0507, f"the recording begins here{forgotten}")
        step = self.recording.step(self.position - 1)
        undo(self.frames, step)
        self.position -= 1
        return step


def replay(frames: list[FrameState], step: Step) -> None:
    """Apply the effects of a step to `frames`."""
    by_number = {frame.number: frame for frame in frames}
    by_number[step.frame].pc = step.next_pc
    if step.enters is not None:
        made = step.enters.copy()
        frames.append(made)
        by_number[made.number] = made
    for write in step.writes:
        by_number[write.frame].registers[write.register] = write.after
    if step.left:
        del frames[-len(step.left) :]
    if step.resumes:
        frames[-1].pc += 1


def undo(frames: list[FrameState], step: Step) -> None:
    """Restore `frames` to the state before a step."""
    if step.resumes:
        frames[-1].pc -= 1
    frames += [frame.copy() for frame in step.left]
    by_number = {frame.number: frame for frame in frames}
    for write in reversed(step.writes):
        registers = by_number[write.frame].registers
        if write.before is EMPTY:
            registers.pop(write.register, None)
        else:
            registers[write.register] = write.before
    if step.enters is not None:
        frames.pop()
    by_number[step.frame].pc = step.pc
