"""A compiled program as one C file: functions, constants, tables, and the include of the runtime.

Constants are arrays in the file. Where they are more than `MOST_ARRAY_BYTES` together they go into a file of
their own, as bytes, each aligned to 64: compilers take very long over great arrays. The program that uses
them maps or reads that file and gives its address to `heddle_use_weights` before `heddle_open`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from heddle.codegen.c.arena import arena_bytes
from heddle.codegen.c.build import CModule
from heddle.codegen.c.types import float_literal, memory_type, text_literal
from heddle.codegen.c.writer import symbol
from heddle.codegen.codes import G0204
from heddle.runtime.dtype import DataType, packed_dtype
from heddle.runtime.kernel_module import PROGRAM_PREFIX
from heddle.runtime.native.abi import Kind
from heddle.runtime.native.library import kernel_symbol
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen
from heddle.vm.constants import Constant, LateConstant, not_loaded
from heddle.vm.isa import FuncKind
from heddle.vm.program import Program

MOST_ARRAY_BYTES = 4 << 20
_ALIGN_BYTES = 64
_HEAD = "{{HEDDLE_IMMORTAL, {kind}, 0, {{NULL}}, 0}}"
_LINE = 12


@frozen
class CProgram:
    """The text of the file, the bytes of the weights' file (None where they are arrays), and sizes:
    `constant_bytes` of all constants, `arena_bytes` of the memory that the program takes, 0 where it comes
    from malloc.
    """

    text: str
    weights: bytes | None
    constant_bytes: int
    arena_bytes: int


def program_file(program: Program, code: CModule, with_arena: bool = False) -> CProgram:
    """The file of a program whose functions are `code`. `with_arena`: memory is one static array.

    Raises: UsageError G0204 for a program that needs the host, and for an arena where sizes are not known.
    """
    _check_no_host(program, code)
    tensors = [value for value in program.constants if isinstance(value, Tensor)]
    total = sum(len(value.raw_bytes()) for value in tensors)
    arena = arena_bytes(program, code.workspaces) if with_arena else 0
    constants = _Constants(is_apart=total > MOST_ARRAY_BYTES)
    cells = [_function_cell(program, number) for number in reversed(range(len(program.functions)))]
    cells += [constants.cell(number, value) for number, value in enumerate(program.constants)]
    pieces = [
        "/* Made by heddle: a program of its own. Compile it with the headers that come with heddle:",
        "   cc -std=c99 -O3 -I<the headers' folder> this.c yours.c -lm. heddle.h says how it is run. */",
        "",
        *([f"#define HEDDLE_ARENA_BYTES {arena}"] if with_arena else []),
        '#include "heddle_runtime.h"',
        "",
        *(part.text for part in code.parts),
        *constants.lines,
        *_closures(program),
        _values(program, cells, constants.updates),
        _entries(program),
        "",
    ]
    weights = bytes(constants.data) if constants.is_apart else None
    return CProgram("\n".join(pieces), weights, total, arena)


def _check_no_host(program: Program, code: CModule) -> None:
    known = {row.name for row in program.functions if row.kind is not FuncKind.PACKED}
    missing = sorted({name for name in code.hosted if name not in known})
    if missing:
        raise UsageError(
            G0204,
            f"the program calls what only a host has: {', '.join(missing[:5])}",
            help="inside a Python process target c runs it; write a .heddle file, or a .so for target llvm",
        )


class _Constants:
    """The constants of a file: `lines` declare them, `updates` say where those lie that are in a file of
    their own, and `data` is that file."""

    def __init__(self, is_apart: bool) -> None:
        self.is_apart = is_apart
        self.lines: list[str] = []
        self.updates: list[str] = []
        self.data = bytearray()

    def cell(self, number: int, value: Constant) -> str:
        """The initialiser of a constant's value."""
        if isinstance(value, Tensor):
            return self._tensor(number, value)
        if isinstance(value, Shape):
            sizes = ", ".join(f"INT64_C({size})" for size in value)
            head = _HEAD.format(kind=Kind.SHAPE.value)
            self.lines.append(
                f"static struct {{ HeddleHead head; int64_t sizes[{len(value) + 1}]; }} "
                f"heddle_constant_{number} = {{{head}, {{{len(value)}{', ' if sizes else ''}{sizes}}}}};"
            )
            return _object(Kind.SHAPE, f"heddle_constant_{number}.sizes")
        if isinstance(value, (str, DataType)):
            return "{0, 0, {0}}"
        if isinstance(value, LateConstant):
            raise not_loaded(value)
        if isinstance(value, float):
            bits = struct.unpack("<q", struct.pack("<d", value))[0]
            return f"{{{Kind.FLOAT.value}, 0, {{.integer = INT64_C({bits})}}}}"
        kind = Kind.BOOL if isinstance(value, bool) else Kind.INT
        return f"{{{kind.value}, 0, {{.integer = INT64_C({int(value)})}}}}"

    def _tensor(self, number: int, value: Tensor) -> str:
        name, rank = f"heddle_constant_{number}", len(value.shape)
        where = "NULL"
        if self.is_apart:
            self.data += bytes(-len(self.data) % _ALIGN_BYTES)
            self.updates.append(
                f"{name}.tensor.data = (unsigned char *)heddle_weights + INT64_C({len(self.data)});"
            )
            self.data += bytes(value.raw_bytes())
        elif len(value.raw_bytes()):
            where = f"(void *){name}_data"
            self.lines += _array(f"{name}_data", value)
        sizes = ", ".join(f"INT64_C({size})" for size in value.shape) or "0"
        word = packed_dtype(value.dtype)
        dtype = f"{{{word & 255}, {word >> 8 & 255}, {word >> 16}}}"
        head = _HEAD.format(kind=Kind.TENSOR.value)
        tensor = f"{{{where}, {{1, 0}}, {rank}, {dtype}, {name}_sizes, NULL, 0}}"
        self.lines.append(f"static int64_t {name}_sizes[] = {{{sizes}}};")
        self.lines.append(
            f"static struct {{ HeddleHead head; DLTensor tensor; }} {name} = {{{head}, {tensor}}};"
        )
        return _object(Kind.TENSOR, f"&{name}.tensor")


def _object(kind: Kind, place: str) -> str:
    return f"{{{kind.value}, 0, {{.pointer = (void *){place}}}}}"


def _array(name: str, value: Tensor) -> list[str]:
    """A constant's elements, as numbers, so that they do not depend on the order of bytes."""
    dtype = value.dtype.element
    stored = np.frombuffer(bytes(value.raw_bytes()), dtype.numpy())
    if dtype.code == "float" and dtype.bits >= 32:
        texts = [float_literal(each, dtype) if np.isfinite(each) else _odd_float(each) for each in stored]
    elif dtype.is_float:
        texts = [str(int(each)) for each in stored.view(f"uint{8 * dtype.itemsize}")]
    else:
        texts = [_whole(int(each), dtype) for each in stored]
    lines = [", ".join(texts[at : at + _LINE]) for at in range(0, len(texts), _LINE)]
    body = ",\n  ".join(lines)
    return [f"static const {memory_type(dtype)} {name}[] = {{\n  {body}}};"]


def _odd_float(value: float) -> str:
    """What is no number as a constant expression: overflow and 0/0 are none in C."""
    return "NAN" if np.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"


def _whole(value: int, dtype: DataType) -> str:
    if dtype.bits == 64:
        if value == -(1 << 63):
            return "INT64_MIN"
        return f"{'INT64_C' if dtype.is_signed else 'UINT64_C'}({value})"
    return "INT32_MIN" if dtype.bits == 32 and value == -(1 << 31) else f"{value}"


def _closures(program: Program) -> list[str]:
    """Every function as a value: a closure that binds nothing."""
    head = _HEAD.format(kind=Kind.CLOSURE.value)
    return [
        f"static struct {{ HeddleHead head; int64_t words[2]; }} heddle_closure_{number} = "
        f"{{{head}, {{{number}, 0}}}};"
        for number, row in enumerate(program.functions)
        if row.kind is FuncKind.VMTIR
    ]


def _function_cell(program: Program, number: int) -> str:
    if program.functions[number].kind is not FuncKind.VMTIR:
        return "{0, 0, {0}}"
    return _object(Kind.CLOSURE, f"heddle_closure_{number}.words")


def _values(program: Program, cells: Sequence[str], updates: Sequence[str]) -> str:
    lines = [
        "static HeddleCell heddle_values[] = {",
        *(f"  {cell}," for cell in cells or ["{0, 0, {0}}"]),
        "};",
    ]
    if updates:
        lines += [
            "static const void *heddle_weights;",
            "/* The weights' file in memory, aligned to 64 bytes; before heddle_open. */",
            "void heddle_use_weights(const void *weights);",
            "void heddle_use_weights(const void *weights) {",
            "  heddle_weights = weights;",
            *(f"  {update}" for update in updates),
            "}",
        ]
    lines += [
        "const HeddleCell *heddle_constants(void) {",
        f"  return heddle_values + {len(program.functions)};",
        "}",
    ]
    return "\n".join(lines)


def _entries(program: Program) -> str:
    entries, names = [], []
    for row in program.functions:
        is_own = row.kind is FuncKind.VMTIR
        code = symbol(kernel_symbol(PROGRAM_PREFIX + row.name)) if is_own else "NULL"
        entries.append(f"  {{{code}, {row.num_args}}},")
        names.append(f"  {text_literal(row.name) if is_own else 'NULL'},")
    lines = ["const HeddleEntry heddle_functions[] = {", *entries, "};"]
    lines += ["const char *const heddle_function_names[] = {", *names, "};"]
    lines.append(f"const int64_t heddle_num_functions = {len(program.functions)};")
    return "\n".join(lines)
