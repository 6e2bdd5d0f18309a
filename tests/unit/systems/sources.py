"""Sources of the systems language for tests: text that becomes a module, a program, native code."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from heddle.runtime.native.library import compile_ir, kernel_symbol, link_objects
from heddle.systems.program import Program, read_program
from heddle.systems.translate import translate

_numbers = itertools.count()
WORDS = """
from heddle.systems.types import *
from heddle.systems.types import Address, Array, Atomic, Function, Pointer, Struct
from heddle.systems.types import f64, i8, i16, i32, i64, u8, u16, u32, u64
from heddle.systems.words import *
from heddle.systems.words import ACQ_REL, ACQUIRE, EXPORTED, EXTERNAL, RELAXED, RELEASE, SEQ_CST
"""


def module_of(folder: Path, text: str) -> ModuleType:
    """Import a source text, with all words of the language before it."""
    name = f"systems_source_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(WORDS + text)
    return module_at(path, name)


def module_at(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def program_of(folder: Path, text: str) -> Program:
    return read_program([module_of(folder, text)])


class NativeProgram:
    """A program as machine code: exported functions `heddle_kernel_NAME` by their names."""

    def __init__(self, program: Program) -> None:
        names = [name.removeprefix(kernel_symbol("")) for name in program.functions]
        exported = [name for name in names if kernel_symbol(name) in program.functions]
        self._tracker = link_objects([compile_ir(translate(program))], exported)

    def function(self, name: str, result: Any, *params: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *params)(self._tracker[kernel_symbol(name)])
