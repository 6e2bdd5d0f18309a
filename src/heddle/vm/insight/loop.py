"""The instruction loop for observers: profilers, recorders, debuggers and lifetime checks.

It behaves like the machine's own loop, one instruction at a time, and reports each event to its owner. The
machine's own loop does not depend on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from heddle.support.diagnostics import Trap
from heddle.vm.codes import V0308
from heddle.vm.frames import FAILURES, are_equal, closure_target, is_true, too_deep
from heddle.vm.isa import Spec
from heddle.vm.steps import COMPARE, DO, INVOKE, INVOKE_LAST, JUMP, LEAVE, TAIL, LinkedFunction


@dataclass(slots=True)
class WatchedFrame:
    """An active call: its registers, and the next instruction. `result` is its return value."""

    function: LinkedFunction
    values: list[Any]
    pc: int = 0
    result: Any = None


F = TypeVar("F", bound=WatchedFrame)


class WatchedLoop(ABC, Generic[F]):
    """Runs the bytecode of a machine. The machine has `invoke_closure`, `blame` and `max_frames`.

    A tail call may drop the caller's frame unless the owner sets `keeps_callers`. While `is_in_program` is
    False, an exception is an error of the owner and not of the program. `fuel` is the remaining budget for
    instructions; None means no limit.
    """

    keeps_callers = False
    is_in_program = True
    fuel: int | None = None

    def __init__(self, machine: Any) -> None:
        self.machine = machine

    @abstractmethod
    def entered(self, function: LinkedFunction, args: Sequence[Any]) -> F:
        """Return the frame of a call that begins. Raises: Trap V0302 for a wrong number of arguments."""

    def before(self, frame: F) -> None:
        """Called before an instruction runs."""

    def call(self, frame: F, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """Call a function that is not bytecode. Return the value that the instruction writes."""
        return function(*operands)

    def wrote(self, frame: F, dst: int, value: Any, operands: Sequence[Any] | None) -> None:
        """Called after an instruction wrote a value: the result of a callee on operands or, without operands,
        the return value of a function of the program."""

    def left(self, frame: F, value: Any, depth: int) -> None:
        """Called when a call has ended. `depth` is the number of calls around it."""

    def run(self, outermost: F) -> Any:
        """Run a call to its end."""
        for _ in self.steps(outermost):
            pass
        return outermost.result

    def steps(self, outermost: F) -> Iterator[None]:
        """Run a call; each `next` executes one instruction. The iteration ends with the call.

        Raises: the program's exceptions, with their position.
        """
        frame, frames = outermost, [outermost]
        before, call, wrote = self.before, self.call, self.wrote
        try:
            while True:
                before(frame)
                if self.fuel is not None:
                    self.fuel = self._paid(frame, self.fuel)
                op, a, b, dst = frame.function.code[frame.pc]
                if op <= INVOKE_LAST:
                    operands = b(frame.values)
                    target = a
                    if op >= INVOKE:
                        target, operands = closure_target(operands)
                        a = self.machine.invoke_closure
                    if op == DO or target is None:
                        value = frame.values[dst] = call(frame, a, operands)
                        wrote(frame, dst, value, operands)
                        frame.pc += 1
                        value = None
                    else:
                        frame = self._enter(frames, op, target, operands)
                    operands = ()  # what they hold may be killed by the next instruction
                elif op == LEAVE:
                    value = frame.values[a]
                    frames.pop()
                    self.left(frame, value, len(frames))
                    if not frames:
                        outermost.result = value
                        return
                    frame = frames[-1]
                    dst = frame.function.code[frame.pc][3]
                    frame.values[dst] = value
                    wrote(frame, dst, value, None)
                    frame.pc += 1
                    value = None
                elif op == JUMP:
                    frame.pc = a
                elif op == COMPARE:
                    frame.pc = dst if are_equal(*a(frame.values)) else b
                else:
                    frame.pc = frame.pc + 1 if is_true(frame.values[a]) else b
                yield
        except FAILURES as error:
            if not self.is_in_program:
                raise
            blamed = self.machine.blame(error, frame.function, frame.pc)
            if blamed is error:
                raise
            raise blamed from error

    def _paid(self, frame: F, fuel: int) -> int:
        """Return the fuel that remains after the next instruction. Raises: Trap V0308."""
        program = self.machine.executable.program
        spec: Spec = program.instruction(frame.function.first + frame.pc).spec
        if fuel < spec.fuel:
            raise Trap(V0308, f"fuel is exhausted: {spec.mnemonic} needs {spec.fuel}, {fuel} is left")
        return fuel - spec.fuel

    def _enter(self, frames: list[F], op: int, target: LinkedFunction, operands: Sequence[Any]) -> F:
        if op in (TAIL, INVOKE_LAST) and not self.keeps_callers:
            frame = frames.pop()
            self.left(frame, None, len(frames))
        elif len(frames) > self.machine.max_frames:
            raise too_deep(target, self.machine.max_frames)
        frames.append(self.entered(target, operands))
        return frames[-1]
