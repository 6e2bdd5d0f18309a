"""A model as text at each stage of compilation, from graph to machine code.

| stage | what is shown |
|---|---|
| relax | the graph as it was imported |
| legalized | operators as calls of loop functions |
| fused | the same after fusion |
| scheduled | the loop functions after scheduling |
| tir | the loop functions as the emitter takes them |
| llvm | LLVM IR before LLVM's own passes |
| asm | assembly text for the target |
| bytecode | the machine's instructions |
| memory | storages, what they hold, their sizes; the peak: the most bytes alive at once |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heddle.codegen.backend import backend_of
from heddle.codegen.build import generate_text, lowered_functions
from heddle.codegen.functions import named
from heddle.codegen.pipeline import lower
from heddle.driver.codes import D0102, D0106, D0301
from heddle.driver.compile import with_bounds_checks
from heddle.driver.disassembly import bytecode_text
from heddle.driver.pipeline import default_pipeline
from heddle.driver.targets import as_target
from heddle.graph.nodes import SeqExpr
from heddle.graph.rewriter import is_call
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Call
from heddle.ir.module import IRModule
from heddle.ir.transform import PassContext, PassInfo, PassInstrument
from heddle.lower.codegen_vm import vm_codegen
from heddle.lower.estimate_peak_memory import PEAK_MEMORY
from heddle.lower.normal_form import graph_functions
from heddle.ops.load import load as load_operators
from heddle.relax.metadata import write_weights
from heddle.script.printer import module_script
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.files import check_replaceable, write_bytes
from heddle.support.span import places_text
from heddle.support.text import TextBuilder
from heddle.tir.nodes import CHECK_BOUNDS, PrimFunc

MACHINE_STAGES = ("llvm", "asm", "c")
"""Those that a target's code generator makes: which of them is for its record to say."""
STAGES = ("relax", "legalized", "fused", "scheduled", "tir", *MACHINE_STAGES, "bytecode", "memory")
TEXT_STAGES = STAGES[: STAGES.index("llvm")]
"""Those that are modules, and so script text."""
_MADE_BY = {
    "legalized": "LegalizeOps",
    "fused": "FuseTIR",
    "scheduled": "ApplyDefaultSchedule",
    "memory": "EstimatePeakMemory",
}


class _Keep(PassInstrument):
    """Keeps the module that each of some passes made last."""

    def __init__(self) -> None:
        self.modules: dict[str, IRModule] = {}

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in _MADE_BY.values():
            self.modules[info.name] = mod


def stage_modules(
    mod: IRModule, target: Any = None, precision: str = "fp32", instruments: Sequence[PassInstrument] = ()
) -> Mapping[str, IRModule]:
    """The module at each stage that is a module. `instruments` see the passes on the way."""
    load_operators()
    chosen = as_target(target)
    keep = _Keep()
    with PassContext(instruments=[keep, *instruments]):
        lowered = with_bounds_checks(default_pipeline(chosen, precision)(mod), mod.attrs.get(CHECK_BOUNDS))
        loops = lower(_loops(lowered), chosen)
    stages = {"relax": mod, "lowered": lowered, "tir": loops}
    return stages | {stage: keep.modules[name] for stage, name in _MADE_BY.items()}


def stage_text(
    mod: IRModule,
    stage: str,
    target: Any = None,
    function: str | None = None,
    with_sources: bool = False,
    precision: str = "fp32",
) -> str:
    """The text of a stage, of one function where one is named; of bytecode and machine code on request with
    the model's nodes.

    Raises: UsageError D0301 for an unknown stage, D0102 for a function that the stage does not have.
    """
    if stage not in STAGES:
        raise UsageError(
            D0301,
            f"unknown stage {stage!r}: expected one of {', '.join(STAGES)}",
            help=did_you_mean(stage, STAGES),
        )
    if stage == "relax":
        return str(_only(mod, function))
    modules = stage_modules(mod, target, precision)
    if stage in MACHINE_STAGES:
        return _machine_text(_only(_loops(modules["lowered"]), function), stage, target, with_sources)
    if stage == "bytecode":
        return bytecode_text(vm_codegen(modules["lowered"])[0].get().as_text(with_sources), function)
    if stage == "memory":
        return memory_text(_only(modules["memory"], function))
    return str(_only(modules[stage], function))


def write_stage(
    mod: IRModule,
    stage: str,
    output: Path,
    target: Any = None,
    function: str | None = None,
    precision: str = "fp32",
) -> list[Path]:
    """Write a stage that is a module as script text, and its constants into a file beside it.

    The result are the files. Raises: UsageError D0301 for a stage that is no script text, D0106 for another
    suffix than `.py`, S0101 where they cannot be written.
    """
    if stage not in TEXT_STAGES:
        raise UsageError(D0301, f"stage {stage!r} is no script text: --output takes {', '.join(TEXT_STAGES)}")
    check_script_name(output)
    return write_module(
        _only(mod if stage == "relax" else stage_modules(mod, target, precision)[stage], function), output
    )


def write_module(mod: IRModule, output: Path) -> list[Path]:
    """Write a module as script text, and its constants into a file beside it.

    The result are the files. Raises: UsageError D0106 for another suffix than `.py`, S0101 where they cannot
    be written.
    """
    check_script_name(output)
    weights, constants = output.with_suffix(".weights"), list[Any]()
    text = module_script(mod, constants, weights=weights)
    check_replaceable(output)
    if constants:
        write_weights(weights, constants)
    write_bytes(output, (text + "\n").encode())
    return [output, weights] if constants else [output]


def check_script_name(output: Path) -> None:
    """Raises: UsageError D0106 for a name that would not be taken for script text."""
    if output.suffix.lower() != ".py":
        raise UsageError(D0106, f"{output} would not be taken for script text: let its name end in .py")


def _only(mod: IRModule, name: str | None) -> IRModule:
    if name is None:
        return mod
    known = [var.name_hint for var in mod.functions]
    if name not in known:
        raise UsageError(
            D0102,
            f"the model has no function {name!r} at this stage: it has {', '.join(known)}",
            help=did_you_mean(name, known),
        )
    var = mod.get_global_var(name)
    return mod.with_functions({var: mod[var]})


def _loops(mod: IRModule) -> IRModule:
    return mod.with_functions(
        {var: func for var, func in mod.functions.items() if isinstance(func, PrimFunc)}
    )


def _machine_text(loops: IRModule, stage: str, target: Any, with_sources: bool) -> str:
    chosen = as_target(target)
    made = backend_of(chosen).stages
    if stage not in made:
        raise UsageError(
            D0301,
            f"target kind {chosen.kind.name!r} has no stage {stage!r}: it has {', '.join(made)}",
            help="--target names the target",
        )
    if with_sources:
        out = machine_texts(loops, chosen)[stage]
        lines = zip(out.build().split("\n"), map(places_text, out.spans), strict=True)
        return "\n".join(f"{line}  ; {place}" if place else line for line, place in lines)
    return made[stage](generate_text(_named_loops(loops), chosen)[0], chosen)


def machine_texts(lowered: IRModule, target: Any = None) -> Mapping[str, TextBuilder]:
    """The text of each stage that the target's code generator makes, of all loop functions of a module that
    went through the pipeline, with the places of its lines where they are known."""
    chosen = as_target(target)
    backend, loops = backend_of(chosen), _named_loops(_loops(lowered))
    if backend.placed_texts is not None:
        return backend.placed_texts(lowered_functions(loops, chosen), chosen)
    made = {stage: TextBuilder() for stage in backend.stages}
    code = generate_text(loops, chosen)[0]
    for stage, out in made.items():
        for line in backend.stages[stage](code, chosen).split("\n"):
            out.line(line)
    return made


def _named_loops(loops: IRModule) -> IRModule:
    return loops.with_functions(
        {var: named(var, func) for var, func in loops.functions.items() if isinstance(func, PrimFunc)}
    )


def memory_text(mod: IRModule) -> str:
    """Storages in order of allocation with the tensors that lie in them: one table a graph function."""
    lines = []
    for var, func in graph_functions(mod):
        if not isinstance(func.body, SeqExpr):
            continue
        lines.append(f"{var.name_hint}:")
        for binding in func.body.bindings():
            value = binding.value
            if not isinstance(value, Call):
                continue
            if is_call(value, "relax.memory.alloc_storage"):
                size = value.args[0]
                text = size.values[0] if isinstance(size, ShapeExpr) else size
                lines.append(f"  {binding.var.name_hint:<20} {text} bytes")
            elif is_call(value, "relax.memory.alloc_tensor"):
                lines.append(
                    f"    {binding.var.name_hint:<18} {binding.var.ty} in {value.args[0]} at {value.args[1]}"
                )
        if PEAK_MEMORY in func.attrs:
            lines.append(f"  peak: {func.attrs[PEAK_MEMORY]}")
    return "\n".join(lines)
