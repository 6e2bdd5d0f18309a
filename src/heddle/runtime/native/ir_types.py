"""Structures of the native interface as LLVM types, for IR that is generated when a program is compiled."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from heddle.systems.types import ArrayType, AtomicType, IntType, Sized, Struct, StructType

_CORE = Path(__file__).parent / "generated.ll"
_DEFINITION = re.compile(r"^define (\w+) @(heddle_\w+)\(([^)]*)\)", re.MULTILINE)


def ir_struct(kind: type[Struct]) -> str:
    """Return the LLVM type of a structure, such as `{ i64, i32, ptr }`. No structure has padding."""
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
    """Return the offset of a field, in bytes."""
    return kind.layout.fields[name].offset_bytes


@cache
def exported_signatures() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return, for each function of the library that programs may call, its result type and its parameter
    types."""
    found = _DEFINITION.findall(_CORE.read_text())
    return {
        name: (result, tuple(param.split()[0] for param in params.split(", ") if param))
        for result, name, params in found
    }
