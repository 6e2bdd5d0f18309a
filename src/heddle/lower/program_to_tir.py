"""Convert bytecode to loop functions over the register file, which `exec_mode="compiled"` compiles.

    @f:                                                __vmtir__f(context, args, result):
      call match_shape in: %0, %1, i1, i1, i0, c[3]        vm_call("vm.builtin.match_shape", 2, 0, -1, ...)
      If   %2, 3                                           vm_branch(2, 4, 3)
      call add in: %0, %1 dst: %3                          vm_call("add", 5, 2, 3, vm_register(0), ...)
      goto 2                                               vm_goto(5)
      call ...                                             vm_label(4); vm_call(...)
      ret  %3                                              vm_label(5); vm_return(vm_register(3))

Every program has this form, also one that was built by hand or loaded from a file, whatever its jumps. A call
of the function itself in tail position begins it anew; one of another function, from where calls in tail
position lead back, is left to the caller. So a loop that functions make takes the space of one frame.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from heddle.ir.attrs import Attrs
from heddle.ir.expr import Expr, GlobalVar, StringImm
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.prim.nodes import FloatImm, PrimExpr, Var
from heddle.prim.ops import const
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType
from heddle.runtime.kernel_module import PROGRAM_PREFIX
from heddle.runtime.shape import Shape
from heddle.tir.kernel_abi import CALLING_CONV
from heddle.tir.nodes import Evaluate, PrimFunc, Stmt, seq
from heddle.tir.program_abi import (
    FUNCTION_NUMBER,
    KERNELS,
    NUM_ARGS,
    NUM_REGISTERS,
    PROGRAM_CONV,
    VOID,
    vm_again,
    vm_branch,
    vm_call,
    vm_constant,
    vm_dtype,
    vm_function,
    vm_goto,
    vm_label,
    vm_machine,
    vm_nothing,
    vm_register,
    vm_return,
    vm_shape,
    vm_tail,
)
from heddle.vm.builtins import register_builtins
from heddle.vm.builtins.table import check_call
from heddle.vm.dataflow import callee_of, jump_offsets
from heddle.vm.encode import decode_arg
from heddle.vm.isa import ArgKind, FuncKind, Instruction
from heddle.vm.program import FunctionRow, Program
from heddle.vm.relax import isa
from heddle.vm.tail import tail_calls, tail_cycles

_HANDLE = DataType("handle")


def program_functions(program: Program, kernels: Collection[str]) -> IRModule:
    """A loop function for each bytecode function of a verified program. `kernels` will be linked beside
    them.

    Raises: BytecodeError V0408 for a call of a builtin with a number of operands that it does not take.
    """
    register_builtins()
    table = {}
    cycles = tail_cycles(program)
    for number, row in enumerate(program.functions):
        if row.kind is FuncKind.VM and row.has_bytecode:
            table[GlobalVar(PROGRAM_PREFIX + row.name)] = _function(program, number, row, cycles, kernels)
    return IRModule(Map(table))


def _function(
    program: Program, number: int, row: FunctionRow, cycles: Sequence[int], kernels: Collection[str]
) -> PrimFunc:
    code = [program.instruction(index) for index in range(row.start, row.end)]
    targets = {pc + jump for pc, step in enumerate(code) for jump in jump_offsets(step)}
    tails = {pc for pc in tail_calls(program, row) if _is_in_cycle(cycles, number, code[pc])}
    body: list[Stmt] = []
    for pc, step in enumerate(code):
        if pc in targets:
            body.append(Evaluate(vm_label(pc)))
        if pc in tails:
            body.append(Evaluate(_tail_call(program, number, pc, step)))
        else:
            body.append(Evaluate(_statement(program, pc, step)))
    calls = [step for step in code if step.spec is isa.CALL]
    operands = [decode_arg(word) for step in calls for word in step.value("args")]
    numbers = {step.value("func") for step in calls} | {n for kind, n in operands if kind is ArgKind.FUNCTION}
    callees = sorted(program.functions[number].name for number in numbers)
    params = tuple(Var(name, _HANDLE) for name in ("context", "args", "result"))
    attrs = {
        "global_symbol": PROGRAM_PREFIX + row.name,
        CALLING_CONV: PROGRAM_CONV,
        NUM_ARGS: row.num_args,
        NUM_REGISTERS: row.register_file_size,
        FUNCTION_NUMBER: number,
        KERNELS: tuple(name for name in callees if name in kernels),
    }
    return PrimFunc(params, seq(*body), attrs=Attrs(Map(attrs)))


def _is_in_cycle(cycles: Sequence[int], number: int, step: Instruction) -> bool:
    """Whether a tail call leads back to the function that it is in."""
    called = callee_of(step)
    return called is not None and cycles[called] == cycles[number]


def _tail_call(program: Program, number: int, pc: int, step: Instruction) -> PrimExpr:
    """A call in tail position of a function of the same cycle, perhaps of the function itself."""
    _, callee, words = step.values
    operands = [_operand(program, word) for word in words]
    return vm_again(operands) if callee == number else vm_tail(callee, pc, operands)


def _statement(program: Program, pc: int, step: Instruction) -> PrimExpr:
    if step.spec is isa.GOTO:
        return vm_goto(pc + step.values[0])
    if step.spec is isa.IF:
        return vm_branch(step.values[0], pc + step.values[1], pc)
    if step.spec is isa.RET:
        return vm_return(_operand(program, step.values[0]))
    dst, number, words = step.values
    operands = [_operand(program, word) for word in words]
    check_call(program.functions[number].name, len(operands))
    return vm_call(program.functions[number].name, number, pc, VOID if dst >= isa.VOID else dst, operands)


def _operand(program: Program, word: int) -> Expr:
    kind, value = decode_arg(word)
    if kind is ArgKind.IMMEDIATE:
        return const(value, "int64")
    if kind is ArgKind.FUNCTION:
        return vm_function(value, program.functions[value].name)
    if kind is ArgKind.CONSTANT:
        return vm_constant(value, *_content(program.constants[value]))
    if value < isa.VOID:
        return vm_register(value)
    return vm_machine() if value == isa.VM_STATE else vm_nothing()


def _content(value: object) -> tuple[Expr, ...]:
    """What a constant holds, where the machine code depends on it."""
    if isinstance(value, DataType):
        return (vm_dtype(str(value)),)
    if isinstance(value, str):
        return (StringImm(value),)
    if isinstance(value, Shape):
        return (vm_shape(value),) if all(map(_is_word, value)) else ()
    if isinstance(value, bool):
        return (const(value, "bool"),)
    if isinstance(value, int):
        return (const(value, "int64"),) if _is_word(value) else ()
    if isinstance(value, float):
        return (FloatImm(DataType("float64"), value),)
    return ()


def _is_word(value: int) -> bool:
    """Whether machine code can hold an integer; greater ones only pass through it."""
    low, high = int_range(DataType("int64"))
    return low <= value <= high
