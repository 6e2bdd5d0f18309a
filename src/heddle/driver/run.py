"""Load or compile a model, run it, measure it: what `heddle run` and `heddle compile` do.

Over 450 lines: two commands share how a model is loaded, compiled and reported.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from heddle.driver import c_interface
from heddle.driver.codes import D0102, D0107, D0301
from heddle.driver.inputs import Arguments, Array, make_arguments
from heddle.driver.machines import machine_for
from heddle.driver.models import ModelFile, import_model
from heddle.driver.signature import METADATA_PREFIX, PRECISION, Signature, signature_from_json
from heddle.driver.static_programs import Described, Factory, call_of, program_of
from heddle.driver.values import as_arrays
from heddle.runtime.codes import U0509
from heddle.runtime.device import cpu
from heddle.runtime.function import Function
from heddle.runtime.module import is_linked, load_module
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.runtime.native.object_format import check_library
from heddle.runtime.storage import allocator_for
from heddle.runtime.variants import VariantsModule
from heddle.support.diagnostics import FormatError, UsageError, did_you_mean
from heddle.support.frozen import frozen
from heddle.vm.capabilities import check_program
from heddle.vm.executable import LIBRARY_PREFIX, Executable
from heddle.vm.insight.peak_memory import peak_memory_bytes as peak_memory_bound
from heddle.vm.relax import VMExecutable


@frozen
class CompileOptions:
    """Options of compiling or loading a model.

    `target` is a target's text. `listener` receives the progress (see `heddle.driver.phases`).
    `disabled_passes` are removed from the pipeline. `exec_mode` and `precision` are those of
    `heddle.compile`. `variant` selects a variant of a compiled model; the default is the one that this
    machine runs. With `trust` the model is run like the user's own program. With `public_key` a compiled
    model is loaded only if the key's owner signed it. `instruments` observe the passes of a model that is not
    compiled yet. `prefix` is the symbol prefix of a library.
    """

    target: str | None = None
    listener: Callable[[Any], None] | None = None
    disabled_passes: tuple[str, ...] = ()
    exec_mode: str = "compiled"
    precision: str = "fp32"
    variant: str | None = None
    trust: bool = False
    sanitize: bool = False
    instruments: tuple[Any, ...] = ()
    public_key: Path | None = None
    prefix: str = ""


@frozen
class Compiled:
    """An executable, and the time in seconds of each phase of getting it. `exec_mode` is the mode in which it
    was compiled; it has no meaning for an executable from a file. `call` runs the program if it is not for a
    Relax VM."""

    executable: Executable
    phases_s: Mapping[str, float]
    target: str | None = None
    kernels: Mapping[str, int] = field(default_factory=dict)
    exec_mode: str = "compiled"
    trust: bool = False
    call: Callable[..., Any] | None = None

    @property
    def total_s(self) -> float:
        """Seconds of all phases of the compilation."""
        return sum(self.phases_s.values())


@frozen
class ValueSummary:
    """A summary of an argument or result. Statistics are over finite elements; None if there are none."""

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
    """The report of `heddle run`. Names contain the units."""

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
    variant: str = ""

    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)


@frozen
class CompiledVariants:
    """A program compiled for several targets and where the time went. Units: seconds."""

    executable: VariantsModule
    phases_s: Mapping[str, float]
    kernels: Mapping[str, int]


def load_or_compile(model: ModelFile, options: CompileOptions) -> Compiled:
    """Return the executable of a model. A compiled model is loaded without importing the compiler.

    Raises: UsageError D0301 for a compiled graph; else as `load_program`.
    """
    return check_machine(model.name, load_program(model, options))


def check_machine(name: str, compiled: Compiled) -> Compiled:
    """Return a program that a machine runs. Raises: UsageError D0301 for a graph."""
    if isinstance(compiled.executable, Described):
        raise UsageError(
            D0301,
            f"{name} is a program for the graph executor, which has no instructions and no registers",
            help="`heddle run` runs it; with --executor vm or aot the program is one for a machine",
        )
    return compiled


def load_program(model: ModelFile, options: CompileOptions) -> Compiled:
    """Return the program of a model, for a machine or an executor. A compiled model is loaded without
    importing the compiler.

    Raises: FormatError D0102 for a file with another module; UsageError S0401, D0301; the errors of loading
    and compiling.
    """
    if model.is_compiled:
        start = time.perf_counter()
        loaded = load_module(model.path, options.variant, public_key=options.public_key)
        if not isinstance(loaded, Executable | Factory):
            raise FormatError(
                D0102, f"{model.name} holds a module of kind {loaded.kind!r}, which is no model"
            )
        if not options.trust:
            check_program(loaded, model.name)
        found: Any = program_of(loaded) if isinstance(loaded, Factory) else loaded
        call = call_of(loaded) if isinstance(loaded, Factory) else None
        targets = [getattr(kernels, "target", None) for kernels in found.imports]
        target = found.variant_target or (targets[0] if targets else None)
        return Compiled(found, {"load": time.perf_counter() - start}, target, call=call)
    check_no_variant(model, options.variant)
    if options.public_key is not None:
        raise UsageError(
            D0301, f"{model.name} is not compiled; --require-signature is for files with machine code"
        )
    return _compile(model, options)


def check_uncompiled(model: ModelFile, **options: str | None) -> ModelFile:
    """Return the model if it is not compiled yet, so that compiler options apply. Options that were not given
    are None.

    Raises: UsageError D0301 for a compiled model, with the options that were given.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if model.is_compiled and given:
        names = f"{' and '.join(given)} {'are' if len(given) > 1 else 'is'}"
        raise UsageError(D0301, f"{model.name} is compiled already; {names} for models that are not compiled")
    return model


def check_no_variant(model: ModelFile, variant: str | None) -> None:
    """Raises: UsageError D0301 where a variant is asked of a model that has none yet."""
    if variant is not None:
        raise UsageError(D0301, f"{model.name} is not compiled yet; --variant is for compiled models")


def _compile(model: ModelFile, options: CompileOptions) -> Compiled:
    from heddle.driver.phases import PhaseClock, ignore  # a compiled file is loaded without the compiler
    from heddle.driver.targets import as_target

    target = as_target(options.target)
    clock = PhaseClock(target, options.listener or ignore)
    clock.enter("import", model.name)
    mod = import_model(model, trust=options.trust)
    if options.prefix:
        mod = mod.with_attr(LIBRARY_PREFIX, options.prefix)
    return _compile_module(mod, target, options, clock)


def _compile_module(mod: Any, target: Any, options: CompileOptions, clock: Any) -> Compiled:
    """Compile what was imported for one target. The clock runs already, and is stopped."""
    from heddle.codegen.cache import kernel_cache  # a compiled file is loaded without the compiler
    from heddle.driver.compile import build_for
    from heddle.driver.program_cache import program_cache
    from heddle.ir.transform import PassContext

    counters, programs = kernel_cache().counters, program_cache()
    before = (counters.compiles, counters.hits, programs.hits)
    clock.enter("look up", str(target))
    with PassContext(instruments=[clock, *options.instruments], disabled_pass=options.disabled_passes):
        executable = build_for(
            mod,
            target,
            exec_mode=options.exec_mode,
            precision=options.precision,
            sanitize=options.sanitize,
        )
    clock.stop()
    kernels = {"compiled": counters.compiles - before[0], "cached": counters.hits - before[1]}
    if programs.hits > before[2]:
        kernels["cached"] = sum(len(each.function_names()) for each in executable.imports)
    return Compiled(executable, clock.seconds, str(target), kernels, options.exec_mode, options.trust)


def compile_variants(model: ModelFile, targets: Sequence[str], options: CompileOptions) -> CompiledVariants:
    """Compile a model for several targets. It is imported once. `options.target` is ignored."""
    from heddle.driver.phases import (  # a compiled file is loaded without the compiler
        PhaseClock,
        Progress,
        ignore,
    )
    from heddle.driver.variants import make_variants, targets_of

    chosen, listener = targets_of(targets), options.listener or ignore
    start = time.perf_counter()
    listener(Progress("import", model.name))
    mod = import_model(model, trust=options.trust)
    seconds, kernels = Counter({"import": time.perf_counter() - start}), Counter[str]()

    def make(target: Any) -> VMExecutable:
        own = PhaseClock(target, listener)
        own.enter("optimize", str(target))
        compiled = _compile_module(mod, target, options, own)
        seconds.update(compiled.phases_s)
        kernels.update(compiled.kernels)
        assert isinstance(compiled.executable, VMExecutable)
        return compiled.executable

    return CompiledVariants(make_variants(chosen, make), seconds, kernels)


def compile_to_file(
    model: ModelFile,
    output: Path,
    targets: Sequence[str],
    options: CompileOptions,
    with_arena: bool = False,
    with_main: bool = False,
) -> dict[str, Any]:
    """Compile a model for one target (default: this machine) or several, and write the file. For a library,
    also write its header and, with `with_main`, `main.c`. Return the facts to report.

    Raises: UsageError U0509 for a library of several targets, D0107 for a C file if the target is not C,
    D0109 for headers and programs that cannot be written, D0301 for options of libraries without a library.
    """
    made: Compiled | CompiledVariants
    if is_linked(output):
        c_interface.check_own_header(output)
        if with_main:
            c_interface.check_no_main(output)
    elif with_main or options.prefix:
        name = "--main" if with_main else "--prefix"
        raise UsageError(D0301, f"{name} is for libraries, and {output.name} is none", help="-o model.so")
    if output.suffix.lower() == ".c":
        return _compile_to_c(model, output, targets, options, with_arena)
    if with_arena:
        raise UsageError(D0107, f"--arena is for C files, and {output.name} is none", help="-o model.c")
    if len(targets) > 1:
        check_no_library(output, targets)
        made = compile_variants(model, targets, options)
        target, names = None, list(made.executable.names)
    else:
        if is_linked(output):
            from heddle.driver.targets import as_target  # a compiled file is loaded without the compiler

            check_library(output.name, as_target(targets[0] if targets else None).mtriple)
        made = load_or_compile(model, replace(options, target=targets[0] if targets else None))
        target, names = made.target, []
    made.executable.export_library(output)
    facts = _c_facts(made, output, options.prefix, with_main) if isinstance(made, Compiled) else {}
    return {
        **facts,
        "model": model.name,
        "output": str(output),
        "target": target,
        "variants": names,
        "size_bytes": output.stat().st_size,
        "compile_s": sum(made.phases_s.values()),
        "phases_s": dict(made.phases_s),
        "kernels": dict(made.kernels),
    }


def _c_facts(made: Compiled, output: Path, prefix: str, with_main: bool) -> dict[str, Any]:
    """Write the C files of a library and tell of them; nothing for another file."""
    if not is_linked(output):
        return {}
    metadata = made.executable.metadata
    known = {
        name.removeprefix(METADATA_PREFIX): text
        for name, text in metadata.items()
        if name.startswith(METADATA_PREFIX)
    }
    facts = {"header": str(c_interface.write_header(output, known, prefix))}
    if with_main:
        facts["main"] = str(c_interface.write_main(output, known, prefix))
        facts["cc"] = c_interface.cc_line(output)
    return facts


def _compile_to_c(
    model: ModelFile, output: Path, targets: Sequence[str], options: CompileOptions, with_arena: bool
) -> dict[str, Any]:
    from heddle.driver.c_program import write_c_program  # a compiled file is loaded without the compiler
    from heddle.driver.targets import as_target

    chosen = [as_target(target) for target in targets]
    if len(chosen) != 1 or chosen[0].kind.name != "c" or options.exec_mode != "compiled":
        raise UsageError(
            D0107,
            f"{output.name} is to be C, which one target of kind c with exec_mode compiled makes",
            help=f"heddle compile {model.name} --target c -o {output.name}",
        )
    made = load_or_compile(model, replace(options, target=targets[0]))
    assert isinstance(made.executable, VMExecutable)
    files = write_c_program(made.executable, output, with_arena)
    return {
        "model": model.name,
        "output": str(output),
        "weights": None if files.weights is None else str(files.weights),
        "target": made.target,
        "variants": [],
        "size_bytes": files.source_bytes,
        "constant_bytes": files.constant_bytes,
        "arena_bytes": files.arena_bytes,
        "compile_s": sum(made.phases_s.values()),
        "phases_s": dict(made.phases_s),
        "kernels": dict(made.kernels),
    }


def check_no_library(output: Path, targets: Sequence[str]) -> None:
    """Raises: UsageError U0509 where a library would have to hold programs for several targets."""
    if is_linked(output):
        raise UsageError(
            U0509,
            f"a library holds a program for one target, and {output} is to be for {len(targets)}",
            help=f"name one target for each library, or give the output another name, such as "
            f"{output.with_suffix('.heddle').name}",
        )


def signature_of(executable: Executable, function: str) -> Signature:
    """Return the signature of a function. Raises: UsageError D0102 if there is no such function."""
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


@frozen
class RunOptions:
    """Options of a run. `given` are arrays by input name, `dims` values of symbolic dimensions, `repeat` the
    number of timed calls."""

    function: str = "main"
    given: Mapping[str, Array] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    repeat: int = 10
    num_threads: int | None = None


@frozen
class Run:
    """The result of a run: the report, the arguments, the results as arrays, and the execution mode."""

    report: RunReport
    arguments: Arguments
    results: list[Array]
    function: str = "main"
    exec_mode: str = "compiled"
    trust: bool = False

    def named_results(self) -> list[tuple[ValueSummary, Array]]:
        """The results, and what the report says of each."""
        return list(zip(self.report.outputs, self.results, strict=True))


def run(model: ModelFile, compiled: Compiled, options: RunOptions) -> Run:
    """Run a function of an executable on given or random arguments and measure it."""
    signature = signature_of(compiled.executable, options.function)
    arguments = make_arguments(signature, options.given, options.dims, options.seed)
    if options.num_threads is not None:
        set_num_threads(options.num_threads)
    call = compiled.call or machine_for(compiled.executable)[options.function]
    value, latencies = timed(call, list(arguments.arrays.values()), options.repeat)
    names, results = named_outputs(signature, value)
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
        outputs=[summary(name, array) for name, array in zip(names, results, strict=True)],
        latency_ms=latency_summary(latencies),
        repeat=options.repeat,
        peak_memory_bytes=peak_memory_bytes(),
        peak_tensor_bytes=allocator_for(cpu()).books.peak_bytes,
        peak_bound_bytes=peak_memory_bound(compiled.executable.metadata, options.function, arguments.dims),
        precision=compiled.executable.metadata.get(PRECISION, "fp32"),
        variant=compiled.executable.variant,
    )
    return Run(report, arguments, results, options.function, compiled.exec_mode, compiled.trust)


def named_outputs(signature: Signature, value: Any) -> tuple[list[str], list[Array]]:
    """The names of a function's outputs and what they are, of what it returned. The parts of a sequence are
    numbered. Raises: UsageError D0204 for an output that is no array.
    """
    names, arrays = list[str](), list[Array]()
    for spec, output in zip(signature.outputs, signature.values(value), strict=True):
        found = as_arrays(output)
        is_one = len(found) == 1
        names += [spec.name] if is_one else [f"{spec.name}.{index}" for index in range(len(found))]
        arrays += found
    return names, arrays


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


def summary(name: str, array: Array) -> ValueSummary:
    """Shape, dtype and statistics."""
    if array.dtype == object:
        return ValueSummary(name, "string", array.shape)
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
