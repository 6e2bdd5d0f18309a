"""Relay programs for one of their executors: what `--executor` of the command line does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heddle.driver.codes import D0102, D0301
from heddle.driver.compile import function_signature
from heddle.driver.disassembly import bytecode_text
from heddle.driver.models import ModelFile, import_model, relay_module
from heddle.driver.pipeline import default_pipeline
from heddle.driver.relay_build import build, graph_factory
from heddle.driver.relay_vm import compile_functions, executable_of
from heddle.driver.run import Compiled, CompileOptions, load_or_compile
from heddle.driver.signature import METADATA_PREFIX
from heddle.driver.static_programs import Described, Factory, call_of
from heddle.driver.targets import as_target
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.transform import PassContext
from heddle.relay.executor import create_executor
from heddle.runtime.shape import Array
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.vm.graph.aot import AotExecutorFactoryModule

EXECUTORS = ("vm", "graph", "aot", "interpreter")
_PROFILES = ("profile", "profile_json", "chrome_trace")


def refuse_others(executor: str, **options: Any) -> None:
    """Raises: UsageError D0301 for options that were given, and that an executor leaves without a meaning. A
    machine has profiles."""
    for name, value in options.items():
        if value and not (executor == "vm" and name in _PROFILES):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(D0301, f"{option} is not for --executor {executor}", help="leave one out")


def compile_relay(model: ModelFile, executor: str, function: str, options: CompileOptions) -> Compiled:
    """A function of a Relay program for an executor, to be run.

    Raises: UsageError D0301 for another kind of model, an executor that there is not, or a target without a
    meaning; D0102 for a function that the program lacks; else as `relay.build` and `import_model`.
    """
    if executor == "vm":
        return _for_machine(model, options, function)
    start = time.perf_counter()
    mod, graph = _imported(model, executor, function, options)
    imported = time.perf_counter()
    if executor == "interpreter":
        call, text = _interpreter(mod, function), mod.astext()
    else:
        factory = _factory(mod, executor, function, options)
        call, text = call_of(factory), getattr(factory, "graph_json", "")
    phases = {"import": imported - start, "compile": time.perf_counter() - imported}
    found = graph.get(function)
    known = {} if found is None else {METADATA_PREFIX + function: function_signature(found).to_json()}
    made: Any = Described(known, text)
    return Compiled(made, phases, options.target, trust=options.trust, call=call)


def relay_to_file(
    model: ModelFile, executor: str, output: Path, targets: Sequence[str], options: CompileOptions
) -> dict[str, Any]:
    """Compile a Relay program for an executor, and write what `heddle run` takes. Return the facts to report.

    Raises: UsageError D0301 for the interpreter, for several targets and for a file of C, and as
    `compile_relay`.
    """
    if executor == "interpreter":
        raise UsageError(D0301, "--executor interpreter compiles nothing", help="vm, graph and aot do")
    if len(targets) > 1 or output.suffix.lower() == ".c":
        what = "one target" if len(targets) > 1 else "a name that ends in .heddle"
        raise UsageError(D0301, f"--executor {executor} takes {what}", help="without --executor, others do")
    options = replace(options, target=targets[0] if targets else None)
    start = time.perf_counter()
    if executor == "vm":
        made: Any = _for_machine(model, options).executable
    else:
        mod, _ = _imported(model, executor, "main", options)
        with PassContext(instruments=options.instruments):
            made = _factory(mod, executor, "main", options)
    made.export_library(output)
    seconds = time.perf_counter() - start
    return {
        "model": model.name,
        "output": str(output),
        "executor": executor,
        "target": str(as_target(options.target)),
        "variants": [],
        "size_bytes": output.stat().st_size,
        "compile_s": seconds,
    }


def machine_program(model: ModelFile, executor: str, options: CompileOptions) -> Compiled:
    """A Relay program with instructions: for Relay's machine, or what the ahead-of-time executor runs.

    Raises: UsageError D0301 for an executor without instructions, and as `compile_relay`.
    """
    _check(model, executor, options)
    if executor not in ("vm", "aot"):
        raise UsageError(
            D0301, f"--executor {executor} has no instructions and no registers", help="vm and aot have"
        )
    return _for_machine(model, options) if executor == "vm" else load_or_compile(model, options)


def program_text(model: ModelFile, executor: str, function: str | None, options: CompileOptions) -> str:
    """What an executor runs: instructions, the graph as JSON, or, of the interpreter, the program with its
    types. Raises: as `compile_relay`."""
    if executor in ("graph", "interpreter"):
        made: Any = compile_relay(model, executor, function or "main", options).executable
        return str(made.text)
    found = machine_program(model, executor, options).executable
    return bytecode_text(found.as_text(with_bytecode=True), function)


def _check(model: ModelFile, executor: str, options: CompileOptions) -> None:
    if executor not in EXECUTORS:
        raise UsageError(
            D0301,
            f"there is no executor {executor!r}: expected one of {', '.join(EXECUTORS)}",
            help=did_you_mean(executor, EXECUTORS),
        )
    if model.suffix != ".relay":
        raise UsageError(D0301, f"{model.name} is no Relay program: --executor is for PATH.relay")
    if executor == "interpreter" and options.target is not None:
        raise UsageError(D0301, "--target is not for --executor interpreter, which compiles nothing")


def _imported(
    model: ModelFile, executor: str, function: str | None, options: CompileOptions
) -> tuple[IRModule, IRModule]:
    """A Relay program, and its graph, which is checked like that of any model."""
    _check(model, executor, options)
    mod = relay_module(model)
    graph = import_model(model, trust=options.trust)
    known = [var.name_hint for var in mod.functions]
    if function is not None and function not in known:
        text = f"the model has no function {function!r}: it has {', '.join(known) or 'none'}"
        raise UsageError(D0102, text, help=did_you_mean(function, known))
    return mod, graph


def _for_machine(model: ModelFile, options: CompileOptions, function: str | None = None) -> Compiled:
    """A Relay program for Relay's machine."""
    start = time.perf_counter()
    _, graph = _imported(model, "vm", function, options)
    imported, target = time.perf_counter(), as_target(options.target)
    with PassContext(instruments=options.instruments, disabled_pass=options.disabled_passes):
        made: Any = executable_of(graph, default_pipeline(target, options.precision, "bytecode"), target)
    phases = {"import": imported - start, "compile": time.perf_counter() - imported}
    return Compiled(made, phases, str(target), exec_mode="bytecode", trust=options.trust)


def _factory(mod: IRModule, executor: str, function: str, options: CompileOptions) -> Factory:
    if executor == "graph":
        made = compile_functions(_as_main(mod, function), ["main"], options.target)
        return graph_factory(made)
    found: AotExecutorFactoryModule = build(_as_main(mod, function), options.target, executor=executor)
    return found


def _as_main(mod: IRModule, function: str) -> IRModule:
    """The module with a function as its main."""
    if function == "main":
        return mod
    main = GlobalVar("main") if mod.get("main") is None else mod.get_global_var("main")
    return mod.with_functions({**mod.functions, main: mod[function]})


def _interpreter(mod: IRModule, function: str) -> Callable[..., Any]:
    run = create_executor("debug", mod).evaluate(mod.get_global_var(function))
    return lambda *args: _values(run(*args))


def _values(value: Any) -> Any:
    return Array(map(_values, value)) if isinstance(value, tuple) else value
