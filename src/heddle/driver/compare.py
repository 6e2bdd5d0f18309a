"""Compare a model's outputs and run time with those of another engine or another precision.

Errors are relative to the scale of an output: `max_relative_error` is the largest difference divided by the
largest magnitude, `mean_relative_error` the mean difference divided by the mean magnitude. The relative error
of a single element means nothing if the element is near zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heddle.driver.codes import D0401, D0402
from heddle.driver.inputs import Array
from heddle.driver.machines import machine_for
from heddle.driver.models import ModelFile
from heddle.driver.run import (
    CompileOptions,
    Run,
    latency_summary,
    load_or_compile,
    named_outputs,
    signature_of,
    timed,
)
from heddle.support.diagnostics import MissingDependencyError, UsageError
from heddle.support.distribution import pip_install

ENGINES = ("onnxruntime", "fp32")
"""The engines to compare with; `fp32` is Heddle itself in strict float32."""
TOLERANCES = {
    "float64": (1e-9, 1e-9),
    "float32": (1e-3, 1e-5),
    "float16": (1e-2, 1e-3),
    "bfloat16": (5e-2, 1e-2),
}
"""Element type → relative tolerance, and absolute tolerance as a fraction of the largest expected magnitude.
Deep networks sum in another order than the other engine. Types that are not listed must be equal."""
FIGURES = ("max_abs_error", "max_magnitude", "max_relative_error", "mean_relative_error")
PRECISION_TOLERANCES = {"bf16": (5e-2, 5e-2)}
"""The same for float32 outputs of a program whose products were computed in less."""


def compare(model: ModelFile, done: Run, engine: str, repeat: int, num_threads: int) -> dict[str, Any]:
    """Run the model in another engine; return the differences and times. Raises: UsageError D0402;
    MissingDependencyError D0401."""
    if engine not in ENGINES:
        raise UsageError(D0402, f"unknown engine {engine!r}: expected one of {', '.join(ENGINES)}")
    run_other = _strict if engine == "fp32" else _onnxruntime
    try:
        outputs, results, latencies = run_other(model, done, repeat, num_threads)
    except _Refusal as refusal:
        facts = {"agrees": False, "refused": str(refusal), "outputs": [], "latency_ms": {}, "speedup": None}
        return {"engine": engine, **facts}
    rows = [
        difference(name, ours, theirs, done.report.precision)
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


class _Refusal(Exception):
    """The other engine does not take the model or the inputs. The text is its own."""


_Other = tuple[list[str], list[Array], list[float]]
"""Names of outputs, outputs, and seconds of calls."""


def _onnxruntime(model: ModelFile, done: Run, repeat: int, num_threads: int) -> _Other:
    if model.suffix != ".onnx":
        raise UsageError(D0402, f"{model.name} is not an ONNX model, so onnxruntime cannot run it")
    session = _session(model, num_threads)
    args = list(done.arguments.arrays.values())
    wanted = [node.name for node in session.get_inputs()]
    if len(wanted) != len(args):
        raise _Refusal(f"the call: it takes {len(wanted)} inputs, and the model has {len(args)} here")
    feeds = dict(zip(wanted, args, strict=True))
    try:
        results, latencies = timed(lambda: session.run(None, feeds), [], repeat)
    except _refusals() as error:
        raise _Refusal(f"the call: {error}") from error
    return [node.name for node in session.get_outputs()], results, latencies


def run_in_onnxruntime(model: Any, feeds: Mapping[str, Array]) -> list[Any]:
    """Run an ONNX model (`onnx.ModelProto`) in ONNX Runtime, without graph optimisations. Return its outputs
    in order.

    Raises: UsageError D0402 if ONNX Runtime rejects the model or the inputs; MissingDependencyError D0401.
    """
    runtime = _runtime()
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, dict(feeds)))
    except _refusals() as error:
        raise UsageError(D0402, f"onnxruntime refuses the model or its inputs: {error}") from error


def _strict(model: ModelFile, done: Run, repeat: int, _num_threads: int) -> _Other:
    """The model compiled anew for the same target and mode, without any rounding of factors."""
    if model.is_compiled:
        raise UsageError(
            D0402,
            f"{model.name} is compiled already, in one precision",
            help="compare the model that it was made from",
        )
    options = CompileOptions(done.report.target, exec_mode=done.exec_mode, trust=done.trust)
    executable = load_or_compile(model, options).executable
    call = machine_for(executable)[done.function]
    value, latencies = timed(call, list(done.arguments.arrays.values()), repeat)
    return *named_outputs(signature_of(executable, done.function), value), latencies


def compare_precisions(
    mod: Any,
    args: Sequence[Any],
    precision: str = "bf16",
    function: str = "main",
    target: Any = None,
    params: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Compare a graph module's outputs in `precision` with strict float32. Return one row of `difference` per
    output.

    `args` are arrays. `params` are parameters by name that become constants, as in `heddle.compile`. Raises:
    the errors of `heddle.compile`; TypeError or ValueError for arguments that the function does not accept.
    """
    from heddle.driver.compile import build_for  # a compiled file is compared without the compiler
    from heddle.driver.targets import as_target

    results: list[list[Array]] = []
    names: list[str] = []
    for each in (precision, "fp32"):
        executable = build_for(mod, as_target(target), params, precision=each)
        value = machine_for(executable)[function](*args)
        names, arrays = named_outputs(signature_of(executable, function), value)
        results.append(arrays)
    rows = zip(names, *results, strict=True)
    return [difference(name, ours, theirs, precision) for name, ours, theirs in rows]


def _session(model: ModelFile, num_threads: int) -> Any:
    runtime = _runtime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(str(model.path), options, providers=["CPUExecutionProvider"])
    except _refusals() as error:
        raise _Refusal(f"the model: {error}") from error


def _runtime() -> Any:
    try:
        import onnxruntime  # an extra: only a comparison with it needs it
    except ImportError as error:
        raise MissingDependencyError(
            D0401, "comparing needs the package 'onnxruntime'", help=pip_install("bench")
        ) from error
    return onnxruntime


def _refusals() -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises for models and inputs that it cannot take: classes without a common base."""
    from onnxruntime.capi import onnxruntime_pybind11_state  # an extra: only a comparison with it needs it

    own = vars(onnxruntime_pybind11_state).values()
    kinds = (kind for kind in own if isinstance(kind, type) and issubclass(kind, Exception))
    return (RuntimeError, ValueError, TypeError, *kinds)


def difference(name: str, ours: Array, theirs: Array, precision: str = "fp32") -> dict[str, Any]:
    """Return how far two outputs differ, and whether this is within the tolerance of their dtype and of the
    precision in which Heddle's output was computed.

    Errors are computed over the elements that are finite in both, magnitudes over the finite expected
    elements; without any they are None. Infinities (with their signs) and NaN must be at the same positions.
    """
    row: dict[str, Any] = {"name": name, "agrees": False, **dict.fromkeys(FIGURES)}
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        row["reason"] = f"expected {theirs.dtype} {theirs.shape}, got {ours.dtype} {ours.shape}"
        return row
    if ours.size == 0:
        return row | {"agrees": True, **dict.fromkeys(FIGURES, 0.0)}
    if ours.dtype == object:  # texts
        return row | {"agrees": bool((ours == theirs).all())}
    relative, absolute = TOLERANCES.get(str(ours.dtype), (0.0, 0.0))
    if ours.dtype == np.float32:
        relative, absolute = PRECISION_TOLERANCES.get(precision, (relative, absolute))
    expected, got = theirs.astype(np.float64), ours.astype(np.float64)
    known, finite = np.isfinite(expected), np.isfinite(expected) & np.isfinite(got)
    agrees = np.array_equal(expected[~finite], got[~finite], equal_nan=True)
    if not agrees:
        row["reason"] = "infinities or NaN are not in the same places"
    if not finite.any():
        return {"reason": "no element is finite in both"} | row | {"agrees": agrees}
    with np.errstate(over="ignore"):  # differences of the largest float64
        scales, errors = np.abs(expected[known]), np.abs(got[finite] - expected[finite])
        bounds = relative * np.abs(expected[finite]) + absolute * scales.max()
        figures = (
            errors.max(),
            scales.max(),
            _ratio(errors.max(), scales.max()),
            _ratio(errors.mean(), scales.mean()),
        )
    exact = ours.dtype.kind not in "iu" or np.array_equal(ours, theirs)  # beyond 2**53
    agrees = agrees and exact and bool((errors <= bounds).all())
    return row | {"agrees": agrees, **dict(zip(FIGURES, map(_figure, figures), strict=True))}


def _figure(value: Any) -> float | None:
    """A figure as JSON has it: None where it is no finite number."""
    return None if value is None or not np.isfinite(value) else float(value)


def _ratio(error: float, scale: float) -> float | None:
    """An error by a scale; None where a zero was expected and something else came."""
    return error / scale if scale else 0.0 if not error else None
