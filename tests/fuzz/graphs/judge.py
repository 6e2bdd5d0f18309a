"""Compiles and runs a graph in ways that must agree, and compares with what the peers gave.

A graph is judged by the engines that its seed draws: to judge each by all of them would cost many times as
much, and a fault of one engine is as likely to show in the graphs that it drew.
"""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from heddle.codegen.pipeline import OPTIONAL_LOOP_PASSES
from heddle.driver.compile import build, with_machine_code
from heddle.frontend.onnx import from_onnx
from heddle.ir.transform import PassContext
from heddle.runtime import cpu
from heddle.runtime.native.library import set_num_threads
from heddle.support.diagnostics import HeddleError, InternalError
from heddle.target import Target
from heddle.tir.schedule.error import ScheduleError
from heddle.vm.relax import VirtualMachine
from tests.fuzz.graphs.loops import with_interpreted_loops
from tests.fuzz.graphs.values import FLOATS, Value
from tests.ops.tolerances import TOLERANCES

OPTIONAL_PASSES = (
    "DecomposeOpsForInference",
    "ConvertConv1D",
    "ConvertConvTranspose",
    "HoistSubsampling",
    "CanonicalizeBindings",
    "FoldConstant",
    "BindConstantArguments",
    "SinkReshape",
    "EliminateCommonSubexpr",
    "DeadCodeElimination",
    "ConvertToDataflow",
    "FuseAttention",
    "FuseOps",
    "FuseTIR",
    "RewriteDataflowReshape",
    "WidenGroups",
    "ConvertToBlockedLayout",
    "ConvertToWinograd",
    "PackWeights",
    "ApplyDefaultSchedule",
    "StaticPlanBlockMemory",
    "KillAfterLastUse",
    *OPTIONAL_LOOP_PASSES,
)
"""Passes without which programs are slower, and must give the same."""
TARGETS = (
    ("llvm -opt-level=0", 0.7),
    ("llvm", 0.2),
    ("llvm -opt-level=0 -vector-width=128", 0.05),
    ("llvm -opt-level=1 -mcpu=x86-64-v2", 0.05),
)
"""Optimising takes LLVM five times as long as emitting. Other processors get other loops and intrinsics."""
LOOPS_SHARE = 0.15
"""How many graphs run their loops in the loop interpreter."""
COMPILED_SHARE = 0.3
"""How many have machine code for their bytecode too, and must give the same bits with it."""
NOISE_FACTOR = 4.0
"""How much farther results may lie apart than errors of rounding moved them in the peers' evaluation."""


@dataclass(frozen=True)
class Ways:
    """How a graph is compiled: with checks of accesses or not, without which pass, for which target; and who
    runs it."""

    sanitize: bool = False
    without: str | None = None
    target: str = "llvm"
    engines: tuple[str, ...] = ("bytecode", "compiled")
    threads: tuple[int, ...] = (1, 2)


@dataclass
class Case:
    """A model, sets of inputs, and for each set the outputs wanted and those after noise."""

    model: onnx.ModelProto
    inputs: list[dict[str, Any]]
    wanted: list[list[Any]]
    noisy: list[list[Any]]
    ways: Ways = field(default_factory=Ways)
    seed: int = 0
    known: dict[str, Value] = field(default_factory=dict)
    """All values of the graph: where it can be cut."""


@dataclass(frozen=True)
class Verdict:
    """`kind`: ok, refused (a coded finding while importing or compiling), wrong, crash, trap (an error while
    running). `key` names what is the same fault in smaller graphs."""

    kind: str
    key: str = ""
    detail: str = ""

    @property
    def is_fault(self) -> bool:
        return self.kind in ("wrong", "crash", "trap")


def ways_of(seed: int, is_wide: bool = False) -> Ways:
    """`is_wide`: the graph's tensors are large enough for a second thread, and too large to interpret."""
    rng = random.Random(seed + 2)
    without = rng.choice(OPTIONAL_PASSES) if rng.random() < 0.3 else None
    lot, target = rng.random(), rng.choices(*zip(*TARGETS, strict=True))[0]
    if not is_wide and lot < LOOPS_SHARE and without not in OPTIONAL_LOOP_PASSES:
        # The loop interpreter runs what comes before the passes on the way to machine code.
        return Ways(False, without, target, ("loops",), (1,))
    engines = ("bytecode", "compiled") if lot > 1 - COMPILED_SHARE else ("bytecode",)
    threads = (1, 2) if is_wide else (rng.choice((1, 2)),)
    return Ways(rng.random() < 0.15, without, target, engines, threads)


def judge(case: Case) -> Verdict:
    """Run with every sample, engine and number of threads, and compare."""
    try:
        machines = _machines(case)
    except Exception as error:  # every other error is a fault, and reported as one
        return _failed("compile", error)
    for number, given in enumerate(case.inputs):
        results: dict[str, list[np.ndarray[Any, Any]]] = {}
        for engine, machine in machines.items():
            for threads in case.ways.threads:
                set_num_threads(threads)
                try:
                    results[f"{engine}, {threads} threads"] = _run(machine, case.model, given)
                except Exception as error:  # as above
                    return _failed(f"run {engine} sample {number}", error)
        found = _against_each_other(number, results) or _against_peers(
            case, number, next(iter(results.values()))
        )
        if found:
            return found
    return Verdict("ok")


def _machines(case: Case) -> dict[str, VirtualMachine]:
    """The engines of the case, each with the program compiled for it."""
    ways, mod, target = case.ways, from_onnx(case.model), Target(case.ways.target)
    with PassContext(disabled_pass=[ways.without] if ways.without else []):
        if ways.engines == ("loops",):
            return {"loops": VirtualMachine(with_interpreted_loops(mod, target), cpu())}
        program = build(mod, target, sanitize=ways.sanitize)
        programs = {
            name: with_machine_code(program, target) if name == "compiled" else program
            for name in ways.engines
        }
        return {name: VirtualMachine(made, cpu()) for name, made in programs.items()}


def _against_each_other(number: int, results: dict[str, list[np.ndarray[Any, Any]]]) -> Verdict | None:
    (first_name, first), *others = results.items()
    for name, other in others:
        for index, (mine, theirs) in enumerate(zip(first, other, strict=True)):
            if mine.tobytes() != theirs.tobytes():
                detail = f"sample {number} output {index}: {first_name} against {name}"
                return Verdict("wrong", "ways differ", detail)
    return None


def _against_peers(case: Case, number: int, results: list[np.ndarray[Any, Any]]) -> Verdict | None:
    for index, mine in enumerate(results):
        problem = difference(mine, case.wanted[number][index], case.noisy[number][index])
        if problem:
            output = case.model.graph.output[index].name
            detail = f"sample {number} output {index} ({output}): {problem}"
            return Verdict("wrong", problem.split(":")[0], detail)
    return None


def _failed(stage: str, error: Exception) -> Verdict:
    is_ours = isinstance(error, (InternalError, ScheduleError))  # no user wrote the schedule
    if isinstance(error, HeddleError) and not is_ours:
        text = str(error).strip().splitlines()[0]
        kind = "refused" if stage == "compile" else "trap"
        return Verdict(kind, text[:60] if kind == "refused" else _code(text), f"{stage}: {error}"[:1500])
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    frames = traceback.extract_tb(cause.__traceback__)
    place = f"{frames[-1].filename.split('/')[-1]}:{frames[-1].name}" if frames else ""
    lines = "".join(f"  {frame.filename}:{frame.lineno} {frame.name}\n" for frame in frames[-6:])
    return Verdict(
        "crash",
        f"{type(cause).__name__} {place}",
        f"{stage}: {type(error).__name__}: {str(error)[:900]}\n{lines}",
    )


def _code(text: str) -> str:
    return text.split("]")[0]


def _run(machine: Any, model: onnx.ModelProto, given: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    got = machine["main"](*(given[value.name] for value in model.graph.input))
    several = len(model.graph.output) != 1
    return [np.asarray(item.numpy()).copy() for item in (got if several else [got])]


def difference(mine: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any], noisy: np.ndarray[Any, Any]) -> str:
    """What differs beyond errors of rounding, or nothing; with the first element that does."""
    if mine.shape != theirs.shape:
        return f"shape: {mine.shape}, expected {theirs.shape}"
    if mine.dtype != theirs.dtype:
        return f"dtype: {mine.dtype}, expected {theirs.dtype}"
    if not mine.size:
        return ""
    if theirs.dtype not in FLOATS:
        wrong = mine != theirs
    else:
        wrong = _far(*(array.astype(np.float64) for array in (mine, theirs, noisy)), theirs.dtype.name)
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"values: {int(wrong.sum())} of {wrong.size}, first at {at}: {mine[at]!r}, expected {theirs[at]!r}"


def _far(mine: Any, theirs: Any, noisy: Any, dtype: str) -> Any:
    relative, absolute = TOLERANCES["accumulated", dtype]
    with np.errstate(all="ignore"):
        finite = np.isfinite(theirs)
        change = np.abs(noisy - theirs)
        spread = change[finite & np.isfinite(change)].max(initial=0)
        allowed = absolute + relative * np.abs(theirs) + NOISE_FACTOR * spread
        near = np.abs(mine - theirs) <= allowed
        same = (np.isnan(mine) & np.isnan(theirs)) | (mine == theirs)
        edge = ~finite & ~(np.isfinite(noisy) == finite)
    return ~(near & finite | same | edge)
