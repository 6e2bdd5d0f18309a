"""Functions of the graph machine (`heddle.tir.program_abi`) as machine code.

Registers are 16-byte values in the stack frame. Jumps are jumps, kernels and other functions of the program
are called directly, and what the builtins of `program_builtins` do is written out; every other callee goes
through `heddle_call`, which asks the host. A failing instruction branches to code that notes its place and
drops the registers.

Registers whose readers are all known need no object (`program_uses`): their shape heaps, sizes and tensors
lie in the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from heddle.codegen.llvm.program_held import held_registers
from heddle.codegen.llvm.program_uses import ShapeSlot, TensorSlot, Uses
from heddle.codegen.llvm.writer import FunctionWriter, ModuleWriter, symbol
from heddle.codegen.program_steps import FrameReads, Step, kind_of_operand, number_of, step_of, word_of
from heddle.ir.expr import Expr
from heddle.ir.visitor import walk
from heddle.prim.nodes import Call
from heddle.runtime.native.abi import (
    Context,
    Family,
    Kind,
    MachineCode,
    Operand,
    Value,
    machine_error,
)
from heddle.runtime.native.ir_types import exported_signatures, field_offset, ir_struct
from heddle.runtime.native.library import kernel_symbol
from heddle.tir.nodes import Evaluate, PrimFunc, SeqStmt, Stmt
from heddle.tir.program_abi import (
    FUNCTION_NUMBER,
    KERNELS,
    NUM_ARGS,
    NUM_REGISTERS,
    VOID,
)

VALUE = ir_struct(Value)
_BAD_CONDITION = machine_error(MachineCode.BAD_CONDITION, Family.TYPE)
_MOST_DROPS = 16
"""Where more registers than this may hold objects, a loop of the runtime drops them."""
_FRAME_KINDS = {"immediate": Kind.INT.value, "nothing": Kind.NONE.value, "machine": Kind.MACHINE.value}
"""Operands that are in no array, with the kind of their value."""


class ProgramEmitter:
    """Emits one function. `emit_call` emits its calls; `reserve_slots` gives those results room in the frame
    that need no object (`Uses`); `frame_reads` says which builtins read those."""

    def __init__(
        self,
        module: ModuleWriter,
        func: PrimFunc,
        emit_call: Callable[[ProgramEmitter, Step], None],
        reserve_slots: Callable[[ProgramEmitter, Sequence[Step]], None],
        frame_reads: Mapping[str, FrameReads],
    ) -> None:
        self.module, self.out = module, FunctionWriter()
        self.kernels = frozenset(str(name) for name in func.attrs[KERNELS])
        self._func = func
        self._emit_call, self._reserve_slots = emit_call, reserve_slots
        self.num_registers = int(func.attrs[NUM_REGISTERS])
        self.num_args = int(func.attrs[NUM_ARGS])
        self._number = int(func.attrs[FUNCTION_NUMBER])
        self.statements = [_call_of(stmt) for stmt in _flat(func.body)]
        self.uses = Uses(self.statements, self.kernels, self.num_args, frame_reads)
        self._frame_bytes = 4096  # what the compiler adds, and the support library's own frames
        self.heap_slots: dict[int, tuple[str, str, int]] = {}
        self.shape_slots: dict[int, ShapeSlot] = {}
        self.tensor_slots: dict[int, TensorSlot] = {}
        self._failures: list[tuple[str, str]] = []
        self._pc = 0

    # ---- the function

    def run(self) -> str:
        out = self.out
        # Sizes may follow the operands of one call: as many as the operands that made or name the shape.
        widest = 2 * max((len(list(walk(call))) for call in self.statements), default=1)
        count = max(self.num_registers, 1)
        self.registers = self.alloca(f"[{count} x {VALUE}], align 16", 16 * count)
        self.scratch = self.alloca(f"[{widest} x {VALUE}], align 16", 16 * widest)
        self.dropped = self.alloca(f"{VALUE}, align 16", 16)
        self._immediate = self.alloca(f"{VALUE}, align 16", 16)
        self.sizes_out = self.alloca("ptr", 8)
        out.effect(self._clear(self.registers, count))
        out.effect(self._clear(self.dropped, 1))
        self.call("heddle_enter", "%context", self.registers, "%args", str(self.num_args))
        self._constants = out.value(f"load ptr, ptr {self._context_place('constants')}")
        steps = [step_of(call) for call in self.statements if call.op.name == "tir.vm_call"]
        self._reserve_slots(self, steps)
        out.start("again")
        objectless = {*self.uses.heaps, *self.uses.shapes}
        held = held_registers(self.statements, self.num_args, objectless)
        for call, registers in zip(self.statements, held, strict=True):
            self._statement(call, registers)
        if not out.terminated:
            out.terminate("unreachable")
        self._emit_failure()
        name = kernel_symbol(str(self._func.attrs["global_symbol"]))
        attributes, params = self.module.attributes("nounwind"), "ptr %context, ptr %args, ptr %result"
        body = symbol(f"heddle_body_{name}")
        apart = self.module.attributes("noinline nounwind")
        text = out.build(f"define internal i32 {body}({params}) {apart}")
        return text + self._entrance(body).build(f"define i32 {symbol(name)}({params}) {attributes}")

    def _entrance(self, body: str) -> FunctionWriter:
        """What asks for room on the stack before the frame, which may be large, is taken. Where there is
        none, the body runs on a new segment of stack."""
        out = FunctionWriter()
        callee = self.module.declare("heddle_has_room", "i32", ["ptr", "i64"])
        room = out.value(f"call i32 {callee}(ptr %context, i64 {self._frame_bytes})")
        out.branch(out.value(f"icmp ne i32 {room}, 0"), "enter", "grow")
        out.start("grow")
        grow = self.module.declare("heddle_grow", "i32", ["ptr", "i64", "ptr", "ptr", "ptr"])
        operands = f"ptr %context, i64 {self._frame_bytes}, ptr {body}, ptr %args, ptr %result"
        grown = out.value(f"call i32 {grow}({operands})")
        out.terminate(f"ret i32 {grown}")
        out.start("enter")
        result = out.value(f"call i32 {body}(ptr %context, ptr %args, ptr %result)")
        out.terminate(f"ret i32 {result}")
        return out

    def alloca(self, text: str, size_bytes: int) -> str:
        """Memory of the frame, counted."""
        self._frame_bytes += size_bytes + 64
        return self.out.alloca(text)

    def _clear(self, at: str, count: int) -> str:
        callee = self.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
        return f"call void {callee}(ptr align 16 {at}, i8 0, i64 {16 * count}, i1 false)"

    def _statement(self, call: Call, held: frozenset[int]) -> None:
        kind = call.op.name.removeprefix("tir.vm_")
        if kind == "call":
            step = step_of(call)
            self._pc = step.pc
            self._emit_call(self, step)
        elif kind == "label":
            self.out.start(f"pc{word_of(call.args[0])}")
        elif kind == "goto":
            self.out.terminate(f"br label %pc{word_of(call.args[0])}")
        elif kind == "branch":
            self._branch(*map(word_of, call.args))
        elif kind == "again":
            self._again(call.args, held)
        elif kind == "tail":
            self._tail(word_of(call.args[0]), word_of(call.args[1]), call.args[2:])
        else:
            self._return(call.args[0], held)

    def _return(self, operand: Expr, held: frozenset[int]) -> None:
        """The result moves to the caller's register, what is left in the function's own is dropped."""
        at = self.value(operand)
        if kind_of_operand(operand) != "register" or len(held) > _MOST_DROPS:
            count = str(self.num_registers)
            self.call("heddle_leave", "%context", self.registers, count, at, "%result")
        else:
            kind, payload = self.kind(at), self.payload(at)
            self.out.effect(f"store i32 0, ptr {at}")
            self.call("heddle_put", "%context", "%result", kind, payload)
            for register in sorted(held - {number_of(operand)}):
                self.drop(self.register(register))
        self.out.terminate("ret i32 0")

    def _again(self, operands: Sequence[Expr], held: frozenset[int]) -> None:
        """Begin anew: values that leave their register anyway move, the others get a holder more."""
        self.check(self.call("heddle_turn", "%context"))
        args, count = self.arguments(operands), len(operands)
        if len(held) > _MOST_DROPS:
            registers = self.registers, str(self.num_registers)
            self.call("heddle_again", "%context", *registers, args, str(count))
            self.out.terminate("br label %again")
            return
        moved: set[int] = set()
        for place, operand in enumerate(operands):
            kind, number = kind_of_operand(operand), number_of(operand) if isinstance(operand, Call) else -1
            if kind == "register" and number not in moved:
                moved.add(number)
                self.out.effect(f"store i32 0, ptr {self.register(number)}")
            elif kind not in _FRAME_KINDS:
                at = self.out.value(f"getelementptr {VALUE}, ptr {args}, i64 {place}")
                self.call("heddle_retain", self.kind(at), self.payload(at))
        for register in sorted(held - moved):
            self.drop(self.register(register))
        for place in range(count):
            at = self.out.value(f"getelementptr {VALUE}, ptr {args}, i64 {place}")
            value = self.out.value(f"load <2 x i64>, ptr {at}, align 16")
            self.out.effect(f"store <2 x i64> {value}, ptr {self.register(place)}, align 16")
        self.out.terminate("br label %again")

    def _tail(self, number: int, pc: int, operands: Sequence[Expr]) -> None:
        """Leave the call to whoever called this function: see `heddle_run_code`."""
        self._pc = pc
        args, count = self.arguments(operands), str(len(operands))
        self.check(self.call("heddle_make_closure", "%context", "%result", str(number), count, args))
        self.call("heddle_release_all", "%context", self.registers, str(self.num_registers))
        self.out.terminate("ret i32 1")

    def _branch(self, register: int, label: int, pc: int) -> None:
        at = self.register(register)
        kind = self.kind(at)
        is_number = self.out.value(f"icmp ult i32 {self.out.value(f'sub i32 {kind}, {Kind.INT.value}')}, 2")
        message = "a branch needs a bool or an integer, got %v"
        self._pc = pc
        self.require(is_number, _BAD_CONDITION, message, got=f"kind of {at}")
        payload = self.payload(at, "i64")
        true = self.out.label("true")
        self.out.branch(self.out.value(f"icmp ne i64 {payload}, 0"), true, f"pc{label}")
        self.out.start(true)

    def _emit_failure(self) -> None:
        if not self._failures:
            return
        out = self.out
        out.start("failed")
        pairs = ", ".join(f"[ {place}, %{block} ]" for place, block in self._failures)
        place = out.value(f"phi i64 {pairs}")
        self.call("heddle_fail", "%context", self.registers, str(self.num_registers), place)
        out.terminate("ret i32 -1")

    # ---- what builtins are written with

    def call(self, name: str, *operands: str) -> str:
        """Call a runtime function; its result, "" where it has none."""
        result, types = exported_signatures()[name]
        callee = self.module.declare(name, result, types)
        given = ", ".join(f"{ty} {operand}" for ty, operand in zip(types, operands, strict=True))
        text = f"call {result} {callee}({given})"
        if result == "void":
            self.out.effect(text)
            return ""
        return self.out.value(text)

    def check(self, status: str) -> None:
        """Fail where a status is not 0."""
        self.fail_where(self.out.value(f"icmp ne i32 {status}, 0"))

    def fail_where(self, condition: str) -> None:
        """Fail where an i1 is true."""
        going = self.out.label("on")
        self._failures.append((str(self._place), self.out.block))
        weights = self.module.metadata_once('!{!"branch_weights", i32 1, i32 2000}')
        self.out.branch(condition, "failed", going, weights)
        self.out.start(going)

    def require(self, condition: str, error: int, message: str, expected: str = "0", got: str = "0") -> None:
        """Where a condition does not hold: the error, whose message may have %e, %g, %t and %v, and failure.

        `error` is the number of the diagnostic times 256, plus the exception class as `heddle_set_error` has
        it.
        """
        wrong, going = self.out.label("wrong"), self.out.label("right")
        weights = self.module.metadata_once('!{!"branch_weights", i32 2000, i32 1}')
        self.out.branch(condition, going, wrong, weights)
        self.out.start(wrong)
        if got.startswith("kind of "):
            got = self.call("heddle_kind_of", got.removeprefix("kind of "))
        text = self.module.string(message)
        self.call("heddle_set_error", str(error), text, expected, got)
        self._failures.append((str(self._place), self.out.block))
        self.out.terminate("br label %failed")
        self.out.start(going)

    def register(self, number: int) -> str:
        """The address of a register."""
        return self.out.value(f"getelementptr {VALUE}, ptr {self.registers}, i64 {number}")

    def destination(self, step: Step) -> str:
        return self.dropped if step.dst == VOID else self.register(step.dst)

    def value(self, operand: Expr) -> str:
        """The address of an operand's value; the value of an immediate lies there until the next one."""
        kind = kind_of_operand(operand)
        if kind == "register":
            return self.register(number_of(operand))
        if kind in ("constant", "function"):
            index = _constant_index(operand)
            return self.out.value(f"getelementptr {VALUE}, ptr {self._constants}, i64 {index}")
        self.set_immediate(self._immediate, operand)
        return self._immediate

    def set_immediate(self, at: str, operand: Expr) -> None:
        """Write an operand that is in no array (an immediate, nothing, the machine) to an address."""
        kind = kind_of_operand(operand)
        payload = number_of(operand) if kind == "immediate" else 0
        self.set_value(at, str(_FRAME_KINDS[kind]), f"i64 {payload}")

    def set_value(self, at: str, kind: str, payload: str) -> None:
        """Write a value to an address: `kind` is an i32, `payload` has its type before it."""
        self.out.effect(f"store i32 {kind}, ptr {at}")
        self.out.effect(f"store {payload}, ptr {self._payload_place(at)}")

    def kind(self, at: str) -> str:
        """The kind of the value at an address, an i32."""
        return self.out.value(f"load i32, ptr {at}")

    def payload(self, at: str, ty: str = "ptr") -> str:
        """The payload of the value at an address, loaded as `ty`."""
        return self.out.value(f"load {ty}, ptr {self._payload_place(at)}")

    def _payload_place(self, at: str) -> str:
        return self._byte_place(at, field_offset(Value, "payload"))

    def arguments(self, operands: Sequence[Expr], extra: Sequence[str] = ()) -> str:
        """Operands side by side in the scratch array; `extra` are int64 payloads after them."""
        for place, operand in enumerate(operands):
            at = self.out.value(f"getelementptr {VALUE}, ptr {self.scratch}, i64 {place}")
            if kind_of_operand(operand) in _FRAME_KINDS:
                self.set_immediate(at, operand)
            else:
                held = self.out.value(f"load <2 x i64>, ptr {self.value(operand)}, align 16")
                self.out.effect(f"store <2 x i64> {held}, ptr {at}, align 16")
        for place, payload in enumerate(extra, len(operands)):
            at = self.out.value(f"getelementptr {VALUE}, ptr {self.scratch}, i64 {place}")
            self.set_value(at, str(Kind.INT.value), f"i64 {payload}")
        return self.scratch

    def tensor_field(self, tensor: str, offset: int, ty: str) -> str:
        """What lies `offset` bytes behind an address, loaded as `ty`."""
        return self.out.value(f"load {ty}, ptr {self._byte_place(tensor, offset)}")

    def _byte_place(self, at: str, offset: int) -> str:
        return self.out.value(f"getelementptr i8, ptr {at}, i64 {offset}")

    def constant_sizes(self, sizes: Sequence[int]) -> str:
        """The address of sizes that are known."""
        return self.module.words(sizes)

    def host_call(self, step: Step) -> None:
        """Let `heddle_call` find the callee, which may be the host's."""
        words = [step.number, self._place, len(step.operands)]
        for operand in step.operands:
            words += self._operand_words(operand)
        status = self.call(
            "heddle_call_by_words",
            "%context",
            self.registers,
            self.destination(step),
            self.module.words(words),
            self.scratch,
        )
        self.finish(step, status)

    def _operand_words(self, operand: Expr) -> tuple[int, int]:
        kind = kind_of_operand(operand)
        if kind == "register":
            return Operand.REGISTER, number_of(operand)
        if kind in ("constant", "function"):
            return Operand.CONSTANT, _constant_index(operand)
        return _FRAME_KINDS[kind], number_of(operand) if kind == "immediate" else 0

    def note_place(self) -> None:
        """Tell the host where the call is that it may get."""
        self.out.effect(f"store i64 {self._place}, ptr {self._context_place('call_place')}")

    def _context_place(self, field: str) -> str:
        """The address of a field of the context."""
        return self._byte_place("%context", field_offset(Context, field))

    @property
    def _place(self) -> int:
        return self._number << 32 | self._pc

    def finish(self, step: Step, status: str) -> None:
        """Fail where the status says so; drop a result that nobody wants."""
        self.check(status)
        if step.dst == VOID:
            self.call("heddle_put", "%context", self.dropped, "0", "null")

    def clear(self, step: Step) -> None:
        """No value to the destination, as calls without result give."""
        if step.dst != VOID:
            self.drop(self.register(step.dst))

    def drop(self, at: str) -> None:
        """Clear a register."""
        kind, payload = self.kind(at), self.payload(at)
        self.out.effect(f"store i32 0, ptr {at}")
        held, done = self.out.label("held"), self.out.label("cleared")
        is_object = self.out.value(f"icmp uge i32 {kind}, {Kind.TENSOR.value}")
        self.out.branch(is_object, held, done)
        self.out.start(held)
        self.call("heddle_release", "%context", kind, payload)
        self.out.start(done)

    def is_kind(self, at: str, kind: Kind) -> str:
        """An i1: whether the value at an address is of a kind."""
        return self.out.value(f"icmp eq i32 {self.kind(at)}, {kind.value}")


def _constant_index(operand: Expr) -> int:
    """Where the value of a constant or a function lies: behind the constants are the functions."""
    number = number_of(operand)
    return number if kind_of_operand(operand) == "constant" else -1 - number


def _flat(body: Stmt) -> Sequence[Stmt]:
    return body.seq if isinstance(body, SeqStmt) else (body,)


def _call_of(stmt: Stmt) -> Call:
    assert isinstance(stmt, Evaluate) and isinstance(stmt.value, Call)
    return stmt.value
