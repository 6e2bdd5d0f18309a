"""Export modules as system libraries: `.so` for C programs and for `load_module`, `.a` for linking into a
larger program.

A library holds the kernels and compiled functions, the native support library without its Python part, the
tables of its program, and the whole artefact as data. C programs call it through `heddle.h`; `load_module`
reads the artefact in it. Constants are stored once: the tables point into the artefact.

Libraries with different prefixes can be linked into one program, because every symbol that a library defines
(also those of `heddle.h`) begins with its prefix. `system_lib(prefix)` finds the artefact of a prefix in any
library of the process.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from heddle.runtime.artefact import Section, SectionTable, parse_artefact, section_table
from heddle.runtime.artefact_file import write_artefact
from heddle.runtime.codes import F0109, U0506, U0507
from heddle.runtime.library_program import ARTEFACT, CORE, NEEDS, TABLES, load_library
from heddle.runtime.linker import archive_command, c_library_of, run_tool, shared_library_command
from heddle.runtime.loaded_libraries import loaded_libraries
from heddle.runtime.native.abi import ProgramTables
from heddle.runtime.native.elf import data_object, prefix_symbols
from heddle.runtime.native.ir_types import ir_struct
from heddle.runtime.native.library import compile_ir, core_object, triple_is_here
from heddle.runtime.native.object_format import LIBRARY_MACHINES, check_library, check_objects, format_of
from heddle.runtime.needs import Needs, Processor, platform_of, write_needs
from heddle.runtime.processor import this_processor
from heddle.runtime.wire import Writer
from heddle.support.codes import S0102
from heddle.support.diagnostics import FormatError, UsageError
from heddle.support.files import replacing
from heddle.support.frozen import frozen
from heddle.support.names import is_c_name

SectionData = bytes | memoryview
ARTEFACT_END = f"{ARTEFACT}_end"
_NO_PROGRAM = f"""
@heddle_program = global {ir_struct(ProgramTables)} zeroinitializer
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


@frozen
class LibraryParts:
    """The contents of a library: object code, the sections of the artefact, and the LLVM IR of the program's
    tables.

    The tables are a function of the section offsets; their text is "" if there is no compiled program.
    `prefix` is put before the names of all symbols. `triple` is the target of the objects, "" for this
    machine.
    """

    objects: Sequence[bytes]
    sections: Mapping[str, SectionData]
    tables: str
    prefix: str = ""
    triple: str = ""


LinkTool = Callable[[str, list[str]], object]
"""Links object files into a library at a path."""


def export_library(path: str | os.PathLike[str], parts: LibraryParts, link: LinkTool | None = None) -> None:
    """Write a shared library (static for a path that ends in ".a"), atomically.

    Raises: UsageError U0504 if there is no linker, U0505 if it fails, U0506 for an invalid prefix, U0510 for
    a target without library support, S0101 if the path cannot be written.
    """
    triple = parts.triple or this_processor().triple
    check_library(os.path.basename(path), triple)
    if parts.prefix and not is_c_name(parts.prefix):
        raise UsageError(U0506, f"the prefix of a library must be a name in C, got {parts.prefix!r}")
    target = Path(path)
    link = link or _linker_for(target, triple)
    with replacing(target) as made:
        folder = made.with_name(f"{made.name}.objects")
        folder.mkdir()
        files = [str(file) for file in _write_objects(folder, parts, triple)]
        link(str(made), files)


def _linker_for(target: Path, triple: str) -> LinkTool:
    if target.suffix.lower() == ".a":
        archive = archive_command()
        return lambda output, files: run_tool([*archive, output, *files])
    is_here = triple_is_here(triple) and c_library_of(triple) == c_library_of(this_processor().triple)
    command = shared_library_command("" if is_here else triple)
    return lambda output, files: run_tool([*command, *files, "-o", output])


def _write_objects(folder: Path, parts: LibraryParts, triple: str) -> list[Path]:
    artefact = folder / "artefact"
    write_artefact(artefact, parts.sections)
    known = format_of(triple)
    data, own = [], ""
    if known is not None and known.container == "ELF":
        data = [data_object(known.machine, artefact.read_bytes(), ARTEFACT, ARTEFACT_END)]
    else:
        own = _DATA.format(start=ARTEFACT, end=ARTEFACT_END, path=artefact)
    tables = _tables_object(parts.tables or _NO_PROGRAM, triple, own)
    files = []
    objects = [*parts.objects, core_object(triple), tables, *data]
    check_objects(objects, triple)
    for number, code in enumerate(prefix_symbols(objects, parts.prefix) if parts.prefix else objects):
        files.append(folder / f"{parts.prefix}{number}.o")
        files[-1].write_bytes(code)
    return files


def _tables_object(tables: str, triple: str, more: str = "") -> bytes:
    text = f"{more}\n@{ARTEFACT} = external global i8\n{tables}"
    return compile_ir(text, processor=None if triple_is_here(triple) else Processor(triple, "", ""))


def parts_to_run_alone(tables: str, needs: Needs, triple: str) -> dict[str, SectionData]:
    """Return the extra sections of a `.heddle` file that `LibraryProgram` needs. Empty for a program without
    compiled functions (`tables` is ""), and for a platform without a native library of ELF objects.
    """
    triple = triple or this_processor().triple
    machine, _, system = platform_of(triple).partition("-")
    if not tables or system != "linux" or machine not in LIBRARY_MACHINES:
        return {}
    head = Writer()
    write_needs(head, needs)
    return {NEEDS: head.bytes(), CORE: core_object(triple), TABLES: _tables_object(tables, triple)}


def read_library(path: str | os.PathLike[str]) -> SectionTable:
    """Return the sections of the artefact in a shared library, as views of the loaded library.

    Raises: UsageError S0102 if it cannot be loaded; FormatError F0109 for a library that Heddle did not
    write, F01.. for a damaged one.
    """
    try:
        library = load_library(path)
    except (OSError, ValueError) as error:
        raise UsageError(S0102, f"cannot load {os.fspath(path)}: {error}") from error
    data = _artefact_in(library, "")
    prefixes = () if data else _prefixes_in(path)
    if len(prefixes) > 1:
        names = ", ".join(prefixes)
        raise FormatError(
            F0109,
            f"{os.fspath(path)} holds several artefacts: {names}",
            help="name one with runtime.system_lib(prefix), once the library is loaded",
        )
    for prefix in prefixes:
        data = _artefact_in(library, prefix)
    if data is None:
        raise FormatError(F0109, f"{os.fspath(path)} holds no heddle artefact")
    return section_table(data)


def _artefact_in(library: ctypes.CDLL, prefix: str) -> memoryview | None:
    try:
        start, end = (
            ctypes.addressof(ctypes.c_char.in_dll(library, prefix + name))
            for name in (ARTEFACT, ARTEFACT_END)
        )
    except ValueError:
        return None
    memory = (ctypes.c_ubyte * (end - start)).from_address(start)
    return memoryview(memory).cast("B")


def _prefixes_in(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the prefixes of the artefacts in a library, from its symbol names."""
    names = re.findall(rb"(?<=\0)(\w+)" + ARTEFACT_END.encode() + rb"(?=\0)", Path(path).read_bytes())
    return tuple(sorted({name.decode() for name in names}))


def read_system_library(prefix: str) -> dict[str, Section]:
    """Return the sections of the artefact with a prefix, from any library that the process has loaded.

    Raises: UsageError U0507 if there is none; FormatError F01.. for a damaged one.
    """
    for library in loaded_libraries():
        data = _artefact_in(library, prefix)
        if data is not None:
            return parse_artefact(data)
    raise UsageError(
        U0507,
        f"no library of this process holds an artefact with the prefix {prefix!r}",
        help="load the library that it is linked into first: ctypes.CDLL(path)",
    )
