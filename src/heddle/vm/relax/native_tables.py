"""A compiled program as static data of a library: what C programs run it from (`heddle.h`).

The tables are those that `native.py` builds in memory: values of constants and functions, and the entries of
the functions. Tensors lie in the library's artefact; strings and dtypes, which only the host language
needs, are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from heddle.runtime.dtype import DataType, packed_dtype
from heddle.runtime.kernel_module import PROGRAM_PREFIX
from heddle.runtime.native.abi import (
    HEAD_BYTES,
    IMMORTAL,
    Closure,
    DLTensor,
    Entry,
    Head,
    ProgramTables,
    Value,
)
from heddle.runtime.native.ir_types import ir_struct
from heddle.runtime.native.library import kernel_symbol
from heddle.runtime.native.objects import BOOL, CLOSURE, FLOAT, INT, SHAPE, TENSOR, VALUE_BYTES
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor
from heddle.vm.constants import Constant, LateConstant, constant_section, not_loaded
from heddle.vm.isa import FuncKind
from heddle.vm.program import Program

_HEAD, _VALUE, _ENTRY = ir_struct(Head), ir_struct(Value), ir_struct(Entry)
_CLOSURE, _TENSOR = ir_struct(Closure), ir_struct(DLTensor)
_NO_VALUE = f"{_VALUE} zeroinitializer"


class _Text:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, name: str, ty: str, value: str) -> str:
        self.lines.append(f"@{name} = internal global {ty} {value}, align 16")
        return name


def program_tables(program: Program, prefix: str, offsets: Mapping[str, int]) -> str:
    """LLVM IR text that defines `heddle_program`. `prefix` names the program's sections in the artefact,
    whose places are `offsets`."""
    text = _Text()
    values = [_function_value(text, program, number) for number in reversed(range(len(program.functions)))]
    for number, constant in enumerate(program.constants):
        place = offsets.get(f"{prefix}{constant_section(number)}", 0)
        values.append(_constant_value(text, number, constant, place))
    types = ", ".join(value[: value.index("}") + 1] for value in values)
    text.add("values", f"{{ {types} }}", f"{{ {', '.join(values)} }}" if values else "zeroinitializer")
    count = len(program.functions)
    base = f"ptr getelementptr (i8, ptr @values, i64 {VALUE_BYTES * count})"
    entries, names = _entries(text, program)
    text.add("entries", f"[{count} x {_ENTRY}]", f"[{', '.join(entries)}]")
    text.add("names", f"[{count} x ptr]", f"[{', '.join(names)}]")
    text.add("pools", "{ i64, ptr }", "{ i64 1, ptr @heddle_library_pool }")
    fields = f"i64 {count}, ptr @names, ptr @entries, {base}, ptr @pools"
    return "\n".join(
        [
            "@heddle_library_pool = external global i8",
            *text.lines,
            f"@heddle_program = global {ir_struct(ProgramTables)} {{ {fields} }}",
            "",
        ]
    )


def _entries(text: _Text, program: Program) -> tuple[list[str], list[str]]:
    entries, names = [], []
    for number, row in enumerate(program.functions):
        if row.kind is FuncKind.VMTIR:
            symbol = kernel_symbol(PROGRAM_PREFIX + row.name)
            text.lines.append(f'declare i32 @"{symbol}"(ptr, ptr, ptr)')
            entries.append(f'{_ENTRY} {{ ptr @"{symbol}", i64 {row.num_args} }}')
            data = row.name.encode() + b"\0"
            body = "".join(f"\\{byte:02X}" for byte in data)
            names.append(
                f"ptr @{text.add(f'name.{number}', f'[{len(data)} x i8]', f'c{chr(34)}{body}{chr(34)}')}"
            )
        else:
            entries.append(f"{_ENTRY} zeroinitializer")
            names.append("ptr null")
    return entries, names


def _head(kind: int) -> str:
    return f"{_HEAD} {{ i64 {IMMORTAL}, i32 {kind}, i32 0, ptr null, i64 0 }}"


def _object(kind: int, name: str) -> str:
    return (
        f"{{ i32, i32, ptr }} {{ i32 {kind}, i32 0, ptr getelementptr (i8, ptr @{name}, i64 {HEAD_BYTES}) }}"
    )


def _function_value(text: _Text, program: Program, number: int) -> str:
    if program.functions[number].kind is not FuncKind.VMTIR:
        return _NO_VALUE
    name = text.add(
        f"function.{number}",
        f"{{ {_HEAD}, {_CLOSURE} }}",
        f"{{ {_head(CLOSURE)}, {_CLOSURE} {{ i64 {number}, i64 0 }} }}",
    )
    return _object(CLOSURE, name)


def _constant_value(text: _Text, number: int, constant: Constant, place: int) -> str:
    if isinstance(constant, Tensor):
        return _object(TENSOR, _tensor(text, number, constant, place))
    if isinstance(constant, Shape):
        sizes = "".join(f", i64 {size}" for size in constant)
        ty = f"{{ {_HEAD}, i64{', i64' * len(constant)} }}"
        name = text.add(f"shape.{number}", ty, f"{{ {_head(SHAPE)}, i64 {len(constant)}{sizes} }}")
        return _object(SHAPE, name)
    if isinstance(constant, (str, DataType)):
        return _NO_VALUE
    if isinstance(constant, LateConstant):
        raise not_loaded(constant)
    kind = BOOL if isinstance(constant, bool) else FLOAT if isinstance(constant, float) else INT
    bits = struct.unpack("<q", struct.pack("<d", constant))[0] if kind == FLOAT else int(constant)
    return f"{_VALUE} {{ i32 {kind}, i32 0, i64 {bits} }}"


def _tensor(text: _Text, number: int, constant: Tensor, place: int) -> str:
    rank = len(constant.shape)
    sizes = ", ".join(f"i64 {size}" for size in constant.shape)
    shape = text.add(f"sizes.{number}", f"[{rank} x i64]", f"[{sizes}]" if rank else "zeroinitializer")
    data = f"ptr getelementptr (i8, ptr @heddle_artefact, i64 {place})"
    word = packed_dtype(constant.dtype)
    fields = f"{data}, i32 1, i32 0, i32 {rank}, i32 {word}, ptr @{shape}, ptr null, i64 0"
    ty = f"{{ {_HEAD}, {_TENSOR} }}"
    return text.add(f"tensor.{number}", ty, f"{{ {_head(TENSOR)}, {_TENSOR} {{ {fields} }} }}")
