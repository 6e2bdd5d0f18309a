"""Load or compile a model, run it, measure it: what `heddle run` and `heddle compile` do."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from heddle.driver.codes import D0102, D0204
from heddle.driver.inputs import Arguments, Array, make_arguments
from heddle.driver.models import ModelFile, import_model
from heddle.driver.signature import METADATA_PREFIX, PRECISION, Signature, signature_from_json
from heddle.runtime.device import cpu
from heddle.runtime.function import Function
from heddle.runtime.module import load_module
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.runtime.shape import Array as ValueArray
from heddle.runtime.shape import Shape
from heddle.runtime.storage import allocator_for
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import FormatError, UsageError, did_you_mean
from heddle.vm.relax import VirtualMachine, VMExecutable
from heddle.vm.relax.insight.peak_memory import peak_memory_bytes as peak_memory_bound


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """`target` is a target's text; `listener` is told of progress (see `heddle.driver.phases`);
    `disabled_passes` are left out of the pipeline; `exec_mode` and `precision` are those of
    `heddle.compile`.
    """

    target: str | None = None
    listener: Callable[[Any], None] | None = None
    disabled_passes: tuple[str, ...] = ()
    exec_mode: str = "compiled"
    precision: str = "fp32"


@dataclass(frozen=True, slots=True)
class Compiled:
    """An executable and where the time to get it went. Units: seconds."""

    executable: VMExecutable
    phases_s: Mapping[str, float]
    target: str | None = None
    kernels: Mapping[str, int] = field(default_factory=dict)

    @property
    def total_s(self) -> float:
        return sum(self.phases_s.values())


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """An argument or result in a line. Statistics are over finite elements; None where there are none."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    num_not_finite: int = 0


@dataclass(slots=True)
class RunReport:
    """All that `heddle run` tells. Units are in the names."""

    model: str
    target: str | None
    num_threads: int
    dims: dict[str, int]
    assumed_dims: tuple[str, ...]
    compile_s: float
    phases_s: dict[str, float]
    kernels: dict[str, int]
    inputs: list[ValueSummary]
    outputs: list[ValueSummary]
    latency_ms: dict[str, float]
    repeat: int
    peak_memory_bytes: int
    peak_tensor_bytes: int
    peak_bound_bytes: int | None = None
    precision: str = "fp32"
    comparison: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def load_or_compile(model: ModelFile, options: CompileOptions) -> Compiled:
    """The executable of a model. A compiled model loads without any of the compiler's rooms."""
    if model.is_compiled:
        start = time.perf_counter()
        loaded = load_module(model.path)
        if not isinstance(loaded, VMExecutable):
            raise FormatError(
                D0102, f"{model.name} holds a module of kind {loaded.kind!r}, which is no model"
            )
        targets = [getattr(kernels, "target", None) for kernels in loaded.imports]
        return Compiled(loaded, {"load": time.perf_counter() - start}, targets[0] if targets else None)
    return _compile(model, options)


def _compile(model: ModelFile, options: CompileOptions) -> Compiled:
    from heddle.codegen.cache import kernel_cache
    from heddle.driver.compile import as_target, build
    from heddle.driver.phases import PhaseClock, ignore
    from heddle.ir.transform import PassContext

    target = as_target(options.target)
    clock = PhaseClock(target, options.listener or ignore)
    counters = kernel_cache().counters
    before = (counters.compiles, counters.hits)
    clock.enter("import", model.name)
    mod = import_model(model)
    with PassContext(instruments=[clock], disabled_pass=options.disabled_passes):
        executable = build(mod, target, exec_mode=options.exec_mode, precision=options.precision)
    clock.stop()
    kernels = {"compiled": counters.compiles - before[0], "cached": counters.hits - before[1]}
    return Compiled(executable, clock.seconds, str(target), kernels)


def signature_of(executable: VMExecutable, function: str) -> Signature:
    """What a function takes. Raises: UsageError D0102 where there is no such function."""
    text = executable.metadata.get(METADATA_PREFIX + function)
    if text is None:
        known = [
            name.removeprefix(METADATA_PREFIX)
            for name in executable.metadata
            if name.startswith(METADATA_PREFIX)
        ]
        raise UsageError(
            D0102,
            f"the model has no function {function!r}: it has {', '.join(known) or 'none'}",
            help=did_you_mean(function, known),
        )
    return signature_from_json(text)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`given` are arrays by input name, `dims` values of symbolic dimensions, `repeat` the number of timed
    calls.
    """

    function: str = "main"
    given: Mapping[str, Array] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    repeat: int = 10
    num_threads: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What a run gave: the report, the arguments, and the results as arrays."""

    report: RunReport
    arguments: Arguments
    results: list[Array]
    function: str = "main"


def run(model: ModelFile, compiled: Compiled, options: RunOptions) -> Run:
    """Run a function of an executable on given or made-up arguments and measure it."""
    signature = signature_of(compiled.executable, options.function)
    arguments = make_arguments(signature, options.given, options.dims, options.seed)
    if options.num_threads is not None:
        set_num_threads(options.num_threads)
    call = VirtualMachine(compiled.executable, cpu())[options.function]
    value, latencies = timed(call, list(arguments.arrays.values()), options.repeat)
    results = as_arrays(value)
    names = output_names(signature, len(results))
    report = RunReport(
        model=model.name,
        target=compiled.target,
        num_threads=native_library().num_threads,
        dims=arguments.dims,
        assumed_dims=arguments.assumed,
        compile_s=compiled.total_s,
        phases_s=dict(compiled.phases_s),
        kernels=dict(compiled.kernels),
        inputs=[summary(name, array) for name, array in arguments.arrays.items()],
        outputs=[summary(name, array) for name, array in zip(names, results, strict=False)],
        latency_ms=latency_summary(latencies),
        repeat=options.repeat,
        peak_memory_bytes=peak_memory_bytes(),
        peak_tensor_bytes=allocator_for(cpu()).books.peak_bytes,
        peak_bound_bytes=peak_memory_bound(compiled.executable.metadata, options.function, arguments.dims),
        precision=compiled.executable.metadata.get(PRECISION, "fp32"),
    )
    return Run(report, arguments, results, options.function)


def output_names(signature: Signature, count: int) -> list[str]:
    """The names of a function's results, flattened; those that have none are numbered."""
    names = [spec.name for spec in signature.outputs]
    return names + [f"output_{index}" for index in range(len(names), count)]


def timed(call: Function | Callable[..., Any], args: list[Any], repeat: int) -> tuple[Any, list[float]]:
    """The result of a warm-up call and the seconds of `repeat` calls after it."""
    value = call(*args)
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        call(*args)
        seconds.append(time.perf_counter() - start)
    return value, seconds


def latency_summary(seconds: list[float]) -> dict[str, float]:
    """Median, least and greatest, in milliseconds."""
    if not seconds:
        return {}
    figures = np.asarray(seconds) * 1e3
    return {"median": float(np.median(figures)), "min": float(figures.min()), "max": float(figures.max())}


def as_arrays(value: Any) -> list[Array]:
    """Results as arrays: tuples are flattened, shapes and numbers become integer arrays."""
    if isinstance(value, Tensor):
        return [value.numpy()]
    if isinstance(value, ValueArray):
        return [array for item in value for array in as_arrays(item)]
    if isinstance(value, Shape):
        return [np.asarray(tuple(value), np.int64)]
    if isinstance(value, (int, float)):
        return [np.asarray(value)]
    raise UsageError(D0204, f"a result of type {type(value).__name__} cannot be shown as an array")


def summary(name: str, array: Array) -> ValueSummary:
    """Shape, dtype and statistics."""
    if array.size == 0:
        return ValueSummary(name, str(array.dtype), array.shape)
    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    lost = int(values.size - finite.size)
    if finite.size == 0:
        return ValueSummary(name, str(array.dtype), array.shape, num_not_finite=lost)
    figures = (float(finite.mean()), float(finite.std()), float(finite.min()), float(finite.max()))
    return ValueSummary(name, str(array.dtype), array.shape, *figures, lost)


def peak_memory_bytes() -> int:
    """The process's largest resident set so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
