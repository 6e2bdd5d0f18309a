"""Building programs of the Relay machine: of calls of builtins, which become instructions, or one by one.

    emit_call("vm.builtin.make_data", [imm(7), r(0)], dst=1)    alloc_data $1 tag(7) [$0]
    emit_call("vm.builtin.has_tag", [r(1), imm(7)], dst=2)      get_tag $2 $1
    emit_call("vm.builtin.read_if_cond", [r(2)], dst=3)
    emit_if(3, ...)                                             load_consti $3 7; if $2 $3 1 ...

Instructions read registers alone, so immediates and constants that are passed on are loaded: once in a
function, where it begins. The table below says what becomes of which builtin; a kernel is an `invoke_packed`,
another function without a result too, and one with a result is a `call_packed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Self

from heddle.runtime.dtype import DataType, packed_dtype
from heddle.runtime.module import Module
from heddle.runtime.shape import Shape
from heddle.runtime.storage import ALIGN_BYTES
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.frozen import frozen
from heddle.vm.builder import Place, ProgramBuilder
from heddle.vm.builtins.memory import PLAIN_SCOPES
from heddle.vm.codes import V0201, V0203
from heddle.vm.encode import assemble, decode_arg
from heddle.vm.isa import VM_STATE, VOID, ArgKind, FuncKind, Instruction, Kind
from heddle.vm.placement import placement_of
from heddle.vm.program import Program
from heddle.vm.relay import isa as relay_isa
from heddle.vm.relay.executable import Executable

_PREFIX = "vm.builtin."
_FIRST_OWN = 1 << 40
"""Registers of the builder's own have numbers from here on, until all are numbered anew."""


@frozen
class KernelForm:
    """The arguments of a kernel: tensors, of which the last `num_outputs` are written, and then integers."""

    num_tensors: int
    num_outputs: int


@dataclass(slots=True)
class _Open:
    """What is known of the function that is being built.

    `loads` are the instructions that fill `loaded`, registers by what they hold. `tests` are registers that
    are not written: what is asked of them is whether another register holds an integer.
    """

    loads: list[Instruction] = field(default_factory=list)
    loaded: dict[tuple[ArgKind, int], int] = field(default_factory=dict)
    tests: dict[int, tuple[int, int]] = field(default_factory=dict)


class RelayBuilder(ProgramBuilder):
    """Collects functions and constants; `get` checks them and renumbers registers densely.

    `kernels` are the forms of the kernels that are called, by name.
    """

    isa = relay_isa.RELAY

    def __init__(self, kernels: Mapping[str, KernelForm] | None = None) -> None:
        super().__init__()
        self._kernels = dict(kernels or {})
        self._devices: dict[int, int] = {}
        self._own = count(_FIRST_OWN)
        self._now = _Open()

    # Functions and operands

    @contextmanager
    def function(
        self, func_name: str, num_inputs: int = 0, param_names: Sequence[str] | None = None
    ) -> Iterator[Self]:
        """Define a function; `emit_*` inside the block makes its body. Raises: as in the base class."""
        around, self._now = self._now, _Open()
        try:
            with super().function(func_name, num_inputs, param_names):
                yield self
                made, loads = self._open[-1], self._now.loads
                made.body[:0] = loads
                made.places = {at + len(loads): place for at, place in made.places.items()}
        finally:
            self._now = around

    def convert_constant(self, value: Any, placement: str = "") -> int:
        """As in the base class. Where a tensor lies is said by the instruction that loads it."""
        word = super().convert_constant(value, placement)
        kind, number = decode_arg(word)
        if kind is ArgKind.CONSTANT and placement:
            found = placement_of(self.memory_scopes.pop(number, "")) or ("", 0)
            self._devices.setdefault(number, found[1])
        return word

    def _fresh(self) -> int:
        return next(self._own)

    def _register(self, word: int) -> int:
        """The register that holds an operand."""
        kind, value = decode_arg(word)
        if kind is ArgKind.REGISTER and value != VOID:
            return self._truth(*self._now.tests[value]) if value in self._now.tests else value
        known = self._now.loaded.get((kind, value))
        if known is None:
            known = self._now.loaded[kind, value] = self._fresh()
            self._now.loads.append(self._load(kind, value, known))
        return known

    def _registers(self, words: Sequence[int]) -> tuple[int, ...]:
        return tuple(map(self._register, words))

    def _given(self, words: Sequence[int]) -> tuple[int, ...]:
        """As `_registers`, for what takes the machine and nothing as well."""
        return tuple(word if word in (VOID, VM_STATE) else self._register(word) for word in words)

    def _load(self, kind: ArgKind, value: int, dst: int) -> Instruction:
        if kind is ArgKind.REGISTER:
            return Instruction(relay_isa.KILL_REGISTER, (dst,))
        if kind is ArgKind.IMMEDIATE:
            return Instruction(relay_isa.LOAD_CONSTI, (value, dst))
        if kind is ArgKind.FUNCTION:
            return Instruction(relay_isa.ALLOC_CLOSURE, (value, dst, ()))
        return Instruction(relay_isa.LOAD_CONST, (value, self._devices.get(value, 0), dst))

    def _truth(self, register: int, value: int) -> int:
        """A register with 1 where another holds a value, else with 0."""
        dst, target = self._fresh(), self._register(self.imm(value))
        self._add(relay_isa.IF, register, target, 1, 3)
        self._add(relay_isa.LOAD_CONSTI, 1, dst)
        self._add(relay_isa.GOTO, 2)
        self._add(relay_isa.LOAD_CONSTI, 0, dst)
        return dst

    def _known(self, word: int) -> Any:
        """What an operand is, where it is no register; else None."""
        kind, value = decode_arg(word)
        if kind is ArgKind.IMMEDIATE:
            return value
        return self._constants[value] if kind is ArgKind.CONSTANT else None

    def _dtype(self, word: int) -> tuple[int, int, int]:
        dtype = self._known(word)
        if not isinstance(dtype, DataType):
            raise UsageError(V0203, f"expected a dtype as operand, got {dtype!r}")
        packed = packed_dtype(dtype)
        return packed & 0xFF, packed >> 8 & 0xFF, packed >> 16

    # Instructions

    _place: Place = None

    def _add(self, spec: Any, *values: Any) -> None:
        self._emit(Instruction(spec, values), self._place)

    def emit(self, mnemonic: str, *values: Any, place: Place = None) -> int:
        """One instruction by its name; a function may be named by its own. Gives its position in the
        function, counted without the loads of constants.

        Raises: UsageError V0203 for an unknown name.
        """
        specs = {spec.mnemonic: spec for spec in self.isa.instructions}
        if mnemonic not in specs:
            raise UsageError(
                V0203, f"there is no instruction {mnemonic!r}", help=did_you_mean(mnemonic, specs)
            )
        spec = specs[mnemonic]
        numbers = [
            self._row(value) if operand.kind in (Kind.CALLEE, Kind.FUNCTION) else value
            for operand, value in zip(spec.fields, values, strict=False)
        ]
        numbers = [tuple(value) if isinstance(value, list) else value for value in numbers]
        self._emit(Instruction(spec, (*numbers, *values[len(numbers) :])), place)
        return len(self._open[-1].body) - 1

    def _row(self, name: str | int) -> int:
        if isinstance(name, int):
            return name
        if name not in self._numbers:
            self.declare_function(name)
        return self._numbers[name]

    def emit_call(
        self, name: str, args: Sequence[Any] = (), dst: int | None = None, *, place: Place = None
    ) -> None:
        """`dst := name(args...)`. An unknown name becomes a packed function. Tuples, shapes, tensors and
        dtypes among the arguments become constants; anything else must be an encoded operand."""
        if not self._open:
            raise UsageError(V0201, "emit should happen in a function scope")
        self._place = place
        words = [self._argument(arg) for arg in args]
        selected = _SELECTED.get(name)
        if selected is None or selected(self, words, self._fresh() if dst in (None, VOID) else dst):
            self._call(name, words, None if dst == VOID else dst)

    def _call(self, name: str, words: Sequence[int], dst: int | None) -> None:
        row = self._row(name)
        if name in self._kernels:
            self._kernel(name, words)
        elif self._functions[row].kind is not FuncKind.PACKED:
            self._add(relay_isa.INVOKE, row, self._fresh() if dst is None else dst, self._registers(words))
        elif dst is None:
            self._add(relay_isa.INVOKE_PACKED, row, self._given(words), (), ())
        else:
            self._add(relay_isa.CALL_PACKED, row, dst, self._given(words))

    def _kernel(self, name: str, words: Sequence[int], shape: int | None = None) -> None:
        """`shape` holds the integers, or they come one by one behind the tensors."""
        form = self._kernels[name]
        tensors = self._registers(words[: form.num_tensors])
        scalars = words[form.num_tensors :]
        sizes = () if shape is None else (self._register(shape),)
        if scalars:
            sizes = (self._items(scalars), *sizes)
        first = len(tensors) - form.num_outputs
        self._add(relay_isa.INVOKE_PACKED, self._row(name), tensors[:first], tensors[first:], sizes)

    def _items(self, scalars: Sequence[int]) -> int:
        """A register with a shape, where all is known, or a tuple."""
        known = [self._known(word) for word in scalars]
        if all(type(value) is int for value in known):
            return self._register(self.convert_constant(Shape(known)))
        dst = self._fresh()
        self._add(relay_isa.ALLOC_ADT, 0, dst, self._registers(scalars))
        return dst

    def emit_device_copy(
        self, args: Sequence[int], ends: tuple[int, int], dst: int | None, *, place: Place = None
    ) -> None:
        """One instruction; it is as in the base class for a memory scope that machines have not."""
        if dst is None or self._known(args[3]) not in PLAIN_SCOPES:
            super().emit_device_copy(args, ends, dst, place=place)
            return
        self._place = place
        self._add(relay_isa.DEVICE_COPY, self._register(args[0]), *ends, dst)

    def emit_ret(self, result: int, *, place: Place = None) -> None:
        """Return what the operand `result` holds."""
        self._place = place
        self._add(relay_isa.RET, self._register(result))

    def emit_goto(self, pc_offset: int, *, place: Place = None) -> int:
        """Gives the instruction's position in the function, for `aim_here`."""
        return self.emit("goto", pc_offset, place=place)

    def emit_if(self, cond: int, false_offset: int, *, place: Place = None) -> int:
        """Gives the instruction's position in the function, for `aim_here`."""
        register, value = self._now.tests.get(cond, (cond, 1))
        target = self._register(self.imm(value))
        return self.emit("if", register, target, 1, false_offset, place=place)

    def program(self) -> Program:
        """The program, with the constants that it loads. Raises: as in the base class."""
        return _without_unused_constants(super().program())

    def get(self, lib: Module | None = None) -> Executable:
        """The executable, with the module that has its kernels. Raises: as `program`."""
        return Executable(self.program(), [] if lib is None else [lib])

    # What becomes of builtins: True where it is a call after all

    def _copy(self, words: Sequence[int], dst: int) -> None:
        kind, value = decode_arg(words[0])
        if value == VOID:
            self._add(relay_isa.KILL_REGISTER, dst)
        elif kind is ArgKind.REGISTER:
            self._add(relay_isa.MOVE, self._register(words[0]), dst)
        else:
            self._emit(self._load(kind, value, dst), self._place)

    def _kill(self, words: Sequence[int], dst: int) -> None:
        self._add(relay_isa.KILL_REGISTER, self._now.tests.get(dst, (dst, 0))[0])

    def _condition(self, words: Sequence[int], dst: int) -> None:
        kind, value = decode_arg(words[0])
        is_test = kind is ArgKind.REGISTER and value in self._now.tests
        self._now.tests[dst] = self._now.tests[value] if is_test else (self._register(words[0]), 1)

    def _has_tag(self, words: Sequence[int], dst: int) -> None:
        tag = self._fresh()
        self._add(relay_isa.GET_TAG, self._register(words[0]), tag)
        self._now.tests[dst] = (tag, self._known(words[1]))

    def _get_field(self, words: Sequence[int], dst: int) -> None:
        self._add(relay_isa.GET_FIELD, self._register(words[0]), self._known(words[1]), dst)

    def _make_tuple(self, words: Sequence[int], dst: int) -> None:
        self._add(relay_isa.ALLOC_ADT, 0, dst, self._registers(words))

    def _make_data(self, words: Sequence[int], dst: int) -> bool:
        tag = self._known(words[0])
        if tag == 0:  # that is a tuple's
            return True
        self._add(relay_isa.ALLOC_ADT, tag, dst, self._registers(words[1:]))
        return False

    def _fatal(self, words: Sequence[int], dst: int) -> None:
        self._add(relay_isa.FATAL)
        self._add(relay_isa.KILL_REGISTER, dst)  # never reached; what follows reads the result

    def _alloc_shape_storage(self, words: Sequence[int], dst: int) -> None:
        _, size, index, dtype, *_ = words
        dims, is_known, count = self._known(size), False, size
        if isinstance(dims, Shape):
            is_known, count = bool(dims), self.imm(1)
        register = VOID if is_known else self._register(count)
        known = (ALIGN_BYTES, self._dtype(dtype), self._known(index), dst)
        self._add(relay_isa.ALLOC_STORAGE, register, *known, tuple(dims) if is_known else ())

    def _alloc_tensor(self, words: Sequence[int], dst: int) -> None:
        storage, place, size, dtype, *_ = words
        dims, at = self._known(size), (self._register(storage), self._register(place))
        if isinstance(dims, Shape):
            self._add(relay_isa.ALLOC_TENSOR, *at, self._dtype(dtype), dst, tuple(dims))
        else:
            self._add(relay_isa.ALLOC_TENSOR_REG, *at, self._register(size), self._dtype(dtype), dst)

    def _shape_of(self, words: Sequence[int], dst: int) -> None:
        self._add(relay_isa.SHAPE_OF, self._register(words[0]), dst)

    def _reshape(self, words: Sequence[int], dst: int) -> None:
        self._add(relay_isa.RESHAPE_TENSOR, *self._registers(words), dst)

    def _make_closure(self, words: Sequence[int], dst: int) -> bool:
        kind, value = decode_arg(words[0])
        if kind is not ArgKind.FUNCTION:
            return True
        self._add(relay_isa.ALLOC_CLOSURE, value, dst, self._registers(words[1:]))
        return False

    def _invoke_closure(self, words: Sequence[int], dst: int) -> bool:
        if words[0] != VM_STATE:
            return True
        self._add(relay_isa.INVOKE_CLOSURE, self._register(words[1]), dst, self._registers(words[2:]))
        return False

    def _call_with_sizes(self, words: Sequence[int], dst: int) -> bool:
        kind, value = decode_arg(words[0])
        name = self._functions[value].name if kind is ArgKind.FUNCTION else ""
        if name not in self._kernels:
            return True
        self._kernel(name, words[1:-1], words[-1])
        return False


def _without_unused_constants(program: Program) -> Program:
    """Sizes and dtypes lie in instructions here, so most of what was a constant is none."""
    steps = program.instructions()
    used = sorted({step.values[0] for step in steps if step.spec is relay_isa.LOAD_CONST})
    number = {old: new for new, old in enumerate(used)}

    def renumbered(step: Instruction) -> Instruction:
        if step.spec is not relay_isa.LOAD_CONST:
            return step
        constant, *rest = step.values
        return Instruction(step.spec, (number[constant], *rest))

    offsets, words = assemble(list(map(renumbered, steps)))
    kept = tuple(program.constants[old] for old in used)
    return replace(program, constants=kept, offsets=offsets, words=words)


_SELECTED: dict[str, Callable[[RelayBuilder, Sequence[int], int], bool | None]] = {
    _PREFIX + name: selected
    for name, selected in {
        "alloc_storage": RelayBuilder._alloc_shape_storage,
        "alloc_tensor": RelayBuilder._alloc_tensor,
        "call_tir_dyn": RelayBuilder._call_with_sizes,
        "copy": RelayBuilder._copy,
        "fatal": RelayBuilder._fatal,
        "get_field": RelayBuilder._get_field,
        "has_tag": RelayBuilder._has_tag,
        "invoke_closure": RelayBuilder._invoke_closure,
        "make_closure": RelayBuilder._make_closure,
        "make_data": RelayBuilder._make_data,
        "make_tuple": RelayBuilder._make_tuple,
        "null_value": RelayBuilder._kill,
        "read_if_cond": RelayBuilder._condition,
        "reshape": RelayBuilder._reshape,
        "shape_of": RelayBuilder._shape_of,
        "tuple_getitem": RelayBuilder._get_field,
    }.items()
}
