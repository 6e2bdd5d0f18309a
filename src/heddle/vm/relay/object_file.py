"""The object file of a Relay program: what `Executable.save` gives beside the kernels.

    header      u64 magic, text version; the devices: u64 count, each i32 type, i32 id, text memory scope;
                i32 number of the host
    globals     texts: names of functions, by number
    constants   u64 count, each i32 kind and its value; numbers: the device of each
    primitives  texts: names of packed functions, by number; what is known of them: u64 count, each u64
                number, u64 count, each text key, text value
    code        u64 count of functions, each texts (name, registers, instructions), texts (parameters),
                numbers (their devices), and for each instruction numbers (hash, opcode, operands)

Numbers are vectors: a u64 count, then i64 values. The order and the form are TVM's; kinds of constants
above 1 (shape, text, integer, float, dtype) and opcodes above 20 are our own. Operands are in the order of
the instruction set's table, but functions count apart from packed functions, and an `invoke_packed` has the
number of its arguments, that of its outputs, and then all of them, sizes before outputs (`sizes` is known of
the primitive). The line table and other metadata are not stored; the one-file format (`export_library`) has
them.

What is read is distrusted: `read_object` gives a program that still has to be verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heddle.runtime.device import CPU, DEVICE_TYPES, Device, cpu
from heddle.runtime.params import read_tensor, write_tensor
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor
from heddle.runtime.wire import Reader, Writer
from heddle.support.diagnostics import FormatError, UsageError
from heddle.vm.codes import V0303
from heddle.vm.constants import Constant, ConstantKind, kind_of, parse_integer, read_plain, write_plain
from heddle.vm.insight.kernel_cost import METADATA_PREFIX
from heddle.vm.isa import FuncKind, Instruction, Kind
from heddle.vm.placement import KERNEL_DEVICE_PREFIX
from heddle.vm.program import FunctionRow, Program
from heddle.vm.program_devices import device_entries, devices_listed, whole_places
from heddle.vm.relay.isa import INVOKE_PACKED, LOAD_CONST, RELAY

MAGIC = 0xD225DE2F4214151D
VERSION = "heddle 1"
_KINDS = (
    ConstantKind.TENSOR,
    ConstantKind.LATE,
    ConstantKind.SHAPE,
    ConstantKind.TEXT,
    ConstantKind.INT,
    ConstantKind.FLOAT,
    ConstantKind.DTYPE,
)
"""The kinds of constants by their numbers in the file."""
_SIZES = "sizes"
_KNOWN = {"cost": METADATA_PREFIX, "device": KERNEL_DEVICE_PREFIX}
"""What is known of primitives, and the prefixes of metadata that say it."""
_MASK = (1 << 64) - 1


class _Numbering:
    """Functions and packed functions, each counted from 0."""

    def __init__(self, program: Program) -> None:
        self.functions: list[int] = []
        self.packed: list[int] = []
        self._places: list[int] = []
        for number, row in enumerate(program.functions):
            kind = self.packed if row.kind is FuncKind.PACKED else self.functions
            self._places.append(len(kind))
            kind.append(number)
        self._is_packed = set(self.packed)

    def of(self, row: int) -> int:
        """The number of a row; of a packed function that is a value, one below 0."""
        return self._places[row]

    def as_value(self, row: int) -> int:
        return -1 - self._places[row] if row in self._is_packed else self._places[row]


# ---- writing


def write_object(program: Program) -> bytes:
    """The bytes of a verified program. Raises: UsageError V0303 for functions that have no bytecode."""
    numbering, writer = _Numbering(program), Writer()
    writer.u64(MAGIC)
    writer.text(VERSION)
    listed = listed_devices(program)
    writer.u64(len(listed))
    for each in listed:
        writer.i32(each.device_type)
        writer.i32(each.device_id)
        writer.text("")
    writer.i32(0)
    writer.texts([program.functions[row].name for row in numbering.functions])
    writer.u64(len(program.constants))
    for value in program.constants:
        _write_constant(writer, value)
    writer.numbers(constant_devices(program))
    _write_primitives(writer, program, numbering)
    writer.u64(len(numbering.functions))
    for row in numbering.functions:
        _write_function(writer, program, program.functions[row], numbering)
    return writer.bytes()


def listed_devices(program: Program) -> list[Device]:
    """The devices that a program lists, else as many processors as its constants lie on."""
    found = devices_listed(program.metadata)
    return found or [cpu(number) for number in range(max(constant_devices(program), default=0) + 1)]


def constant_devices(program: Program) -> list[int]:
    """The device of each constant: the first beside the host that it is loaded on."""
    devices = dict.fromkeys(range(len(program.constants)), 0)
    for step in program.instructions():
        if step.spec is LOAD_CONST:
            devices[step.values[0]] = devices[step.values[0]] or step.values[1]
    return list(devices.values())


def _write_constant(writer: Writer, value: Constant) -> None:
    writer.i32(_KINDS.index(kind_of(value)))
    if isinstance(value, Tensor):
        write_tensor(writer, value)
    elif isinstance(value, Shape):
        writer.numbers(value)
    else:
        write_plain(writer, value)


def _write_primitives(writer: Writer, program: Program, numbering: _Numbering) -> None:
    names = [program.functions[row].name for row in numbering.packed]
    known: dict[int, dict[str, str]] = {}
    for step in program.instructions():
        if step.spec is INVOKE_PACKED and step.value("sizes"):
            number, count = numbering.of(step.value("packed")), str(len(step.value("sizes")))
            if known.setdefault(number, {}).setdefault(_SIZES, count) != count:
                raise UsageError(V0303, f"{names[number]!r} is called with different numbers of sizes")
    for number, name in enumerate(names):
        for key, prefix in _KNOWN.items():
            if prefix + name in program.metadata:
                known.setdefault(number, {})[key] = program.metadata[prefix + name]
    writer.texts(names)
    writer.u64(len(known))
    for number, entries in sorted(known.items()):
        writer.u64(number)
        writer.u64(len(entries))
        for key, text in entries.items():
            writer.text(key)
            writer.text(text)


def _write_function(writer: Writer, program: Program, row: FunctionRow, numbering: _Numbering) -> None:
    if not row.has_bytecode:
        raise UsageError(V0303, f"function {row.name!r} has no bytecode to be stored")
    names = row.param_names or tuple(f"p{number}" for number in range(row.num_args))
    writer.texts([row.name, str(row.register_file_size), str(row.end - row.start)])
    writer.texts(names)
    writer.numbers(whole_places(program.metadata, row.name, row.num_args))
    for step in program.instructions(row):
        fields = stored_fields(step, numbering)
        writer.numbers([_signed(instruction_hash(fields)), *fields])


def stored_fields(step: Instruction, numbering: _Numbering) -> list[int]:
    """Opcode and operands as a file has them."""
    fields = [step.spec.opcode]
    if step.spec is INVOKE_PACKED:
        packed, inputs, outputs, sizes = step.values
        args = (*inputs, *sizes, *outputs)
        return [*fields, numbering.of(packed), len(args), len(outputs), *args]
    values = dict(zip((operand.name for operand in step.spec.fields), step.values, strict=True))
    for operand in step.spec.operands:
        if operand.kind is Kind.COUNT:
            fields.append(len(values[operand.counts]))
        elif operand.kind is Kind.CALLEE:
            fields.append(numbering.of(values[operand.name]))
        elif operand.kind is Kind.FUNCTION:
            fields.append(numbering.as_value(values[operand.name]))
        elif operand.is_list or operand.kind is Kind.DTYPE:
            fields += values[operand.name]
        else:
            fields.append(values[operand.name])
    return fields


def numbered_fields(program: Program) -> list[list[int]]:
    """The stored form of each instruction."""
    numbering = _Numbering(program)
    return [stored_fields(step, numbering) for step in program.instructions()]


def instruction_hash(fields: Sequence[int]) -> int:
    """A number of 64 bits that depends on the opcode and all operands."""
    key = fields[0] & _MASK
    for value in fields[1:]:
        key ^= (value + 0x9E3779B9 + (key << 6) + (key >> 2)) & _MASK
    return key


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


# ---- reading


def _invalid(reader: Reader, section: str, message: str) -> FormatError:
    return reader.fail(f"Invalid VM file format in the {section} section: {message}")


def read_object(data: bytes | bytearray | memoryview) -> Program:
    """The program of a file's bytes, not verified. Raises: FormatError F0106."""
    reader = Reader(memoryview(data), "header")
    listed = _read_header(reader)
    reader.enter("globals")
    names = reader.texts()
    reader.enter("constants")
    constants = reader.items(4, lambda: _read_constant(reader))
    devices = reader.numbers()
    if len(devices) != len(constants) or not all(0 <= device < len(listed) for device in devices):
        raise _invalid(reader, "constants", "each has one of the devices")
    reader.enter("primitives")
    primitives = reader.texts()
    known = _read_known(reader, len(primitives))
    reader.enter("code")
    code = _Code(reader, len(names), known, len(listed))
    rows = reader.items(32, code.function)
    if [row.name for row in rows] != names:
        raise _invalid(reader, "code", "the functions are not those of the globals section")
    reader.done()
    packed = (FunctionRow(FuncKind.PACKED, name, -2) for name in primitives)
    metadata = {
        prefix + primitives[number]: entries[key]
        for number, entries in known.items()
        for key, prefix in _KNOWN.items()
        if key in entries
    } | device_entries(listed, code.param_devices)
    return Program(
        RELAY, (*rows, *packed), tuple(constants), tuple(code.offsets), tuple(code.words), metadata=metadata
    )


def _read_header(reader: Reader) -> list[Device]:
    if reader.u64() != MAGIC:
        raise _invalid(reader, "header", "it begins with another number")
    version = reader.text()
    if version != VERSION:
        raise _invalid(reader, "header", f"expected version {VERSION!r}, got {version[:40]!r}")
    devices = reader.items(16, lambda: (reader.i32(), reader.i32(), reader.text()))
    known = all(
        kind in DEVICE_TYPES.values() and number >= 0 and not scope for kind, number, scope in devices
    )
    if not devices or not known or devices[0][0] != CPU or reader.i32() != 0:
        raise _invalid(reader, "header", "expected devices, a processor first")
    return [Device(kind, number) for kind, number, _ in devices]


def _read_constant(reader: Reader) -> Constant:
    number = reader.i32()
    if not 0 <= number < len(_KINDS):
        raise _invalid(reader, "constants", f"unknown kind {number}")
    kind = _KINDS[number]
    if kind is ConstantKind.TENSOR:
        return read_tensor(reader)
    return Shape(reader.numbers()) if kind is ConstantKind.SHAPE else read_plain(reader, kind)


def _read_known(reader: Reader, num_primitives: int) -> dict[int, dict[str, str]]:
    def entry() -> tuple[int, dict[str, str]]:
        number = reader.u64()
        return number, dict(reader.items(16, lambda: (reader.text(), reader.text())))

    known = dict(reader.items(16, entry))
    if any(number >= num_primitives for number in known):
        raise _invalid(reader, "primitives", "there are fewer of them")
    return known


class _Code:
    """The section of functions: words and where instructions start in them."""

    def __init__(
        self, reader: Reader, num_functions: int, known: Mapping[int, Mapping[str, str]], num_devices: int
    ) -> None:
        self.words: list[int] = []
        self.offsets: list[int] = []
        self.param_devices: dict[str, list[int]] = {}
        self._reader, self._num_functions, self._num_devices = reader, num_functions, num_devices
        self._sizes = {
            number: parse_integer(reader, entries.get(_SIZES, "0")) for number, entries in known.items()
        }

    def _fail(self, message: str) -> FormatError:
        return _invalid(self._reader, "code", message)

    def function(self) -> FunctionRow:
        reader = self._reader
        head = reader.texts()
        if len(head) != 3:
            raise self._fail(f"expected a name and two numbers, got {len(head)} texts")
        name, size, count = head[0], parse_integer(reader, head[1]), parse_integer(reader, head[2])
        params, devices = reader.texts(), reader.numbers()
        if len(devices) != len(params) or not all(0 <= number < self._num_devices for number in devices):
            raise self._fail("each parameter has one of the devices")
        self.param_devices[name] = devices
        start = len(self.offsets)
        for _ in range(max(count, 0)):
            self._instruction()
        return FunctionRow(FuncKind.VM, name, len(params), start, len(self.offsets), size, tuple(params))

    def _instruction(self) -> None:
        stored = self._reader.numbers()
        if len(stored) < 2 or stored[0] != _signed(instruction_hash(stored[1:])):
            raise self._fail("an instruction is damaged: its hash differs")
        self.offsets.append(len(self.words))
        self.words += self._own_words(stored[1:])

    def _own_words(self, fields: list[int]) -> list[int]:
        """The words of a machine's program."""
        spec = RELAY.by_opcode.get(fields[0])
        if spec is None:
            return fields
        if spec is INVOKE_PACKED:
            return self._packed_words(fields)
        for place, operand in enumerate(spec.operands, 1):
            if place >= len(fields):
                break
            if operand.kind is Kind.CALLEE and FuncKind.PACKED in operand.rows:
                fields[place] = self._row_of_packed(fields[place])
            elif operand.kind is Kind.FUNCTION and fields[place] < 0:
                fields[place] = self._row_of_packed(-1 - fields[place])
            if operand.is_list or operand.kind is Kind.DTYPE:
                break  # what names functions comes first
        return fields

    def _row_of_packed(self, number: int) -> int:
        return number + self._num_functions if number >= 0 else number

    def _packed_words(self, fields: list[int]) -> list[int]:
        if len(fields) < 4 or fields[2] != len(fields) - 4:
            raise self._fail("a call of a packed function lacks arguments")
        opcode, packed, arity, num_outputs, *args = fields
        num_sizes = self._sizes.get(packed, 0)
        first = arity - num_outputs
        if num_outputs < 0 or not 0 <= num_sizes <= first:
            raise self._fail(f"a call with {arity} arguments cannot have {num_outputs} outputs")
        inputs, sizes, outputs = args[: first - num_sizes], args[first - num_sizes : first], args[first:]
        counts = (len(inputs), len(outputs), len(sizes))
        return [opcode, self._row_of_packed(packed), *counts, *inputs, *outputs, *sizes]
