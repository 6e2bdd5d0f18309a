"""Executables as text: a listing, a Python program that rebuilds them, and a summary."""

from __future__ import annotations

from collections.abc import Callable
from string import Formatter
from typing import Any

from heddle.runtime.dtype import DataType, dtype_from_packed
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor
from heddle.support.frozen import frozen
from heddle.support.span import places_text
from heddle.vm.constants import Constant, LateConstant
from heddle.vm.encode import decode_arg
from heddle.vm.isa import ArgKind, FuncKind, Instruction, Kind, Operand
from heddle.vm.program import Program

_REGISTERS, _FUNCTIONS = (Kind.READ, Kind.WRITE), (Kind.CALLEE, Kind.FUNCTION)
_ARGUMENT, _CONSTANT, _DTYPE = Kind.ARGUMENT, Kind.CONSTANT, Kind.DTYPE
_ARG_REGISTER, _ARG_FUNCTION, _ARG_IMMEDIATE = ArgKind.REGISTER, ArgKind.FUNCTION, ArgKind.IMMEDIATE


@frozen
class _Shown:
    """An operand in a template: `{name}` gives its text, `{name.value}` its value."""

    text: str
    value: Any

    def __format__(self, spec: str) -> str:
        return format(self.text, spec)


_Item = Callable[[Program, Operand, Any], str]


def _shown(program: Program, instruction: Instruction, item: _Item, separator: str) -> dict[str, _Shown]:
    found = {}
    for operand, value in zip(instruction.spec.fields, instruction.values, strict=True):
        if operand.is_list:
            text = separator.join(item(program, operand, part) for part in value)
        else:
            text = item(program, operand, value)
        found[operand.name] = _Shown(text, value)
    return found


def _register(program: Program, number: int) -> str:
    return program.isa.register_text.format(program.isa.special.get(number, number))


def _function_name(program: Program, index: int) -> str:
    return program.functions[index].name if 0 <= index < len(program.functions) else f"?{index}"


def _listed(program: Program, operand: Operand, value: Any) -> str:
    """An operand as listings write it."""
    if operand.kind in _REGISTERS:
        return _register(program, value)
    if operand.kind in _FUNCTIONS:
        return _function_name(program, value)
    if operand.kind is _CONSTANT:
        return f"c[{value}]"
    if operand.kind is _DTYPE:
        return dtype_text(value)
    return _listed_argument(program, value) if operand.kind is _ARGUMENT else str(value)


def _listed_argument(program: Program, word: int) -> str:
    kind, value = decode_arg(word)
    if kind is _ARG_REGISTER:
        return _register(program, value)
    if kind is _ARG_FUNCTION:
        return f"f[{_function_name(program, value)}]"
    return f"i{value}" if kind is _ARG_IMMEDIATE else f"c[{value}]"


def dtype_text(words: tuple[int, int, int]) -> str:
    """Return the spelling of a dtype operand; `dtype(code, bits, lanes)` if it has none."""
    code, bits, lanes = words
    if 0 <= code < 1 << 8 and 0 <= bits < 1 << 8 and 0 <= lanes < 1 << 16:
        return dtype_from_packed(code | bits << 8 | lanes << 16)
    return f"dtype({code}, {bits}, {lanes})"


def instruction_text(program: Program, index: int) -> str:
    """Return one line of a listing, without indentation."""
    instruction = program.instruction(index)
    shown = _shown(program, instruction, _listed, program.isa.separator)
    return instruction.spec.text.format_map(shown).rstrip()


def _listing(program: Program, start: int, end: int, with_sources: bool) -> str:
    lines, shown = [], None
    for index in range(start, end):
        place = places_text(program.line_table.get(index))
        if with_sources and place != shown:
            lines.append(f"  ; {place or 'no source'}\n")
            shown = place
        lines.append(f"  {instruction_text(program, index)}\n")
    return "".join(lines)


def as_text(program: Program, with_sources: bool = False, with_bytecode: bool = False) -> str:
    """Return a listing of every row of the function table, each followed by a blank line. `with_sources` adds
    a comment wherever the source location changes. `with_bytecode` also lists the bytecode from which
    compiled functions were made."""
    blocks = []
    for row in program.functions:
        if row.kind is FuncKind.PACKED:
            blocks.append(f"@{row.name} packed_func;\n")
        elif row.kind is FuncKind.VMTIR and not (with_bytecode and row.has_bytecode):
            blocks.append(f"@{row.name} num_inputs={row.num_args} vm_tir_func;\n")
        else:
            blocks.append(f"@{row.name}:\n{_listing(program, row.start, row.end, with_sources)}")
    return "".join(block + "\n" for block in blocks)


def _built(program: Program, operand: Operand, value: Any) -> str:
    """An operand as calls on a builder write it."""
    if operand.kind in _FUNCTIONS:
        return f'"{_function_name(program, value)}"'
    if operand.kind in _REGISTERS:
        return f"ib.r({program.isa.special.get(value, value)})"
    return _built_argument(program, value) if operand.kind is _ARGUMENT else str(value)


def _built_argument(program: Program, word: int) -> str:
    kind, value = decode_arg(word)
    if kind is _ARG_REGISTER:
        return f"ib.r({program.isa.special.get(value, value)})"
    if kind is _ARG_FUNCTION:
        return f'ib.f("{_function_name(program, value)}")'
    return f"ib.imm({value})" if kind is _ARG_IMMEDIATE else f"ib.c({value})"


def _python_line(program: Program, instruction: Instruction) -> str:
    spec = instruction.spec
    plain = (f"[{{{x.name}}}]" if x.is_list else f"{{{x.name}}}" for x in spec.fields)
    method, *parts = spec.python or (f"emit_{spec.mnemonic}", *plain)
    shown = _shown(program, instruction, _built, ", ")
    defaults = {operand.name: operand.default for operand in spec.fields if operand.default is not None}
    texts = []
    for part in parts:
        names = [name for _, name, _, _ in Formatter().parse(part) if name]
        if not any(name in defaults and shown[name].value == defaults[name] for name in names):
            texts.append(part.format_map(shown))
    return f"ib.{method}({', '.join(texts)})"


def as_python(program: Program) -> str:
    """Return the Python calls on a builder that rebuild this program. Packed functions need no
    declaration.
    """
    lines = ["ib = rx.Builder()"]
    for row in program.functions:
        if row.kind is FuncKind.VM:
            lines.append(f'with ib.function("{row.name}", num_inputs={row.num_args}):')
            lines += [
                f"    {_python_line(program, program.instruction(i))}" for i in range(row.start, row.end)
            ]
    return "\n".join(lines) + "\n"


def _constant_text(value: Constant) -> str:
    if isinstance(value, Tensor):
        return f"[{', '.join(map(str, value.shape))}]" if value.shape else "scalar"
    if isinstance(value, Shape):
        return f"shapetuple[{', '.join(map(str, value))}]"
    if isinstance(value, LateConstant):
        return f"late {value.name!r}"
    return f'"{value}"' if isinstance(value, str) and not isinstance(value, DataType) else str(value)


def stats(program: Program) -> str:
    """Return a text with the number and names of constants and functions."""
    constants = ", ".join(_constant_text(value) for value in program.constants)
    names = ", ".join(f'"{row.name}"' for row in program.functions)
    return (
        f"{program.isa.name.capitalize()} VM executable statistics:\n"
        f"  Constant pool (# {len(program.constants)}): [{constants}]\n"
        f"  Globals (#{len(program.functions)}): [{names}]\n"
    )
