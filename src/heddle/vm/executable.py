"""Programs of a machine as modules: function table, constants, code, and the modules with their kernels."""

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
"""The metadata entry, and the module attribute, with the prefix of a library of this program."""


class Executable(Module):
    """A compiled program for the machine of one instruction set. Its imports hold the kernels.

    The kind of the module says which machine that is: the sections of a file are read by the loader of their
    kind.
    """

    isa: ClassVar[InstructionSet]

    def __init__(self, program: Program, imports: Sequence[Module] = ()) -> None:
        """Raises: UsageError V0303 for a program of another machine."""
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
        """The executable itself: what TVM's scripts take the module from."""
        return self

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the compiler noted about the program: texts by name."""
        return self.program.metadata

    @property
    def line_table(self) -> Mapping[int, Span]:
        """Where instructions come from in the user's model, by their number in the program."""
        return self.program.line_table

    def stats(self) -> str:
        """How many constants and functions there are, and which, as text."""
        return stats(self.program)

    def as_text(self, with_sources: bool = False, with_bytecode: bool = False) -> str:
        """The listing; `with_sources` puts before each run of instructions the place that it came from."""
        return as_text(self.program, with_sources, with_bytecode)

    def inspect_source(self, fmt: str = "") -> str:
        """The texts that the program's kernels and functions were compiled from, in a format ("ll", "c") or
        in their own; empty where they were not kept."""
        texts = [each.inspect_source(fmt) for each in self.imports if isinstance(each, KernelModule)]
        return "\n".join(text for text in texts if text)

    get_source = inspect_source

    def as_python(self) -> str:
        """The bytecode as calls of the builder that makes it."""
        return as_python(self.program)

    def has_function(self, name: str) -> bool:
        """Whether the program defines `name` itself."""
        return any(row.name == name and row.kind is not FuncKind.PACKED for row in self.program.functions)

    def jit(self, **options: object) -> Self:
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

    def save_sections(self) -> Mapping[str, SectionData]:
        return program_sections(self.program)


def program_sections(program: Program) -> dict[str, SectionData]:
    """The stored form of a program."""
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
    """Files of version 1 have no such table: their constants lie on the first device."""
    if "memory_scopes" not in sections and require(sections, "functions").version < 2:
        return {}
    return read_numbered_table(require(sections, "memory_scopes"))


def read_program(isa: InstructionSet, sections: Mapping[str, Section]) -> Program:
    """The program that `program_sections` stored, verified. A file without a line table has none.

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
