"""Random Loop and Scan models (`onnx_loop_models`), each run in ways that must give the same bits.

`python -m tests.fuzz.onnx_loops --first 1 --count 100 --ways c optimised`. Oracle: the graph interpreter, and
ONNX Runtime where it has the kernels.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from heddle.driver.compile import build
from heddle.driver.stages import write_stage
from heddle.driver.values import as_argument, as_array
from heddle.frontend.onnx import from_onnx
from heddle.ir.module import IRModule
from heddle.ir.transform import PassContext
from heddle.relax import GraphInterpreter
from heddle.runtime import cpu, load_module
from heddle.runtime.native.library import set_num_threads
from heddle.script import from_source
from heddle.support.diagnostics import HeddleError, InternalError
from heddle.target import Target
from heddle.vm.relax import VirtualMachine
from tests.fuzz.onnx_loop_models import random_model

WAYS = ("bytecode", "without FuseLoops", "sanitize", "printed", "saved", "optimised")
TARGET = Target("llvm -opt-level=0")
TARGETS = {"optimised": Target("llvm"), "c": Target("c")}
"""The target of a way, where it is not `TARGET`. C needs a compiler: `--ways c`."""
WAYS_EACH = 2
"""How many ways a model has beside the compiled one."""
_STATE = onnxruntime.capi.onnxruntime_pybind11_state
_NO_ANSWER = (
    _STATE.NotImplemented,
    _STATE.InvalidGraph,
    _STATE.Fail,
    _STATE.InvalidArgument,
    _STATE.RuntimeException,
    RuntimeError,
)


def flat(value: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a result, copied."""
    if isinstance(value, np.ndarray) or hasattr(value, "numpy"):
        array = np.array(value.numpy() if hasattr(value, "numpy") else value)
        return [array.astype(np.int8) if array.dtype.name == "int4" else array]
    if hasattr(value, "__len__") and not isinstance(value, (str, bytes)):
        return [array for part in value for array in flat(part)]
    return [np.asarray(value)]


def _stored(array: Any) -> Any:
    """As the interpreter has it: 4-bit integers take a byte each; strings are no tensor."""
    if array.dtype.kind in "OTUS":
        return as_argument(array)
    return array.astype(np.int8) if array.dtype.name == "int4" else array


def _with_texts(value: Any) -> Any:
    """A result of the interpreter's, arrays of strings (a shape and its elements) as arrays."""
    if not isinstance(value, tuple):
        return value
    if len(value) == 2 and isinstance(value[1], tuple) and all(isinstance(text, str) for text in value[1]):
        return np.array(value[1], object).reshape([int(size) for size in value[0]])
    return tuple(map(_with_texts, value))


def by_runtime(model: onnx.ModelProto, samples: Sequence[dict[str, Any]]) -> list[list[Any] | None]:
    """What ONNX Runtime gives for each sample; None where it has no answer."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except _NO_ANSWER:
        return [None] * len(samples)
    found: list[list[Any] | None] = []
    for given in samples:
        try:
            found.append([np.asarray(item) for item in session.run(None, given)])
        except _NO_ANSWER:
            found.append(None)
    return found


def machine(mod: IRModule, way: str, folder: Path) -> VirtualMachine:
    """The program as a way compiles it."""
    if way == "printed":
        files = write_stage(mod, "relax", folder / "model.py")
        mod = from_source(files[0].read_text(), folder=folder)
    with PassContext(disabled_pass=["FuseLoops"] if way == "without FuseLoops" else []):
        mode = "bytecode" if way == "bytecode" else "compiled"
        program = build(mod, TARGETS.get(way, TARGET), exec_mode=mode, sanitize=way == "sanitize")
    if way == "saved":
        program.export_library(folder / "model.heddle")
        program = load_module(folder / "model.heddle")
    return VirtualMachine(program, cpu())


def different(mine: list[Any], other: list[Any], is_peer: bool = False) -> str:
    """What differs, bit by bit; of what is empty a peer's shape is not compared."""
    if len(mine) != len(other):
        return f"{len(mine)} results, expected {len(other)}"
    for index, (a, b) in enumerate(zip(mine, other, strict=True)):
        if is_peer and a.size == b.size == 0:
            continue
        if a.shape != b.shape or (a.dtype != b.dtype and a.dtype.kind not in "OTUS"):
            return f"result {index}: {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        if a.dtype.kind in "OTUS":
            if a.tolist() != b.tolist():
                return f"result {index}: {a.tolist()}, expected {b.tolist()}"
        elif (a != b).any():
            return f"result {index}: {a.tolist()}, expected {b.tolist()}"
    return ""


def judge(seed: int, ways: Sequence[str] = ()) -> tuple[str, str]:
    """A kind (ok, refused, or a fault) and what was found, compiled and in `ways`, else in two of WAYS."""
    model, samples = random_model(seed)
    stage = "import"
    try:
        mod = from_onnx(model)
        stage = "interpreter"
        wanted = [
            flat(_with_texts(GraphInterpreter(mod)["main"](*(_stored(item) for item in given.values()))))
            for given in samples
        ]
        stage = "ONNX Runtime"
        for number, (mine, peer) in enumerate(zip(wanted, by_runtime(model, samples), strict=True)):
            if peer is not None and (found := different(mine, peer, is_peer=True)):
                return "wrong", f"interpreter against ONNX Runtime, sample {number}: {found}"
        for way in ("compiled", *(ways or random.Random(seed).sample(WAYS, WAYS_EACH))):
            stage = way
            with tempfile.TemporaryDirectory() as folder:
                vm = machine(mod, way, Path(folder))
                for number, given in enumerate(samples):
                    for threads in (1, 2):
                        set_num_threads(threads)
                        got = flat(as_array(vm["main"](*map(as_argument, given.values()))))
                        if found := different(got, wanted[number]):
                            return "wrong", f"{way}, sample {number}, {threads} threads: {found}"
    except InternalError as error:
        return "crash", f"{stage}: {str(error)[:600]}"
    except HeddleError as error:
        kind = "refused" if stage == "import" else "trap"
        return kind, f"{stage}: {str(error)[:600]}"
    except Exception:  # whatever else is raised is a fault
        return "crash", f"{stage}: {traceback.format_exc()[-900:]}"
    return "ok", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--ways", nargs="*", choices=("c", *WAYS), default=())
    given = parser.parse_args()
    kinds: Counter[str] = Counter()
    begun = time.process_time()
    for seed in range(given.first, given.first + given.count):
        kind, said = judge(seed, given.ways)
        kinds[kind] += 1
        if kind != "ok":
            print(f"seed {seed}: {kind}: {said}", flush=True)
        if (seed + 1) % 50 == 0:
            print(f"to {seed}: {dict(kinds)}, {time.process_time() - begun:.0f} s", flush=True)
    print(f"{given.count} models: {dict(kinds)}")
    return int(any(kinds[kind] for kind in ("wrong", "crash", "trap")))


if __name__ == "__main__":
    sys.exit(main())
