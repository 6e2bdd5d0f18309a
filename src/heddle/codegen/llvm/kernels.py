"""What compiling gives: object code and what is needed to use and to read it."""

from __future__ import annotations

from dataclasses import dataclass, field

from heddle.codegen.llvm.machine import compile_text
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
        return self.target.mtriple

    @property
    def cpu(self) -> str:
        return self.target.mcpu

    @property
    def features(self) -> str:
        return self.target.features

    @property
    def assembly(self) -> str:
        return self._text("assembly")

    @property
    def optimized_ir(self) -> str:
        return self._text("optimized_ir")

    def _text(self, which: str) -> str:
        if not self._texts and self.llvm_ir:
            made = compile_text(self.llvm_ir, self.target, want_text=True)
            self._texts.update(assembly=made.assembly, optimized_ir=made.optimized_ir)
        return self._texts.get(which, "")
