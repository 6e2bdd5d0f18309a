"""The steps of the Relay machine's instructions (`heddle.vm.steps`).

A register that one instruction alone writes, and that one with a constant, holds it from the beginning: the
constant lies in the frame's template. So the loads with which functions begin cost one jump.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from heddle.runtime.dtype import DataType
from heddle.runtime.shape import Shape
from heddle.vm.builtins import memory
from heddle.vm.builtins.shapes import shape_of
from heddle.vm.dataflow import registers_written
from heddle.vm.disasm import dtype_text
from heddle.vm.isa import VM_STATE, VOID, Instruction
from heddle.vm.program import FunctionRow, Program
from heddle.vm.relay import values
from heddle.vm.relay.isa import ALLOC_CLOSURE, LOAD_CONST, LOAD_CONSTI
from heddle.vm.shortcuts import fixed_storage, fixed_tensor
from heddle.vm.steps import (
    CLEAR,
    COMPARE,
    DO,
    DO0,
    DO1,
    ENTER,
    INVOKE_LAST,
    JUMP,
    LEAVE,
    TAIL,
    UNKNOWN,
    LinkedFunction,
    Step,
    getter,
)
from heddle.vm.steps import INVOKE as ENTER_CLOSURE
from heddle.vm.tail import tail_calls


class Linker:
    """Makes the steps of one function. `machine` knows what constants and functions are."""

    def __init__(self, machine: Any, program: Program, row: FunctionRow) -> None:
        self._machine, self._row = machine, row
        self._code = program.instructions(row)
        self._tails = tail_calls(program, row)
        self._void = row.register_file_size
        self._template: list[Any] = [None] * (self._void + 1)
        self._special: dict[int, int] = {}
        self._fixed = self._fixed_registers()
        for register, value in self._fixed.items():
            self._template[register] = value

    def link(self, target: LinkedFunction) -> None:
        """Fill in the steps and the template of a function."""
        made = [self._steps(pc, step) for pc, step in enumerate(self._code)]
        target.code = [plain for plain, _ in made]
        target.steps = self._without_loads([quick for _, quick in made])
        target.template = self._template

    # ---- what is known

    def _fixed_registers(self) -> dict[int, Any]:
        """Registers that hold one value in every call, and which."""
        writes = Counter(register for step in self._code for register in registers_written(step))
        found = {}
        for step in self._code:
            value = self._loaded(step)
            register = registers_written(step)[0] if value is not UNKNOWN else -1
            if writes[register] == 1 and register >= self._row.num_args:
                found[register] = value
        return found

    def _loaded(self, step: Instruction) -> Any:
        """What a load gives; UNKNOWN for any other instruction."""
        if step.spec is LOAD_CONST:
            return self._machine.constant(*step.values[:2])
        if step.spec is LOAD_CONSTI:
            return step.values[0]
        if step.spec is ALLOC_CLOSURE and not step.values[2]:
            return self._machine.function_value(step.values[0])
        return UNKNOWN

    def _known(self, register: int) -> Any:
        return self._fixed.get(register, UNKNOWN)

    def _without_loads(self, steps: list[Step]) -> list[Step]:
        """Loads of what lies in the template become jumps over all that follow each other."""
        end = len(steps)
        for pc in reversed(range(len(steps))):
            written = registers_written(self._code[pc])
            if self._loaded(self._code[pc]) is not UNKNOWN and written[0] in self._fixed:
                steps[pc] = (JUMP, end, None, 0)
            else:
                end = pc
        return steps

    def _slot(self, register: int) -> int:
        """Where an operand lies in the frame."""
        if register < VOID:
            return register
        if register not in self._special:
            self._special[register] = self._constant(self._machine if register == VM_STATE else None)
        return self._special[register]

    def _constant(self, value: Any) -> int:
        self._template.append(value)
        return len(self._template) - 1

    # ---- steps: the methods are called as the instructions are

    def _steps(self, pc: int, step: Instruction) -> tuple[Step, Step]:
        """The plain and the quickest step of an instruction."""
        made = getattr(self, f"_{step.spec.mnemonic}")(pc, *step.values)
        return made if isinstance(made[0], tuple) else (made, made)

    def _do(self, call: Callable[..., Any], operands: Sequence[int], dst: int) -> tuple[Step, Step]:
        """A call of what is no function of the program."""
        places = [self._slot(register) for register in operands]
        plain = (DO, call, getter(places), dst)
        if len(places) == 1:
            return plain, (DO1, call, places[0], dst)
        return plain, plain if places else (DO0, call, None, dst)

    def _move(self, _: int, src: int, dst: int) -> tuple[Step, Step]:
        return self._do(memory.copy, [src], dst)

    def _kill_register(self, _: int, dst: int) -> tuple[Step, Step]:
        return self._do(memory.null_value, [], dst)[0], (CLEAR, None, None, dst)

    def _ret(self, _: int, result: int) -> Step:
        return LEAVE, result, None, 0

    def _goto(self, pc: int, offset: int) -> Step:
        return JUMP, pc + offset, None, 0

    def _if(self, pc: int, test: int, target: int, yes: int, no: int) -> Step:
        return COMPARE, getter([test, target]), pc + no, pc + yes

    def _load(self, pc: int, *_: int) -> tuple[Step, Step]:
        step = self._code[pc]
        value = self._loaded(step)
        return self._do(lambda: value, [], registers_written(step)[0])

    _load_const = _load_consti = _load

    def _fatal(self, _: int) -> tuple[Step, Step]:
        return self._do(values.fatal, [], self._void)

    def _invoke(self, pc: int, row: int, dst: int, args: Sequence[int]) -> Step:
        call = self._machine.instrumented(row, len(args))
        places = getter([self._slot(register) for register in args])
        if call is not None:
            return DO, call, places, dst
        return TAIL if pc in self._tails else ENTER, self._machine.linked_function(row), places, dst

    def _invoke_closure(self, pc: int, closure: int, dst: int, args: Sequence[int]) -> Step:
        operands = [self._slot(register) for register in (VM_STATE, closure, *args)]
        return INVOKE_LAST if pc in self._tails else ENTER_CLOSURE, None, getter(operands), dst

    def _invoke_packed(
        self, _: int, row: int, inputs: Sequence[int], outputs: Sequence[int], sizes: Sequence[int]
    ) -> tuple[Step, Step]:
        tensors = [*inputs, *outputs]
        call = self._machine.call_of(row, len(tensors) + len(sizes))
        made = self._do(_with_items(call, len(sizes)), [*tensors, *sizes], self._void)
        known = [self._known(register) for register in sizes]
        if not sizes or not all(type(value) is Shape for value in known):
            return made
        integers = [size for shape in known for size in shape]
        places = [*map(self._slot, tensors), *map(self._constant, integers)]
        return made[0], (DO, call, getter(places), self._void)

    def _call_packed(self, _: int, row: int, dst: int, args: Sequence[int]) -> tuple[Step, Step]:
        return self._do(self._machine.call_of(row, len(args)), args, dst)

    def _alloc_storage(
        self, _: int, size: int, __: int, dtype: Any, device: int, dst: int, dims: Sequence[int]
    ) -> tuple[Step, Step]:
        machine, element = self._machine, DataType(dtype_text(dtype))
        if size == VOID:
            shape = Shape(dims)
            plain, quick = self._do(lambda: memory.alloc_storage(machine, shape, device, element), [], dst)
            lend = fixed_storage(machine.allocators, (None, shape, device, element))
            return plain, quick if lend is None else (DO0, lend, None, dst)
        return self._do(
            lambda count: memory.alloc_storage(machine, values.count_of(count), device, element), [size], dst
        )

    def _alloc_tensor(
        self, _: int, storage: int, place: int, dtype: Any, dst: int, dims: Sequence[int]
    ) -> tuple[Step, Step]:
        shape, element = Shape(dims), DataType(dtype_text(dtype))
        plain, quick = self._do(values.alloc_tensor(shape, element), [storage, place], dst)
        fixed = fixed_tensor((None, self._known(place), shape, element))
        return plain, quick if fixed is None else (DO1, fixed, storage, dst)

    def _alloc_tensor_reg(
        self, _: int, storage: int, place: int, shape: int, dtype: Any, dst: int
    ) -> tuple[Step, Step]:
        element = DataType(dtype_text(dtype))
        return self._do(values.alloc_tensor_reg(element), [storage, place, shape], dst)

    def _alloc_adt(self, _: int, tag: int, dst: int, fields: Sequence[int]) -> tuple[Step, Step]:
        return self._do(values.alloc_adt(tag), fields, dst)

    def _alloc_closure(self, pc: int, row: int, dst: int, bound: Sequence[int]) -> tuple[Step, Step]:
        return self._do(values.alloc_closure(self._machine.function_value(row)), bound, dst)

    def _get_field(self, _: int, value: int, index: int, dst: int) -> tuple[Step, Step]:
        return self._do(values.get_field(index), [value], dst)

    def _get_tag(self, _: int, value: int, dst: int) -> tuple[Step, Step]:
        return self._do(values.get_tag, [value], dst)

    def _shape_of(self, _: int, tensor: int, dst: int) -> tuple[Step, Step]:
        return self._do(shape_of, [tensor], dst)

    def _reshape_tensor(self, _: int, tensor: int, shape: int, dst: int) -> tuple[Step, Step]:
        return self._do(values.reshape_tensor, [tensor, shape], dst)

    def _device_copy(self, _: int, src: int, source: int, target: int, dst: int) -> tuple[Step, Step]:
        machine = self._machine
        return self._do(values.device_copy(machine.devices, machine.allocators, source, target), [src], dst)


def _with_items(call: Callable[..., Any], count: int) -> Callable[..., Any]:
    """`call` with the items of its last arguments in their place."""
    if not count:
        return call
    return lambda *args: call(*args[:-count], *values.items_of(args[-count:]))
