"""Build Relax VM executables instruction by instruction.

    builder = ExecBuilder()
    with builder.function("main", num_inputs=2):
        builder.emit_call("test.add", args=[builder.r(0), builder.r(1)], dst=builder.r(2))
        builder.emit_ret(builder.r(2))
    executable = builder.get()

Operands are encoded as plain ints (`r`, `imm`, `c`, `f`); see `heddle.vm.relax.isa`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.runtime.module import Module
from heddle.support.diagnostics import UsageError
from heddle.vm.builder import Place, ProgramBuilder
from heddle.vm.codes import V0201
from heddle.vm.isa import VOID, Instruction
from heddle.vm.relax.executable import VMExecutable
from heddle.vm.relax.isa import CALL, GOTO, IF, RELAX, RET


class ExecBuilder(ProgramBuilder):
    """Collects functions and constants. `get` verifies them and renumbers the registers without gaps."""

    isa = RELAX

    def emit_call(
        self, name: str, args: Sequence[Any] = (), dst: int | None = None, *, place: Place = None
    ) -> None:
        """Emit `dst := name(args...)`. An unknown name becomes a packed function. Tuples, shapes, tensors and
        dtypes among the arguments become constants; other arguments must be encoded operands. `place` is the
        source location."""
        if not self._open:
            raise UsageError(V0201, "emit should happen in a function scope")
        words = tuple(self._argument(arg) for arg in args)
        if name not in self._numbers:
            self.declare_function(name)
        self._emit(Instruction(CALL, (VOID if dst is None else dst, self._numbers[name], words)), place)

    def emit_ret(self, result: int, *, place: Place = None) -> None:
        """Emit a return of the operand `result`."""
        self._emit(Instruction(RET, (result,)), place)

    def emit_goto(self, pc_offset: int, *, place: Place = None) -> int:
        """Emit a jump. Return the instruction's position in the function, for `aim_here`."""
        self._emit(Instruction(GOTO, (pc_offset,)), place)
        return len(self._open[-1].body) - 1

    def emit_if(self, cond: int, false_offset: int, *, place: Place = None) -> int:
        """Emit a branch: continue if `cond` is true, else jump by `false_offset`. Return the instruction's
        position in the function, for `aim_here`."""
        self._emit(Instruction(IF, (cond, false_offset)), place)
        return len(self._open[-1].body) - 1

    def get(self, imports: Sequence[Module] = ()) -> VMExecutable:
        """Return the executable, with `imports` as its imported modules. The builder stays usable, and `get`
        may be called again.

        Raises: as `program`.
        """
        return VMExecutable(self.program(), imports)
