"""Programs of the Relax machine as modules."""

from __future__ import annotations

from collections.abc import Mapping

from heddle.runtime.artefact import Section
from heddle.runtime.module import register_loader
from heddle.vm.executable import Executable, read_program
from heddle.vm.isa import FuncKind
from heddle.vm.relax.isa import RELAX
from heddle.vm.relax.native_tables import program_tables


class VMExecutable(Executable):
    """A compiled program of the Relax machine; a VirtualMachine runs it."""

    kind = "relax.VMExecutable"
    isa = RELAX

    def library_tables(self, prefix: str, offsets: Mapping[str, int]) -> str:
        if not any(row.kind is FuncKind.VMTIR for row in self.program.functions):
            return ""
        return program_tables(self.program, prefix, offsets)


def load_executable(sections: Mapping[str, Section]) -> VMExecutable:
    """Restore and verify an executable from its sections. Raises: as `read_program`."""
    return VMExecutable(read_program(RELAX, sections))


register_loader(VMExecutable.kind, load_executable)
