"""Functions of the graph machine (`heddle.tir.program_abi`) as C.

Registers are an array of values in the function's frame. Jumps are jumps, kernels are called directly, and
each builtin of `program_builtins` is written out over the functions that `heddle_program.h` declares: the
support library has them where the code is loaded into a Python process, `heddle_runtime.h` has them in a
program of its own. Every other callee goes through `heddle_call_by_words`, which asks the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heddle.codegen.c.types import text_literal
from heddle.codegen.c.writer import FunctionWriter, ModuleWriter, symbol
from heddle.codegen.program_steps import Step, kind_of_operand, number_of, step_of, word_of
from heddle.ir.expr import Expr
from heddle.prim.nodes import Call
from heddle.runtime.native.abi import Family, Kind, MachineCode, Operand, machine_error
from heddle.runtime.native.library import kernel_symbol
from heddle.tir.nodes import Evaluate, PrimFunc, SeqStmt, Stmt
from heddle.tir.program_abi import FUNCTION_NUMBER, KERNELS, NUM_ARGS, NUM_REGISTERS, VOID

_FRAME_KINDS = {"immediate": Kind.INT.value, "nothing": Kind.NONE.value, "machine": Kind.MACHINE.value}
"""Operands that are in no array, with the kind of their value."""
MOST_SIZES = 32
"""Room for sizes after the operands of a kernel, where their number is not known."""
PARAMS = "HeddleContext *context, const HeddleCell *args, HeddleCell *result"


class ProgramEmitter:
    """Emits one function; `emit_call` emits its calls, and `hosted` notes callees that only a host has."""

    def __init__(
        self, module: ModuleWriter, func: PrimFunc, emit_call: Callable[[ProgramEmitter, Step], None]
    ) -> None:
        self.module, self.out = module, FunctionWriter()
        self.kernels = frozenset(str(name) for name in func.attrs[KERNELS])
        self.name = symbol(kernel_symbol(str(func.attrs["global_symbol"])))
        self._emit_call = emit_call
        self._num_registers = max(int(func.attrs[NUM_REGISTERS]), 1)
        self._num_args = int(func.attrs[NUM_ARGS])
        self._number = int(func.attrs[FUNCTION_NUMBER])
        self._statements = [_call_of(stmt) for stmt in _flat(func.body)]
        self._pc = 0
        self._may_fail = False

    def run(self) -> None:
        """Add the function to the module."""
        out = self.out
        calls = [step_of(call) for call in self._statements if call.op.name == "tir.vm_call"]
        widest = max([len(step.operands) for step in calls] + [len(call.args) for call in self._statements])
        count = self._num_registers
        for taken in ("context", "args", "result", "r", "s", "place"):
            out.names.fresh(taken)
        out.line(f"HeddleCell r[{count}]; /* registers */")
        out.line(f"HeddleCell s[{widest + MOST_SIZES}]; /* operands of a call */")
        out.line("int64_t place = 0;")
        out.line(f"if (heddle_room(context, {16 * (count + widest + MOST_SIZES) + 512}) != 0) return -1;")
        out.line("memset(r, 0, sizeof r); memset(s, 0, sizeof s);")
        out.line(f"heddle_enter(context, r, args, {self._num_args});")
        if any(call.op.name == "tir.vm_again" for call in self._statements):
            out.label("again")
        for call in self._statements:
            self._statement(call)
        if self._may_fail:
            out.label("failed")
            out.line(f"heddle_fail(context, r, {count}, place);")
        out.line("return -1;")
        header = f"int32_t {self.name}({PARAMS})"
        self.module.add(out.build(header, ("args", "result", "s", "place")))

    def _statement(self, call: Call) -> None:
        kind = call.op.name.removeprefix("tir.vm_")
        if kind == "label":
            self.out.label(f"pc{word_of(call.args[0])}")
            return
        if kind == "goto":
            self.out.line(f"goto pc{word_of(call.args[0])};")
            return
        with self.out.block():
            if kind == "call":
                step = step_of(call)
                self._begin(step.pc)
                self._emit_call(self, step)
            elif kind == "branch":
                self._branch(*map(word_of, call.args))
            elif kind == "again":
                self.check("heddle_turn(context)")
                count = self.arguments(call.args)
                self.out.line(f"heddle_again(context, r, {self._num_registers}, s, {count});")
                self.out.line("goto again;")
            elif kind == "tail":
                self._tail(word_of(call.args[0]), word_of(call.args[1]), call.args[2:])
            else:
                self.out.line(
                    f"heddle_leave(context, r, {self._num_registers}, {self.value(call.args[0])}, result);"
                )
                self.out.line("return 0;")

    def _begin(self, pc: int) -> None:
        self._pc = pc
        self.out.line(f"place = INT64_C({self._number << 32 | pc});")

    def _tail(self, number: int, pc: int, operands: Sequence[Expr]) -> None:
        """Leave the call to whoever called this function."""
        self._begin(pc)
        count = self.arguments(operands)
        self.check(f"heddle_make_closure(context, result, {number}, {count}, s)")
        self.out.line(f"heddle_release_all(context, r, {self._num_registers});")
        self.out.line("return 1;")

    def _branch(self, register: int, label: int, pc: int) -> None:
        self._begin(pc)
        number, boolean = Kind.INT.value, Kind.BOOL.value
        self.require(
            f"r[{register}].kind == {number} || r[{register}].kind == {boolean}",
            machine_error(MachineCode.BAD_CONDITION, Family.TYPE),
            "a branch needs a bool or an integer, got %v",
            got=f"heddle_kind_of(&r[{register}])",
        )
        self.out.line(f"if (r[{register}].as.integer == 0) goto pc{label};")

    # ---- what builtins are written with

    def check(self, status: str) -> None:
        """Fail where a status is not 0."""
        self._may_fail = True
        self.out.line(f"if ({status} != 0) goto failed;")

    def require(self, condition: str, error: int, message: str, expected: str = "0", got: str = "0") -> None:
        """Where a condition does not hold: an error, whose message may have %e, %g, %t, %v, and failure."""
        self._may_fail = True
        with self.out.block(f"if (!({condition}))"):
            self.out.line(f"heddle_set_error({error}, {text_literal(message)}, {expected}, {got});")
            self.out.line("goto failed;")

    def value(self, operand: Expr) -> str:
        """The address of an operand's value."""
        kind = kind_of_operand(operand)
        if kind == "register":
            return f"&r[{number_of(operand)}]"
        if kind in ("constant", "function"):
            return f"&context->constants[{_constant_index(operand)}]"
        name = self.out.declare("immediate", "HeddleCell {};")
        self.set_cell(name, operand)
        return f"&{name}"

    def set_cell(self, cell: str, operand: Expr) -> None:
        """Copy an operand's value into a cell; of an object no reference is counted."""
        kind = kind_of_operand(operand)
        if kind in _FRAME_KINDS:
            number = number_of(operand) if kind == "immediate" else 0
            self.set_integer(cell, f"INT64_C({number})", _FRAME_KINDS[kind])
        else:
            self.out.line(f"{cell} = {self.value(operand).removeprefix('&')};")

    def set_integer(self, cell: str, text: str, kind: int = Kind.INT.value) -> None:
        """Write a value that is no object to a cell: `text` is its payload, an int64."""
        self.out.line(f"{cell}.kind = {kind}; {cell}.zero = 0; {cell}.as.integer = {text};")

    def arguments(self, operands: Sequence[Expr], extra: Sequence[str] = ()) -> int:
        """Operands side by side in `s`; `extra` are integers after them. Their number."""
        for position, operand in enumerate(operands):
            self.set_cell(f"s[{position}]", operand)
        for position, text in enumerate(extra, len(operands)):
            self.set_integer(f"s[{position}]", text)
        return len(operands) + len(extra)

    def words(self, values: Sequence[int]) -> str:
        """The name of an array of constants."""
        text = ", ".join(f"INT64_C({value})" for value in values) or "0"
        return self.out.declare("words", f"static const int64_t {{}}[] = {{{text}}};")

    def destination(self, step: Step) -> str:
        """The address of the result's register; where nobody wants it, of one that `finish` clears."""
        return "&s[0]" if step.dst == VOID else f"&r[{step.dst}]"

    def finish(self, step: Step, call: str) -> None:
        """A call of a runtime function whose result goes to `destination`."""
        if step.dst == VOID:
            self.out.line("s[0].kind = 0;")
        self.check(call)
        if step.dst == VOID:
            self.out.line("heddle_put(context, &s[0], 0, NULL);")

    def clear(self, step: Step) -> None:
        """No value to the destination, as calls without result give."""
        if step.dst != VOID:
            self.out.line(f"heddle_put(context, &r[{step.dst}], 0, NULL);")

    def host_call(self, step: Step) -> None:
        """Let `heddle_call_by_words` find the callee: a function of the program, or the host's."""
        words = [step.number, self._number << 32 | self._pc, len(step.operands)]
        for operand in step.operands:
            words += self._operand_words(operand)
        name = self.words(words)
        into = self.out.declare("made", "HeddleCell {};") if step.dst == VOID else f"r[{step.dst}]"
        if step.dst == VOID:
            self.out.line(f"memset(&{into}, 0, sizeof {into});")
        self.check(f"heddle_call_by_words(context, r, &{into}, {name}, s)")
        if step.dst == VOID:
            self.out.line(f"heddle_put(context, &{into}, 0, NULL);")

    def _operand_words(self, operand: Expr) -> tuple[int, int]:
        kind = kind_of_operand(operand)
        if kind == "register":
            return Operand.REGISTER, number_of(operand)
        if kind in ("constant", "function"):
            return Operand.CONSTANT, _constant_index(operand)
        return _FRAME_KINDS[kind], number_of(operand) if kind == "immediate" else 0


def _constant_index(operand: Expr) -> int:
    """Where the value of a constant or a function lies: behind the constants are the functions."""
    number = number_of(operand)
    return number if kind_of_operand(operand) == "constant" else -1 - number


def _flat(body: Stmt) -> Sequence[Stmt]:
    return body.seq if isinstance(body, SeqStmt) else (body,)


def _call_of(stmt: Stmt) -> Call:
    assert isinstance(stmt, Evaluate) and isinstance(stmt.value, Call)
    return stmt.value
