"""Modules as libraries of the system: `.so` for C programs and for us, `.a` for a build of one's own.

A library holds the kernels and compiled functions, the native support library without its Python part, the
tables of its program, and the whole artefact as data. C programs use it through `heddle.h`; `load_module`
reads the artefact out of it. Constants are there once: the tables point into the artefact.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heddle.runtime.artefact import Section, parse_artefact, write_artefact
from heddle.runtime.codes import F0109
from heddle.runtime.linker import archive_command, run_tool, shared_library_command
from heddle.runtime.native.library import compile_ir, core_object
from heddle.support.codes import S0102
from heddle.support.diagnostics import FormatError, UsageError
from heddle.support.files import check_replaceable, replacing

SectionData = bytes | memoryview
ARTEFACT, ARTEFACT_END = "heddle_artefact", "heddle_artefact_end"
_NO_PROGRAM = """
@heddle_program = global { i64, ptr, ptr, ptr, ptr } zeroinitializer
"""
_DATA = """
module asm ".section .data.heddle,\\22aw\\22"
module asm ".balign 64"
module asm ".globl {start}"
module asm "{start}:"
module asm ".incbin \\22{path}\\22"
module asm ".globl {end}"
module asm "{end}:"
"""


@dataclass(frozen=True, slots=True)
class LibraryParts:
    """What goes into a library: object code, the sections of the artefact, and the program's tables as LLVM
    IR, made from the places of the sections; "" where there is no compiled program."""

    objects: Sequence[bytes]
    sections: Mapping[str, SectionData]
    tables: str


LinkTool = Callable[[str, list[str]], object]
"""Makes a library at a path of object files."""


def export_library(path: str | os.PathLike[str], parts: LibraryParts, link: LinkTool | None = None) -> None:
    """Write a shared (or, for ".a", static) library, whole or not at all.

    Raises: UsageError U0504 without a linker, U0505 where it fails, S0101 where the path cannot be written.
    """
    target = Path(path)
    check_replaceable(target)
    link = link or _linker_for(target)
    with tempfile.TemporaryDirectory(prefix="heddle-link-") as folder, replacing(target) as made:
        files = [str(file) for file in _write_objects(Path(folder), parts)]
        made.unlink()  # ar would add to what is there
        link(str(made), files)


def _linker_for(target: Path) -> LinkTool:
    if target.suffix == ".a":
        archive = archive_command()
        return lambda output, files: run_tool([*archive, output, *files])
    command = shared_library_command()
    return lambda output, files: run_tool([*command, *files, "-o", output])


def _write_objects(folder: Path, parts: LibraryParts) -> list[Path]:
    artefact = folder / "artefact"
    write_artefact(artefact, parts.sections)
    data = _DATA.format(start=ARTEFACT, end=ARTEFACT_END, path=artefact)
    tables = compile_ir(f"{data}\n@{ARTEFACT} = external global i8\n{parts.tables or _NO_PROGRAM}")
    files = []
    for number, code in enumerate([*parts.objects, core_object(), tables]):
        files.append(folder / f"{number}.o")
        files[-1].write_bytes(code)
    return files


def read_library(path: str | os.PathLike[str]) -> dict[str, Section]:
    """The sections of the artefact in a shared library, used where they lie.

    Raises: UsageError S0102 where it cannot be loaded; FormatError F0109 for a library that is none of ours,
    F01.. for a damaged one.
    """
    try:
        library = ctypes.CDLL(str(Path(path).absolute()))
    except OSError as error:
        raise UsageError(S0102, f"cannot load {os.fspath(path)}: {error}") from error
    try:
        start, end = (
            ctypes.addressof(ctypes.c_char.in_dll(library, name)) for name in (ARTEFACT, ARTEFACT_END)
        )
    except ValueError:
        raise FormatError(F0109, f"{os.fspath(path)} holds no heddle artefact") from None
    memory = (ctypes.c_ubyte * (end - start)).from_address(start)
    return parse_artefact(memoryview(memory).cast("B"))
