"""Running the text of a Relay program with one of its executors: what `heddle run --executor` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.driver.codes import D0102, D0301
from heddle.driver.compile import function_signature
from heddle.driver.models import ModelFile, import_model, relay_module
from heddle.driver.relay_build import build, graph_factory
from heddle.driver.relay_vm import compile_functions
from heddle.driver.run import Compiled, CompileOptions
from heddle.driver.signature import METADATA_PREFIX
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.relay.executor import create_executor
from heddle.runtime.device import cpu
from heddle.runtime.shape import Array
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.support.frozen import frozen
from heddle.vm.graph.aot import AotExecutor
from heddle.vm.program_devices import machine_devices
from heddle.vm.relay import VirtualMachine

EXECUTORS = ("vm", "graph", "aot", "interpreter")


@frozen
class _Described:
    """What a report asks of an executable, of a program that is none."""

    metadata: Mapping[str, str]
    variant: str = ""


_OTHERS = (
    *("exec-mode", "precision", "compare", "sanitize", "profile", "profile-json", "chrome-trace"),
    *("variant", "require-signature"),
)


def refuse_others(*values: Any) -> None:
    """Raises: UsageError D0301 for the options of `heddle run` in `_OTHERS` that were given."""
    for name, value in zip(_OTHERS, values, strict=True):
        if value:
            raise UsageError(D0301, f"--{name} is not for --executor, which runs a program as it is")


def compile_relay(model: ModelFile, executor: str, function: str, options: CompileOptions) -> Compiled:
    """A function of a Relay program for an executor.

    Raises: UsageError D0301 for another kind of model, or an executor that there is not; D0102 for a function
    that the program lacks; else as `relay.build` and `import_model`.
    """
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
    start = time.perf_counter()
    mod = relay_module(model)
    graph = import_model(model, trust=options.trust)
    known = [var.name_hint for var in mod.functions]
    if function not in known:
        text = f"the model has no function {function!r}: it has {', '.join(known) or 'none'}"
        raise UsageError(D0102, text, help=did_you_mean(function, known))
    imported = time.perf_counter()
    call = _MAKE[executor](mod, function, options.target)
    compiled = time.perf_counter()
    found = graph.get(function)
    metadata = {}
    if found is not None:
        signature = function_signature(found)
        metadata[METADATA_PREFIX + function] = signature.to_json()
        if executor in _STATIC:
            call = _in_tuples(call, [spec.path for spec in signature.outputs])
    phases = {"import": imported - start, "compile": compiled - imported}
    executable: Any = _Described(metadata)
    return Compiled(executable, phases, options.target, trust=options.trust, call=call)


def _machine(mod: IRModule, function: str, target: Any) -> Callable[..., Any]:
    made = compile_functions(mod, [function], target)
    machine = VirtualMachine(made, machine_devices(made.metadata))
    found: Callable[..., Any] = machine[function]
    return found


def _as_main(mod: IRModule, function: str) -> IRModule:
    """The module with a function as its main."""
    if function == "main":
        return mod
    main = GlobalVar("main") if mod.get("main") is None else mod.get_global_var("main")
    return mod.with_functions({**mod.functions, main: mod[function]})


def _graph(mod: IRModule, function: str, target: Any) -> Callable[..., Any]:
    executable = compile_functions(_as_main(mod, function), ["main"], target)
    return _static(graph_factory(executable)["default"](cpu()))


def _aot(mod: IRModule, function: str, target: Any) -> Callable[..., Any]:
    made: AotExecutor = build(_as_main(mod, function), target, executor="aot")["default"](cpu())
    return _static(made)


def _static(module: Any) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        for number, arg in enumerate(args):
            module.set_input(number, arg)
        module.run()
        return Array(module.get_output(index) for index in range(module.get_num_outputs()))

    return call


def _in_tuples(call: Callable[..., Any], paths: Sequence[tuple[int, ...]]) -> Callable[..., Any]:
    """A call that gives its outputs in the tuples that the function returns; `call` gives them in one."""
    return lambda *args: _nested(list(paths), call(*args))


def _nested(paths: Sequence[tuple[int, ...]], values: Sequence[Any]) -> Any:
    if list(paths) == [()]:
        return values[0]
    parts: dict[int, list[tuple[tuple[int, ...], Any]]] = {}
    for path, value in zip(paths, values, strict=True):
        parts.setdefault(path[0], []).append((path[1:], value))
    return Array(_nested(*zip(*part, strict=True)) for _, part in sorted(parts.items()))


def _interpreter(mod: IRModule, function: str, target: Any) -> Callable[..., Any]:
    run = create_executor("debug", mod).evaluate(mod.get_global_var(function))
    return lambda *args: _values(run(*args))


def _values(value: Any) -> Any:
    return Array(map(_values, value)) if isinstance(value, tuple) else value


_STATIC = ("graph", "aot")
_MAKE: dict[str, Callable[[IRModule, str, Any], Callable[..., Any]]] = {
    "vm": _machine,
    "graph": _graph,
    "aot": _aot,
    "interpreter": _interpreter,
}
