"""Whole models against ONNX Runtime, in turn in one process: outputs are compared before a time counts.

    python benchmarks/models.py [--threads 2] [--repeat 15] [--json FILE] [resnet50 bert-128 ...]

Prints for every workload the medians with their spread, the ratio ours / theirs, and the compile time cold
and with a
warm kernel cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]


@dataclass(frozen=True)
class Result:
    """Medians and quartiles in milliseconds; `error` is relative to the output's scale."""

    workload: str
    threads: int
    ours_ms: float
    ours_spread_ms: tuple[float, float]
    peer_ms: float
    peer_spread_ms: tuple[float, float]
    error: float
    compile_cold_s: float
    compile_warm_s: float

    @property
    def ratio(self) -> float:
        return self.ours_ms / self.peer_ms


def in_turn(
    first: Callable[[], Any], second: Callable[[], Any], repeat: int
) -> tuple[list[float], list[float]]:
    """Times of two calls in milliseconds, in alternating turns of three calls.

    Each turn starts with two calls that do not count: threads of the other engine may still spin.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(-(-repeat // 3)):
        for call, kept in zip((first, second), times, strict=True):
            for _ in range(2):
                call()
            for _ in range(3):
                start = time.perf_counter()
                call()
                kept.append((time.perf_counter() - start) * 1e3)
    return times


def quartiles(times: Sequence[float]) -> tuple[float, float]:
    low, _, high = statistics.quantiles(times, n=4)
    return low, high


def compile_twice(path: Path) -> tuple[Any, float, float]:
    """The executable, and the seconds to compile with an empty and with a filled kernel cache."""
    import heddle
    from heddle.codegen.cache import kernel_cache
    from heddle.frontend.onnx import from_onnx

    seconds = []
    executable: Any = None
    for _ in range(2):
        kernel_cache().forget()
        start = time.perf_counter()
        executable = heddle.compile(from_onnx(str(path)), target="llvm")
        seconds.append(time.perf_counter() - start)
    return executable, seconds[0], seconds[1]


def measure(name: str, path: Path, inputs: Sequence[np.ndarray], threads: int, repeat: int) -> Result:
    import onnxruntime

    import heddle
    from heddle import relax

    executable, cold, warm = compile_twice(path)
    machine = relax.VirtualMachine(executable, heddle.cpu())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    peer = onnxruntime.InferenceSession(str(path), options)
    feed = dict(zip((item.name for item in peer.get_inputs()), inputs, strict=True))
    ours = machine["main"](*inputs)
    got = [item.numpy() for item in (ours if isinstance(ours, tuple) else (ours,))]
    expected = peer.run(None, feed)
    error = max(
        float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in zip(got, expected, strict=True)
    )
    if not error < 1e-3:
        raise SystemExit(f"{name}: outputs differ by {error:.1e} of their scale; no time is taken")
    mine, theirs = in_turn(lambda: machine["main"](*inputs), lambda: peer.run(None, feed), repeat)
    return Result(
        name,
        threads,
        statistics.median(mine),
        quartiles(mine),
        statistics.median(theirs),
        quartiles(theirs),
        error,
        cold,
        warm,
    )


def workloads(names: Sequence[str]) -> dict[str, tuple[Path, list[np.ndarray]]]:
    """The model file and inputs of each workload."""
    import onnx
    from tests.e2e.model_zoo import BASE, LIGHT, exported, light_model, sample_inputs

    found: dict[str, tuple[Path, list[np.ndarray]]] = {}
    folder = Path(tempfile.mkdtemp(prefix="heddle-bench-"))
    for name in names:
        if name in LIGHT:
            path = folder / f"{name}.onnx"
            model = light_model(name)
            onnx.save(model, str(path))
            weights = {item.name for item in model.graph.initializer}
            shapes = [
                [d.dim_value for d in i.type.tensor_type.shape.dim]
                for i in model.graph.input
                if i.name not in weights
            ]
            rng = np.random.default_rng(0)
            found[name] = path, [rng.standard_normal(shape).astype("float32") for shape in shapes]
        else:
            kind, _, seq = name.partition("-")
            found[name] = exported(kind, BASE), sample_inputs(kind, BASE, 1, int(seq or 128), 0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=["resnet50", "bert-128"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ["HEDDLE_NUM_THREADS"] = str(options.threads)
    os.environ["HEDDLE_CACHE_DIR"] = (
        tempfile.mkdtemp(prefix="heddle-bench-cache-")
        if not os.environ.get("HEDDLE_CACHE_DIR")
        else os.environ["HEDDLE_CACHE_DIR"]
    )
    results = []
    for name, (path, inputs) in workloads(options.names).items():
        result = measure(name, path, inputs, options.threads, options.repeat)
        results.append(result)
        print(
            f"{name:14s} {options.threads} threads: ours {result.ours_ms:8.2f} ms  onnxruntime "
            f"{result.peer_ms:8.2f} ms  "
            f"ratio {result.ratio:5.2f}  error {result.error:.1e}  compile {result.compile_cold_s:.1f} s "
            f"cold, "
            f"{result.compile_warm_s:.1f} s warm",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps([{**asdict(r), "ratio": r.ratio} for r in results], indent=1))


if __name__ == "__main__":
    main()
