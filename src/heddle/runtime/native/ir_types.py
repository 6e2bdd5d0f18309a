"""Structures of the native interface as LLVM's types, for text that is made when a program is compiled."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from heddle.systems.types import ArrayType, AtomicType, IntType, Sized, Struct, StructType

_CORE = Path(__file__).parent / "generated.ll"
_DEFINITION = re.compile(r"^define (\w+) @(heddle_\w+)\(([^)]*)\)", re.MULTILINE)


def ir_struct(kind: type[Struct]) -> str:
    """`{ i64, i32, ptr }`: the fields of a structure, which none pads."""
    return _ir_type(kind.layout)


def _ir_type(kind: Sized) -> str:
    if isinstance(kind, StructType):
        return f"{{ {', '.join(_ir_type(item.type) for item in kind.fields.values())} }}"
    if isinstance(kind, ArrayType):
        return f"[{kind.count} x {_ir_type(kind.element)}]"
    if isinstance(kind, AtomicType):
        return _ir_type(kind.element)
    return f"i{kind.bits}" if isinstance(kind, IntType) else "ptr"


def field_offset(kind: type[Struct], name: str) -> int:
    """Where a field starts, in bytes."""
    return kind.layout.fields[name].offset_bytes


@cache
def exported_signatures() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Of each function of the library that programs may call: the type of its result, and those of its
    parameters."""
    found = _DEFINITION.findall(_CORE.read_text())
    return {
        name: (result, tuple(param.split()[0] for param in params.split(", ") if param))
        for result, name, params in found
    }
