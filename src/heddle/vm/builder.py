"""Build programs for any machine: functions, constants, and instructions with their source locations.

Each machine's builder maps the `emit_*` methods to its own instructions. Operands are encoded as plain ints
(`r`, `imm`, `c`, `f`). They are argument words, even if the machine's instructions have none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from heddle.runtime.dtype import DataType
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.span import Span, TextSpan
from heddle.vm.codes import V0104, V0105, V0106, V0107, V0109, V0201, V0202, V0203, V0204, V0205
from heddle.vm.constants import Constant, constant_key, is_same_constant
from heddle.vm.dataflow import arguments, registers_read, registers_written, with_registers
from heddle.vm.encode import assemble, encode_arg
from heddle.vm.isa import (
    MAX_VALUE,
    UNDEFINED_ARGS,
    VM_STATE,
    VOID,
    ArgKind,
    FuncKind,
    Instruction,
    InstructionSet,
    Operand,
)
from heddle.vm.line_table import kept_span
from heddle.vm.objects import BytecodeError
from heddle.vm.program import FunctionRow, Program

_REGISTER = ArgKind.REGISTER
Place = Span | str | None
"""A source location: a Span, or a text."""


@dataclass(slots=True)
class _Function:
    """A function under construction. `places` maps its instructions to their source locations."""

    kind: FuncKind
    name: str
    num_args: int = UNDEFINED_ARGS
    param_names: tuple[str, ...] = ()
    register_file_size: int = 0
    body: list[Instruction] = field(default_factory=list)
    places: dict[int, Span] = field(default_factory=dict)


class ProgramBuilder(ABC):
    """Collects functions and constants. `program` verifies them and renumbers the registers without gaps."""

    isa: ClassVar[InstructionSet]

    def __init__(self) -> None:
        self._functions: list[_Function] = []
        self._numbers: dict[str, int] = {}
        self._constants: list[Constant] = []
        self._pool: dict[Hashable, list[int]] = {}
        self._open: list[_Function] = []
        self.memory_scopes: dict[int, str] = {}
        self.metadata: dict[str, str] = {}

    # Operands

    def r(self, number: int) -> int:
        """The operand for register `number`."""
        return encode_arg(ArgKind.REGISTER, number)

    def imm(self, value: int) -> int:
        """The operand for an integer immediate. Raises: BytecodeError V0203 outside +-(2**55 - 1)."""
        return encode_arg(ArgKind.IMMEDIATE, value)

    def c(self, number: int) -> int:
        """The operand for entry `number` of the constant pool."""
        return encode_arg(ArgKind.CONSTANT, number)

    def f(self, name: str) -> int:
        """The operand for a declared function. Raises: BytecodeError V0204 if it is not declared."""
        number = self._numbers.get(name)
        if number is None:
            raise BytecodeError(
                V0204, f"function {name!r} is not declared", help=did_you_mean(name, self._numbers)
            )
        return encode_arg(ArgKind.FUNCTION, number)

    def void_arg(self) -> int:
        """The operand that reads as None and ignores what is written to it."""
        return VOID

    def vm_state(self) -> int:
        """The operand that stands for the machine itself."""
        return VM_STATE

    def convert_constant(self, value: Any, placement: str = "") -> int:
        """Return an operand for a Python value. Small ints become immediates; other values are added to the
        constant pool, equal values once. `placement` says on which device a tensor is (see `placement_text`).

        Raises: UsageError V0203 for a value that cannot be a constant.
        """
        if isinstance(value, int) and -MAX_VALUE <= value <= MAX_VALUE:
            return self.imm(int(value))
        if type(value) is tuple:
            value = Shape(value)
        alike = self._pool.setdefault((constant_key(value), placement), [])
        for number in alike:
            if is_same_constant(self._constants[number], value):
                return self.c(number)
        alike.append(len(self._constants))
        if placement:
            self.memory_scopes[len(self._constants)] = placement
        self._constants.append(value)
        return self.c(alike[-1])

    # Functions

    def declare_function(self, name: str, kind: FuncKind = FuncKind.PACKED) -> None:
        """Add a function to the function table. Raises: BytecodeError V0202 if it is there with another
        kind.
        """
        number = self._numbers.get(name)
        if number is None:
            self._numbers[name] = len(self._functions)
            self._functions.append(_Function(FuncKind(kind), name))
        elif self._functions[number].kind != kind:
            raise BytecodeError(
                V0202,
                f"function {name!r} is declared as {self._functions[number].kind.name} and as "
                f"{FuncKind(kind).name}",
            )

    def _define(
        self, name: str, kind: FuncKind, num_inputs: int, param_names: Sequence[str] | None
    ) -> _Function:
        self.declare_function(name, kind)
        function = self._functions[self._numbers[name]]
        if function.num_args != UNDEFINED_ARGS:
            raise BytecodeError(V0202, f"function {name!r} is defined twice")
        if param_names is not None and len(param_names) != num_inputs:
            raise BytecodeError(
                V0109, f"function {name!r} has {num_inputs} inputs, got {len(param_names)} names"
            )
        function.num_args = num_inputs
        function.param_names = tuple(param_names or ())
        return function

    @contextmanager
    def function(
        self, func_name: str, num_inputs: int = 0, param_names: Sequence[str] | None = None
    ) -> Iterator[Self]:
        """Define a function: `emit_*` calls in the `with` block are its body.

        Raises: BytecodeError V0202 for a name that is taken, V0109 for the wrong number of parameter names.
        """
        self._open.append(self._define(func_name, FuncKind.VM, num_inputs, param_names))
        try:
            yield self
        finally:
            self._open.pop()

    def define_vmtir_function(
        self, name: str, num_inputs: int, register_file_size: int, param_names: Sequence[str] | None = None
    ) -> None:
        """Add a compiled function to the function table. Its code is found in the imported modules as
        `__vmtir__<name>`."""
        function = self._define(name, FuncKind.VMTIR, num_inputs, param_names)
        function.register_file_size = register_file_size

    # Instructions

    def _emit(self, instruction: Instruction, place: Place) -> None:
        if not self._open:
            raise UsageError(V0201, "emit should happen in a function scope")
        function = self._open[-1]
        span = TextSpan(place) if isinstance(place, str) else kept_span(place)
        if span is not None:
            function.places[len(function.body)] = span
        function.body.append(instruction)

    @abstractmethod
    def emit_call(
        self, name: str, args: Sequence[Any] = (), dst: int | None = None, *, place: Place = None
    ) -> None:
        """Emit `dst := name(args...)`. `name` is a function of the program, a builtin or a kernel."""

    def emit_device_copy(
        self, args: Sequence[int], ends: tuple[int, int], dst: int | None, *, place: Place = None
    ) -> None:
        """Emit a call of the builtin `to_device`; `ends` are the devices copied from and to, by number."""
        self.emit_call("vm.builtin.to_device", args, dst, place=place)

    @abstractmethod
    def emit_ret(self, result: int, *, place: Place = None) -> None:
        """Emit a return of the operand `result`."""

    @abstractmethod
    def emit_goto(self, pc_offset: int, *, place: Place = None) -> int:
        """Emit a jump by `pc_offset` instructions. Return the instruction's position in the function, for
        `aim_here`."""

    @abstractmethod
    def emit_if(self, cond: int, false_offset: int, *, place: Place = None) -> int:
        """Emit a branch: continue if `cond` is true, else jump by `false_offset`. Return the instruction's
        position in the function, for `aim_here`."""

    def _argument(self, arg: Any) -> int:
        if isinstance(arg, (tuple, Tensor, DataType)):
            return self.convert_constant(arg)
        if isinstance(arg, int) and not isinstance(arg, bool):
            return arg
        raise UsageError(
            V0203, f"expected an encoded operand, got {arg!r}", help="use imm() or convert_constant()"
        )

    def aim_here(self, position: int) -> None:
        """Set the target of an emitted Goto, or the false target of an If, to the next instruction."""
        body = self._open[-1].body
        old = body[position]
        body[position] = replace(old, values=(*old.values[:-1], len(body) - position))

    # The result

    def program(self) -> Program:
        """Return the verified program. The builder stays usable, and this method may be called again.

        Raises: BytecodeError if a register is read before an earlier instruction in the text writes it, for
        an index out of range, an empty body, a jump by 0, a false offset below 2, or a compiled function
        without a register for its result.
        """
        rows: list[FunctionRow] = []
        instructions: list[Instruction] = []
        line_table: dict[int, Span] = {}
        for function in self._functions:
            start = len(instructions)
            body: Sequence[Instruction] = ()
            size = function.register_file_size
            if function.kind is FuncKind.VM and function.num_args != UNDEFINED_ARGS:
                self._check(function)
                body, size = _renumber(function, self.isa)
            elif function.kind is FuncKind.VMTIR and function.num_args >= size:
                raise BytecodeError(
                    V0109,
                    f"function {function.name!r} is compiled and needs {function.num_args + 1} registers at "
                    f"least, got {size}",
                )
            instructions += body
            line_table |= {start + index: place for index, place in function.places.items()}
            has_code = bool(body)
            rows.append(
                FunctionRow(
                    function.kind,
                    function.name,
                    function.num_args,
                    start if has_code else 0,
                    len(instructions) if has_code else 0,
                    size,
                    function.param_names,
                )
            )
        offsets, words = assemble(instructions)
        return Program(
            self.isa,
            tuple(rows),
            tuple(self._constants),
            offsets,
            words,
            dict(self.memory_scopes),
            line_table,
            dict(self.metadata),
        )

    def _check(self, function: _Function) -> None:
        if not function.body:
            raise BytecodeError(V0205, f"function {function.name!r} is empty: EndFunction not called")
        written = {*range(function.num_args), *self.isa.special}
        for instruction in function.body:
            for register in registers_read(instruction):
                self._check_read(function, register, written)
            for kind, value in arguments(instruction):
                self._check_argument(kind, value)
            for place in instruction.spec.places.offsets:
                _check_offset(function, instruction.spec.fields[place], instruction.values[place])
            written.update(registers_written(instruction))

    def _check_read(self, function: _Function, number: int, written: set[int]) -> None:
        if number not in written:
            raise BytecodeError(
                V0107,
                f"register {number} of function {function.name!r} is read, and nothing before writes it",
            )

    def _check_argument(self, kind: ArgKind, value: int) -> None:
        if kind is _REGISTER:
            return
        if kind is ArgKind.CONSTANT and not 0 <= value < len(self._constants):
            raise BytecodeError(
                V0104, f"constant {value} is out of range: the pool has {len(self._constants)}"
            )
        if kind is ArgKind.FUNCTION and not 0 <= value < len(self._functions):
            raise BytecodeError(
                V0105, f"function {value} is out of range: the table has {len(self._functions)}"
            )


def _check_offset(function: _Function, operand: Operand, value: int) -> None:
    name = operand.name.replace("_", "-")
    if value == 0:
        raise BytecodeError(V0106, f"function {function.name!r}: a {name} must not be 0")
    if operand.least is not None and value < operand.least:
        raise BytecodeError(
            V0106, f"function {function.name!r}: a {name} must be more than {operand.least - 1}, got {value}"
        )


def _renumber(function: _Function, isa: InstructionSet) -> tuple[list[Instruction], int]:
    """Renumber registers after the inputs in the order of their first write, without gaps.

    Programs that differ only in the numbers of temporaries become equal.
    """
    fresh = {number: number for number in (*range(function.num_args), *isa.special)}
    size = function.num_args
    for instruction in function.body:
        for register in registers_written(instruction):
            if register not in fresh:
                fresh[register] = size
                size += 1
    return [with_registers(instruction, fresh.__getitem__) for instruction in function.body], size
