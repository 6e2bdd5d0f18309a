"""The same model on the same inputs in another engine: do the outputs agree, and which is faster."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.driver.codes import D0401, D0402
from heddle.driver.inputs import Array
from heddle.driver.models import ModelFile
from heddle.driver.run import Run, latency_summary, timed
from heddle.support.diagnostics import MissingDependencyError, UsageError

ENGINES = ("onnxruntime",)
TOLERANCES = {
    "float64": (1e-9, 1e-9),
    "float32": (1e-3, 1e-5),
    "float16": (1e-2, 1e-3),
    "bfloat16": (5e-2, 1e-2),
}
"""Element type → relative tolerance, and absolute tolerance as a part of the largest expected magnitude.
Networks of
fifty layers add in another order than the other engine does; other types must be equal."""


def compare(model: ModelFile, done: Run, engine: str, repeat: int, num_threads: int) -> dict[str, Any]:
    """What another engine gives and how long it takes. Raises: UsageError D0402; MissingDependencyError
    D0401.
    """
    if engine not in ENGINES:
        raise UsageError(D0402, f"unknown engine {engine!r}: expected {', '.join(ENGINES)}")
    if model.path.suffix != ".onnx":
        raise UsageError(D0402, f"{model.name} is not an ONNX model, so {engine} cannot run it")
    session = _session(model, num_threads)
    args = list(done.arguments.arrays.values())
    feeds = dict(zip([node.name for node in session.get_inputs()], args, strict=True))
    results, latencies = timed(lambda: session.run(None, feeds), [], repeat)
    outputs = [node.name for node in session.get_outputs()]
    rows = [
        difference(name, ours, theirs)
        for name, ours, theirs in zip(outputs, done.results, results, strict=True)
    ]
    latency = latency_summary(latencies)
    ours, theirs = done.report.latency_ms.get("median"), latency.get("median")
    return {
        "engine": engine,
        "agrees": all(row["agrees"] for row in rows),
        "outputs": rows,
        "latency_ms": latency,
        "speedup": theirs / ours if ours and theirs else None,
    }


def _session(model: ModelFile, num_threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(
            D0401, "comparing needs the package 'onnxruntime'", help="pip install 'heddle[bench]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model.path), options, providers=["CPUExecutionProvider"])
    except RuntimeError as error:  # the base of what it raises for models that it cannot take
        raise UsageError(D0402, f"onnxruntime cannot load {model.name}: {error}") from error


def difference(name: str, ours: Array, theirs: Array) -> dict[str, Any]:
    """How far two outputs are apart, and whether that is within the tolerance of their type."""
    row: dict[str, Any] = {"name": name, "agrees": False, "max_abs_error": None, "max_magnitude": None}
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        row["reason"] = f"expected {theirs.dtype} {theirs.shape}, got {ours.dtype} {ours.shape}"
        return row
    if ours.size == 0:
        return row | {"agrees": True}
    relative, absolute = TOLERANCES.get(str(ours.dtype), (0.0, 0.0))
    expected, got = theirs.astype(np.float64), ours.astype(np.float64)
    magnitude = float(np.nanmax(np.abs(expected)))
    close = np.isclose(got, expected, rtol=relative, atol=absolute * magnitude, equal_nan=True)
    error = float(np.nanmax(np.abs(got - expected)))
    return row | {"agrees": bool(close.all()), "max_abs_error": error, "max_magnitude": magnitude}
