"""Programs of the machine: function table, constants, code, and the modules with their kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.runtime.artefact import Section, require
from heddle.runtime.codes import U0501
from heddle.runtime.module import Module, SectionData, register_loader
from heddle.runtime.wire import Reader, Writer
from heddle.support.diagnostics import MissingNameError
from heddle.vm.relax.constants import read_constants, write_constants
from heddle.vm.relax.disasm import as_python, as_text, stats
from heddle.vm.relax.isa import FuncKind
from heddle.vm.relax.native_tables import program_tables
from heddle.vm.relax.program import FunctionRow, Program
from heddle.vm.relax.verify import check_program

LIBRARY_PREFIX = "system_lib_prefix"
"""The metadata entry, and the module attribute, with the prefix of a library of this program."""


class VMExecutable(Module):
    """A compiled program. Its imports hold the kernels; a VirtualMachine runs it."""

    kind = "relax.VMExecutable"

    def __init__(self, program: Program, imports: Sequence[Module] = ()) -> None:
        super().__init__()
        self.program = program
        self._imports = list(imports)
        self._queries: dict[str, Callable[..., Any]] = {
            "stats": self.stats,
            "as_text": self.as_text,
            "as_python": self.as_python,
            "has_function": self.has_function,
            "vm_load_executable": lambda: self,
        }

    @property
    def mod(self) -> VMExecutable:
        return self

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.program.metadata

    @property
    def line_table(self) -> Mapping[int, str]:
        return self.program.line_table

    def stats(self) -> str:
        return stats(self.program)

    def as_text(self, with_sources: bool = False, with_bytecode: bool = False) -> str:
        """The listing; `with_sources` puts before each run of instructions the place that it came from."""
        return as_text(self.program, with_sources, with_bytecode)

    def as_python(self) -> str:
        return as_python(self.program)

    def has_function(self, name: str) -> bool:
        """Whether the program defines `name` itself."""
        return any(row.name == name and row.kind is not FuncKind.PACKED for row in self.program.functions)

    def jit(self, **options: object) -> VMExecutable:
        """Itself: kernels are linked into the process when they are first asked for."""
        return self

    def verify(self) -> None:
        """Raises: BytecodeError with every finding, if there is one."""
        check_program(self.program)

    def function_names(self) -> Sequence[str]:
        return tuple(row.name for row in self.program.functions if row.kind is not FuncKind.PACKED)

    def _find(self, name: str) -> Callable[..., Any] | None:
        return self._queries.get(name)

    def missing_function(self, name: str) -> MissingNameError:
        if not self.has_function(name):
            return super().missing_function(name)
        return MissingNameError(
            U0501,
            f"function {name!r} of a program runs in a machine only",
            help=f"VirtualMachine(module, heddle.cpu())[{name!r}] gives it",
        )

    @property
    def library_prefix(self) -> str:
        return self.program.metadata.get(LIBRARY_PREFIX, "")

    def library_tables(self, prefix: str, offsets: Mapping[str, int]) -> str:
        if not any(row.kind is FuncKind.VMTIR for row in self.program.functions):
            return ""
        return program_tables(self.program, prefix, offsets)

    def save_sections(self) -> Mapping[str, SectionData]:
        return program_sections(self.program)


def _write_table(entries: Mapping[Any, str]) -> bytes:
    writer = Writer()
    writer.u64(len(entries))
    for key, text in entries.items():
        writer.text(str(key))
        writer.text(text)
    return writer.bytes()


def program_sections(program: Program) -> dict[str, SectionData]:
    """The stored form of a program."""
    rows = Writer()
    rows.u64(len(program.functions))
    for row in program.functions:
        rows.u8(row.kind)
        rows.text(row.name)
        rows.words((row.num_args, row.start, row.end, row.register_file_size))
        rows.texts(row.param_names)
    code = Writer()
    code.words(program.offsets)
    code.words(program.words)
    return {
        "functions": rows.bytes(),
        "code": code.bytes(),
        "memory_scopes": _write_table(program.memory_scopes),
        "line_table": _write_table(program.line_table),
        "metadata": _write_table(program.metadata),
        **write_constants(program.constants),
    }


def _read_row(reader: Reader) -> FunctionRow:
    kind, name, numbers = reader.u8(), reader.text(), reader.words()
    if kind not in {known.value for known in FuncKind} or len(numbers) != 4:
        raise reader.fail(f"function {name!r} has unknown kind {kind} or {len(numbers)} numbers instead of 4")
    num_args, start, end, size = numbers
    return FunctionRow(FuncKind(kind), name, num_args, start, end, size, tuple(reader.texts()))


def _read_table(section: Section) -> dict[str, str]:
    reader = section.reader()
    table = dict(reader.items(16, lambda: (reader.text(), reader.text())))
    reader.done()
    return table


def _read_numbered_table(section: Section) -> dict[int, str]:
    table = _read_table(section)
    for key in table:
        if not (key.isascii() and key.isdecimal() and len(key) <= 18):
            raise section.reader().fail(f"expected a number as key, got {key[:40]!r}")
    return {int(key): text for key, text in table.items()}


def _memory_scopes(sections: Mapping[str, Section]) -> dict[int, str]:
    """Files of version 1 have no such table: their constants lie on the first device."""
    if "memory_scopes" not in sections and require(sections, "functions").version < 2:
        return {}
    return _read_numbered_table(require(sections, "memory_scopes"))


def load_executable(sections: Mapping[str, Section]) -> VMExecutable:
    """The executable that `program_sections` stored, verified. A file without a line table has none.

    Raises: FormatError F0105, F0106 for malformed sections; BytecodeError V01.. for a program that breaks a
    rule.
    """
    rows = require(sections, "functions").reader()
    functions = rows.items(25, lambda: _read_row(rows))
    rows.done()
    code = require(sections, "code").reader()
    offsets, words = code.words(), code.words()
    code.done()
    program = Program(
        tuple(functions),
        tuple(read_constants(sections)),
        tuple(offsets),
        tuple(words),
        _memory_scopes(sections),
        _read_numbered_table(sections["line_table"]) if "line_table" in sections else {},
        _read_table(require(sections, "metadata")),
    )
    check_program(program)
    return VMExecutable(program)


register_loader(VMExecutable.kind, load_executable)
