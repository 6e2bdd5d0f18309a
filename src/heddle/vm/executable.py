"""Compiled programs as modules: function table, constants, code, and the imported modules with kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from heddle.runtime.artefact import Section, require
from heddle.runtime.codes import U0501
from heddle.runtime.kernel_module import KernelModule
from heddle.runtime.module import Module, SectionData
from heddle.runtime.wire import Reader, Writer
from heddle.support.diagnostics import MissingNameError, UsageError
from heddle.support.span import Span
from heddle.vm.codes import V0303
from heddle.vm.constants import read_constants, write_constants
from heddle.vm.disasm import as_python, as_text, stats
from heddle.vm.isa import FuncKind, InstructionSet
from heddle.vm.line_table import line_table_section, read_line_table
from heddle.vm.program import FunctionRow, Program
from heddle.vm.tables import read_numbered_table, read_table, write_table
from heddle.vm.verify import check_program

LIBRARY_PREFIX = "system_lib_prefix"
"""The metadata entry, and the IRModule attribute, for the symbol prefix of a library of this program."""


class Executable(Module):
    """A compiled program for the machine of one instruction set. Its imported modules contain the kernels.

    The module kind says which machine that is; a file is read by the loader of its kind.
    """

    isa: ClassVar[InstructionSet]

    def __init__(self, program: Program, imports: Sequence[Module] = ()) -> None:
        """Make a module from a program. Raises: UsageError V0303 for a program of another machine."""
        super().__init__()
        if program.isa is not self.isa:
            raise UsageError(
                V0303, f"expected a program of the {self.isa.name} machine, got one of {program.isa.name}"
            )
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
    def mod(self) -> Self:
        """The executable itself. TVM scripts get the module from this attribute."""
        return self

    @property
    def metadata(self) -> Mapping[str, str]:
        """Texts by name that the compiler stored with the program."""
        return self.program.metadata

    @property
    def line_table(self) -> Mapping[int, Span]:
        """The location of each instruction in the user's model, by instruction number."""
        return self.program.line_table

    def stats(self) -> str:
        """Return a text with the number and names of constants and functions."""
        return stats(self.program)

    def as_text(self, with_sources: bool = False, with_bytecode: bool = False) -> str:
        """Return the listing of the program. `with_sources` adds a comment wherever the source location
        changes. `with_bytecode` also lists the bytecode of compiled functions."""
        return as_text(self.program, with_sources, with_bytecode)

    def inspect_source(self, fmt: str = "") -> str:
        """Return the sources of the program's kernels and compiled functions, in the format `fmt` ("ll", "c")
        or else their stored format. Empty if they were not kept."""
        texts = [each.inspect_source(fmt) for each in self.imports if isinstance(each, KernelModule)]
        return "\n".join(text for text in texts if text)

    get_source = inspect_source

    def as_python(self) -> str:
        """Return Python code of builder calls that rebuild the bytecode."""
        return as_python(self.program)

    def has_function(self, name: str) -> bool:
        """Whether the program itself defines the function `name`."""
        return any(row.name == name and row.kind is not FuncKind.PACKED for row in self.program.functions)

    def jit(self, **options: object) -> Self:
        """Return the executable itself. Kernels are linked when they are first used."""
        return self

    def verify(self) -> None:
        """Verify the program. Raises: BytecodeError with all findings, if there are any."""
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

    def save_sections(self) -> Mapping[str, SectionData]:
        return program_sections(self.program)


def program_sections(program: Program) -> dict[str, SectionData]:
    """Return the sections that store a program."""
    rows = Writer()
    rows.u64(len(program.functions))
    for row in program.functions:
        rows.u8(row.kind)
        rows.text(row.name)
        rows.words((row.num_args, row.start, row.end, row.register_file_size))
        rows.texts(row.param_names)
    lines = line_table_section(program.line_table)
    code = Writer()
    code.words(program.offsets)
    code.words(program.words)
    return {
        "functions": rows.bytes(),
        "code": code.bytes(),
        "memory_scopes": write_table(program.memory_scopes),
        lines[0]: lines[1],
        "metadata": write_table(program.metadata),
        **write_constants(program.constants),
    }


def _read_row(reader: Reader) -> FunctionRow:
    kind, name, numbers = reader.u8(), reader.text(), reader.words()
    if kind not in {known.value for known in FuncKind} or len(numbers) != 4:
        raise reader.fail(f"function {name!r} has unknown kind {kind} or {len(numbers)} numbers instead of 4")
    num_args, start, end, size = numbers
    return FunctionRow(FuncKind(kind), name, num_args, start, end, size, tuple(reader.texts()))


def _memory_scopes(sections: Mapping[str, Section]) -> dict[int, str]:
    """Read the memory scopes of constants. Files of version 1 have no such table; their constants are on the
    first device."""
    if "memory_scopes" not in sections and require(sections, "functions").version < 2:
        return {}
    return read_numbered_table(require(sections, "memory_scopes"))


def read_program(isa: InstructionSet, sections: Mapping[str, Section]) -> Program:
    """Read and verify a program that `program_sections` stored. The line table is optional.

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
        isa,
        tuple(functions),
        tuple(read_constants(sections)),
        tuple(offsets),
        tuple(words),
        _memory_scopes(sections),
        read_line_table(sections),
        read_table(require(sections, "metadata")),
    )
    check_program(program)
    return program
