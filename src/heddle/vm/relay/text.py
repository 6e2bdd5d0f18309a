"""What an executable of the Relay machine shows of itself: its bytecode, constants and functions as text."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.runtime.device import Device
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor
from heddle.vm.constants import Constant, LateConstant
from heddle.vm.disasm import instruction_text
from heddle.vm.isa import FuncKind
from heddle.vm.program import FunctionRow, Program
from heddle.vm.relay.object_file import constant_devices, numbered_fields

_TEXT_COLUMN = 40


def function_rows(program: Program) -> list[FunctionRow]:
    """The functions of the program itself, by their number."""
    return [row for row in program.functions if row.kind is not FuncKind.PACKED]


def primitive_names(program: Program) -> list[str]:
    """The packed functions that the program calls, by their number."""
    return [row.name for row in program.functions if row.kind is FuncKind.PACKED]


def bytecode_text(program: Program) -> str:
    """Every function, an instruction a line: its number, the opcode and the operands as a file has them, and
    its text."""
    fields = numbered_fields(program)
    blocks = []
    for number, row in enumerate(function_rows(program)):
        lines = [
            f"VM Function[{number}]: {row.name}({', '.join(row.param_names)})",
            f"# reg file size = {row.register_file_size}",
            f"# instruction count = {row.end - row.start}",
            "opcode, fields # inst(text):",
        ]
        for index in range(row.start, row.end):
            words = f"{index - row.start:2}: {' '.join(map(str, fields[index]))} "
            lines.append(f"{words:<{_TEXT_COLUMN}}# {instruction_text(program, index)}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def constants_text(program: Program) -> str:
    """Every constant and the device that it is loaded on."""
    numbered = enumerate(zip(program.constants, constant_devices(program), strict=True))
    return "".join(
        f"VM Const[{number}]: {_described(value)} on device index {device}\n"
        for number, (value, device) in numbered
    )


def devices_text(devices: Sequence[Device]) -> str:
    """Virtual devices: kind, number and memory scope, which is none."""
    return "".join(
        f"VM VirtualDevice[{number}]: device type {each.device_type}, id {each.device_id} and mem_scope \n"
        for number, each in enumerate(devices)
    )


def primitives_text(program: Program) -> str:
    """Every packed function with its number."""
    return "".join(f"VM PackedFunc[{n}]: {name}\n" for n, name in enumerate(primitive_names(program)))


def stats_text(program: Program) -> str:
    """How many constants, functions and primitives there are, and which."""
    shapes = ", ".join(_shape_text(value) for value in program.constants)
    functions = ", ".join(f'("{row.name}", {number})' for number, row in enumerate(function_rows(program)))
    primitives = ", ".join(primitive_names(program))
    return (
        "Relay VM executable statistics:\n"
        f"  Constant shapes (# {len(program.constants)}): [{shapes}]\n"
        f"  Globals (#{len(function_rows(program))}): [{functions}]\n"
        f"  Primitive ops (#{len(primitive_names(program))}): [{primitives}]\n"
    )


def _shape_text(value: Constant) -> str:
    if isinstance(value, Tensor) and value.shape:
        return f"[{', '.join(map(str, value.shape))}]"
    return f"late {value.name!r}" if isinstance(value, LateConstant) else "scalar"


def _described(value: Constant) -> str:
    if isinstance(value, Tensor):
        return f"Tensor[({', '.join(map(str, value.shape))}), {value.dtype}]"
    if isinstance(value, LateConstant):
        return f"late-bound {value.name!r}"
    return f"{'shape ' if isinstance(value, Shape) else ''}{value!s}"
