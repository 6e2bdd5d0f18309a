"""Compiles and runs a graph in all the ways that must agree, and compares with what the peers gave."""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from heddle.driver.compile import build, with_machine_code
from heddle.frontend.onnx import from_onnx
from heddle.ir.transform import PassContext
from heddle.runtime import cpu
from heddle.runtime.native.library import set_num_threads
from heddle.support.diagnostics import HeddleError, InternalError
from heddle.vm.relax import VirtualMachine
from tests.fuzz.graphs.values import FLOATS, Value
from tests.ops.tolerances import TOLERANCES

OPTIONAL_PASSES = (
    "DecomposeOpsForInference",
    "ConvertConv1D",
    "ConvertConvTranspose",
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
    "CompactBuffers",
    "Simplify",
    "RunInLanes",
    "PeelLastPair",
    "HoistIfThenElse",
    "StorageRewrite",
    "UnrollLoop",
    "RemoveNoOp",
)
"""Passes without which programs are slower, and must give the same."""
NOISE_FACTOR = 4.0
"""How much farther results may lie apart than errors of rounding moved them in the peers' evaluation."""


@dataclass(frozen=True)
class Ways:
    """How a graph is compiled: with checks of accesses or not, without which pass."""

    sanitize: bool = False
    without: str | None = None


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


def ways_of(seed: int) -> Ways:
    rng = random.Random(seed + 2)
    without = rng.choice(OPTIONAL_PASSES) if rng.random() < 0.35 else None
    return Ways(rng.random() < 0.5, without)


def judge(case: Case) -> Verdict:
    """Run in both modes, by one thread and by two."""
    try:
        mod = from_onnx(case.model)
        with PassContext(disabled_pass=[case.ways.without] if case.ways.without else []):
            interpreted = build(mod, sanitize=case.ways.sanitize)
            executables = {"bytecode": interpreted, "compiled": with_machine_code(interpreted)}
    except Exception as error:  # every other error is a fault, and reported as one
        return _failed("compile", error)
    for number, given in enumerate(case.inputs):
        results: dict[str, list[np.ndarray[Any, Any]]] = {}
        for mode, executable in executables.items():
            for threads in (1, 2) if mode == "compiled" else (1,):
                set_num_threads(threads)
                try:
                    results[f"{mode}, {threads} threads"] = _run(executable, case.model, given)
                except Exception as error:  # as above
                    return _failed(f"run {mode} sample {number}", error)
        first_name, first = next(iter(results.items()))
        for name, other in results.items():
            for index, (mine, theirs) in enumerate(zip(first, other, strict=True)):
                if mine.tobytes() != theirs.tobytes():
                    return Verdict(
                        "wrong", "ways differ", f"sample {number} output {index}: {first_name} against {name}"
                    )
        for index, mine in enumerate(first):
            problem = difference(mine, case.wanted[number][index], case.noisy[number][index])
            if problem:
                output = case.model.graph.output[index].name
                return Verdict(
                    "wrong", problem.split(":")[0], f"sample {number} output {index} ({output}): {problem}"
                )
    return Verdict("ok")


def _failed(stage: str, error: Exception) -> Verdict:
    if isinstance(error, HeddleError) and not isinstance(error, InternalError):
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


def _run(executable: Any, model: onnx.ModelProto, given: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    got = VirtualMachine(executable, cpu())["main"](*(given[value.name] for value in model.graph.input))
    several = len(model.graph.output) > 1
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
