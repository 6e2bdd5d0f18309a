"""What compiling gives: object code and what is needed to use and to read it."""

from __future__ import annotations

from dataclasses import dataclass, field

from heddle.codegen.llvm.machine import readable_code
from heddle.target import Target


@dataclass(slots=True)
class CompiledKernels:
    """One relocatable object file for one target. `functions` are the kernels' entry names.

    The texts are for reading: `llvm_ir` is what was generated, `optimized_ir` and `assembly` are made on
    demand. All three are empty where the object came from the cache on disk.
    """

    object_code: bytes
    functions: tuple[str, ...]
    target: Target
    llvm_ir: str = ""
    _texts: dict[str, str] = field(default_factory=dict)

    @property
    def triple(self) -> str:
        """The machine, system and C library that the code is for."""
        return self.target.mtriple

    @property
    def cpu(self) -> str:
        """LLVM's name of the processor that the code is for."""
        return self.target.mcpu

    @property
    def features(self) -> str:
        """LLVM's list of the features that the code may use: "+avx2,-sse4a,..."."""
        return self.target.features

    @property
    def assembly(self) -> str:
        """The assembly of the object code, made when it is first asked for; empty where `llvm_ir` is."""
        return self._text("assembly")

    @property
    def optimized_ir(self) -> str:
        """The LLVM IR after optimization, made when it is first asked for; empty where `llvm_ir` is."""
        return self._text("optimized_ir")

    def _text(self, which: str) -> str:
        if not self._texts and self.llvm_ir:
            made = readable_code(self.llvm_ir, self.target)
            self._texts.update(assembly=made.assembly, optimized_ir=made.optimized_ir)
        return self._texts.get(which, "")
