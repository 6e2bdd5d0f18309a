"""PrimFuncs → object code: the pipeline of passes, then LLVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heddle.codegen.codes import G0103
from heddle.codegen.llvm.machine import compile_text, data_layout
from heddle.codegen.llvm.module import emit_module
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, Sequential
from heddle.support.diagnostics import UsageError
from heddle.target import Target
from heddle.tir.kernel_abi import CALLING_CONV
from heddle.tir.nodes import PrimFunc
from heddle.tir.transform.bf16_legalize import BF16Legalize
from heddle.tir.transform.compact_buffers import CompactBuffers
from heddle.tir.transform.flatten_buffer import FlattenBuffer
from heddle.tir.transform.hoist_if import HoistIfThenElse
from heddle.tir.transform.make_packed_api import MakePackedAPI
from heddle.tir.transform.lower_blocks import LowerBlocks
from heddle.tir.transform.lower_intrinsics import LowerIntrin
from heddle.tir.transform.place_allocations import PlaceAllocations
from heddle.tir.transform.remove_assume import RemoveAssume
from heddle.tir.transform.remove_no_op import RemoveNoOp
from heddle.tir.transform.simplify import Simplify
from heddle.tir.transform.storage_rewrite import StorageRewrite
from heddle.tir.transform.unroll_loop import UnrollLoop
from heddle.tir.transform.vectorize_loop import VectorizeLoop

NATIVE_HALF = {"bfloat16": "native-bfloat16-arithmetic", "float16": "avx512fp16"}
"""16-bit floats and the processor feature that computes with them."""


@dataclass(slots=True)
class CompiledKernels:
    """Object code for one target. `functions` are the kernels' entry names."""

    object_code: bytes
    functions: tuple[str, ...]
    triple: str
    cpu: str
    features: str
    target: Target
    source: str = ""
    _texts: dict[str, str] = field(default_factory=dict)

    @property
    def llvm_ir(self) -> str:
        """The IR as it was generated; empty where the code came from the cache on disk."""
        return self.source

    @property
    def assembly(self) -> str:
        """The assembly text; compiled anew for this."""
        return self._text("asm")

    @property
    def optimized_ir(self) -> str:
        return self._text("opt")

    def _text(self, which: str) -> str:
        if not self._texts and self.source:
            made = compile_text(self.source, self.target, want_text=True)
            self._texts = {"asm": made.assembly, "opt": made.optimized_ir}
        return self._texts.get(which, "")


def lowering_passes(target: Target) -> tuple[Pass, ...]:
    """From blocks, or flat loops over buffers, to what the emitter takes."""
    narrow = tuple(name for name, native in NATIVE_HALF.items() if native not in target.feature_set)
    return (
        LowerBlocks(),  # axes become their values, init becomes a condition
        PlaceAllocations(),  # temporaries live where they are used
        CompactBuffers(),  # and hold only what is used there
        FlattenBuffer(),
        Simplify(),
        VectorizeLoop(),
        HoistIfThenElse(),
        StorageRewrite(),
        Simplify(),
        UnrollLoop(),
        RemoveNoOp(),
        RemoveAssume(),
        LowerIntrin(),
        BF16Legalize(narrow),
        MakePackedAPI(),
    )


def lower(mod: IRModule, target: Target) -> IRModule:
    return Sequential(lowering_passes(target), "lower_to_machine")(mod)


def as_module(given: IRModule | PrimFunc | Mapping[str, PrimFunc]) -> IRModule:
    """A module of named functions. Raises: UsageError G0103."""
    if isinstance(given, IRModule):
        return given
    if isinstance(given, PrimFunc):
        name = given.attrs.get("global_symbol")
        if not name:
            raise UsageError(G0103, "a function to compile needs the attribute 'global_symbol'")
        return IRModule({GlobalVar(str(name)): given})
    return IRModule({GlobalVar(name): func for name, func in given.items()})


def compile_kernels(given: Any, target: Target) -> CompiledKernels:
    """Compile all PrimFuncs of a module into one object."""
    mod = lower(as_module(given), target)
    funcs = [func for func in mod.functions.values() if isinstance(func, PrimFunc)]
    text = emit_module(funcs, target.mtriple, data_layout(target), target.vector_width_bits)
    code = compile_text(text, target)
    names = tuple(
        str(func.attrs["global_symbol"]) for func in funcs if func.attrs.get(CALLING_CONV) == "packed"
    )
    return CompiledKernels(code.object_code, names, target.mtriple, target.mcpu, target.features, target, text)
