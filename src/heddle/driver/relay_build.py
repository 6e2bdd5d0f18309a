"""`relay.build`: compile a Relay program for the graph executor, the ahead-of-time executor, or the VM.

All three are compiled like `relay.vm.compile`: `to_relax`, the pipeline, code generation. A program without
control flow is then converted from bytecode to a graph. The ahead-of-time executor runs it as one native
function.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from heddle.driver.codes import D0103
from heddle.driver.compile import compile as compile_program
from heddle.driver.pipeline import OptionError
from heddle.driver.relay_passes import relay_passes
from heddle.driver.relay_vm import VMCompiler, as_module, as_tensors, one_target, with_params
from heddle.driver.signature import METADATA_PREFIX, Signature, TensorSpec, signature_from_json
from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.ir.types import TupleType
from heddle.ops.load import load as load_operators
from heddle.relay.transform.infer_type import InferType
from heddle.runtime.module import Module
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.vm.codes import V0801
from heddle.vm.graph import GraphExecutorFactoryModule, trace_program
from heddle.vm.graph.aot import AotExecutorFactoryModule
from heddle.vm.graph.trace import InputPlan
from heddle.vm.program_devices import devices_listed
from heddle.vm.relay import Executable


class _Choice:
    """A name with options. Raises: OptionError D0103 for others than it knows."""

    _KNOWN: ClassVar[Mapping[str, Mapping[str, type]]] = {}
    flag_registry_name: ClassVar[str] = ""

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        if name not in self._KNOWN:
            raise OptionError(
                D0103,
                f"there is no {self.flag_registry_name} {name!r}",
                help=f"expected {' or '.join(map(repr, self._KNOWN))}",
            )
        known = self._KNOWN[name]
        for key, value in (options or {}).items():
            if key not in known:
                raise OptionError(
                    D0103,
                    f"{self.flag_registry_name} {name!r} has no option {key!r}",
                    help=did_you_mean(key, known),
                )
            if not isinstance(value, known[key]):
                raise OptionError(D0103, f"option {key!r}: expected {known[key].__name__}, got {value!r}")
        self.name, self.options = name, dict(options or {})

    def __getitem__(self, name: str) -> Any:
        """Return the value of an option; None if it was not given."""
        return self.options.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.options

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (other.name, other.options) == (self.name, self.options)

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.options!r})"


class Executor(_Choice):
    """The executor for which a program is built: `Executor("graph")` or `Executor("aot")`. With
    `link-params`, parameters are linked into the library; that of "aot" always has them. `build` refuses the
    options of "aot" that ask for another interface than "packed", or for alignments above 64 bytes."""

    flag_registry_name = "executor"
    _KNOWN: ClassVar[Mapping[str, Mapping[str, type]]] = {
        "graph": {"link-params": bool},
        "aot": {
            "link-params": bool,
            "unpacked-api": bool,
            "interface-api": str,
            "workspace-byte-alignment": int,
            "constant-byte-alignment": int,
        },
    }


class Runtime(_Choice):
    """The C runtime of a library. `Runtime("cpp")` and `Runtime("crt")` are the same in Heddle."""

    flag_registry_name = "runtime"
    _KNOWN: ClassVar[Mapping[str, Mapping[str, type]]] = {
        "cpp": {"system-lib": bool},
        "crt": {"system-lib": bool},
    }


_MAX_ALIGNMENT = 64
"""Bytes by which all memory of a program is aligned, and constants in files."""


def _refuse_what_is_not_built(executor: Executor, runtime: Runtime) -> None:
    """Refuse options that ask for something else than what is built. Raises: OptionError D0103."""
    chosen = {**runtime.options, **executor.options}
    only: dict[str, Any] = {"unpacked-api": False, "interface-api": "packed", "system-lib": False}
    if executor.name == "aot":
        only["link-params"] = True
    for key, value in only.items():
        if chosen.get(key, value) != value:
            raise OptionError(D0103, f"option {key!r} is {value!r} here, got {chosen[key]!r}")
    for key in ("workspace-byte-alignment", "constant-byte-alignment"):
        value = chosen.get(key, 1)
        if value < 1 or _MAX_ALIGNMENT % value:
            raise OptionError(D0103, f"option {key!r} is a power of 2 up to {_MAX_ALIGNMENT}, got {value!r}")


@dataclass(slots=True)
class BuildModule:
    """Builds a Relay program and keeps the results for its `get_*` methods."""

    _module: IRModule | None = None
    _factory: Any = None
    _params: dict[str, Tensor] = field(default_factory=dict)
    _signature: Signature | None = None

    def build(
        self,
        mod: Any,
        target: Any = None,
        target_host: Any = None,
        executor: Executor | None = None,
        runtime: Runtime | None = None,
        workspace_memory_pools: Any = None,
        constant_memory_pools: Any = None,
        params: Mapping[str, Any] | None = None,
        mod_name: str | None = None,
    ) -> tuple[str, Module | None, dict[str, Tensor]]:
        """Build a program. Return the graph's JSON text (graph executor only), the module with the code, and
        the parameters.

        Raises: as `build`.
        """
        self._module = as_module(mod)
        self._factory = build(
            self._module,
            target,
            target_host,
            executor or Executor("graph"),
            runtime or Runtime("cpp"),
            workspace_memory_pools,
            constant_memory_pools,
            params,
            mod_name or "default",
        )
        self._params = self._factory.get_params()
        self._signature = signature_of(self._factory.function_metadata)
        return self.get_graph_json(), self.get_module(), self.get_params()

    def optimize(
        self,
        mod: Any,
        target: Any = None,
        target_host: Any = None,
        params: Mapping[str, Any] | None = None,
    ) -> tuple[IRModule, dict[str, Tensor]]:
        """The Relay module after the passes that TVM's `relay.build` runs (`relay_passes`), and the
        parameters, which are constants in it. It can be printed, built and run like any other.

        Raises: as `build`, before code is made.
        """
        one_target(target, target_host)
        load_operators()
        self._params = as_tensors(params)
        self._module = relay_passes()(InferType()(with_params(as_module(mod), self._params)))
        return self._module, self.get_params()

    def get_graph_json(self) -> str:
        """The JSON text of the graph; empty for another executor."""
        is_graph = isinstance(self._factory, GraphExecutorFactoryModule)
        return self._factory.get_graph_json() if is_graph else ""

    def get_module(self) -> Module | None:
        """The module with the code; None where nothing was built."""
        return None if self._factory is None else self._factory.get_lib()

    def get_params(self) -> dict[str, Tensor]:
        """The parameters by name."""
        return dict(self._params)

    def get_irmodule(self) -> IRModule | None:
        """The program that was built, or its optimised form."""
        return self._module

    def get_function_metadata(self) -> dict[str, str]:
        """What is known of the functions and kernels: texts by name."""
        return {} if self._factory is None else dict(self._factory.function_metadata)

    def get_executor_codegen_metadata(self) -> Signature | None:
        """Names, sizes and dtypes of the inputs and outputs; None where nothing was built."""
        return self._signature

    def get_devices(self) -> list[str]:
        """The devices that the program runs on."""
        return [] if self._factory is None else ["cpu"]


def build(
    ir_mod: Any,
    target: Any = None,
    target_host: Any = None,
    executor: Executor | str = Executor("graph"),  # noqa: B008 - TVM's default, never changed
    runtime: Runtime | str = Runtime("cpp"),  # noqa: B008 - as above
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> Any:
    """Build `main` of a Relay module, or a Relay function, for an executor. Return the executor's factory.

    `params` are values of parameters by name. `factory[mod_name](device)` creates an executor;
    `export_library` writes a file for `runtime.load_module`. Passing a function instead of a module is
    deprecated and warns.

    Raises: OptionError D0103 (a ValueError) for unknown options; MissingNameError I0301 for a module without
    `main`; UsageError V0801 for a program that cannot
    be a graph; UsageError L03.. for programs that cannot be compiled; IRTypeError for type errors.
    """
    if isinstance(ir_mod, Function):
        warnings.warn(
            "relay.build takes an IRModule: IRModule.from_expr(func)", DeprecationWarning, stacklevel=2
        )
    chosen = Executor(executor) if isinstance(executor, str) else executor
    _refuse_what_is_not_built(chosen, Runtime(runtime) if isinstance(runtime, str) else runtime)
    if workspace_memory_pools is not None or constant_memory_pools is not None:
        raise OptionError(D0103, "memory pools are planned by the compiler: there are no pools to choose")
    mod = as_module(ir_mod)
    mod.get_global_var("main")
    bound = with_params(mod, as_tensors(params))
    if chosen.name == "aot":
        executable: Any = compile_program(bound, one_target(target, target_host))
        typed = InferType()(bound)
        plans = input_plans(executable.metadata)
        return AotExecutorFactoryModule(executable, mod_name, plans, num_tensors(typed["main"].ret_ty))
    compiler = VMCompiler()
    compiler.lower(bound, target, target_host)
    compiler.codegen()
    return graph_factory(compiler.get_exec(), mod_name, links_params=bool(chosen["link-params"]))


def optimize(
    mod: Any, target: Any = None, params: Mapping[str, Any] | None = None
) -> tuple[IRModule, dict[str, Tensor]]:
    """The Relay module, optimised, and the parameters: as `BuildModule.optimize`."""
    return BuildModule().optimize(mod, target, None, params)


def graph_factory(
    executable: Executable, mod_name: str = "default", links_params: bool = False
) -> GraphExecutorFactoryModule:
    """The graph of an executable of Relay's machine. Raises: UsageError V0801 for one that has control flow,
    or inputs of unknown sizes."""
    plans = input_plans(executable.metadata)
    traced = trace_program(executable.program, plans)
    return GraphExecutorFactoryModule(
        traced.graph, executable.lib, traced.params, mod_name, links_params, executable.metadata
    )


def num_tensors(ty: Any) -> int:
    """How many tensors a value of a type has, those in tuples counted."""
    return sum(map(num_tensors, ty.fields)) if isinstance(ty, TupleType) else 1


def signature_of(metadata: Mapping[str, str]) -> Signature:
    """What `main` takes and gives. Raises: UsageError V0801 for inputs that are no tensors of known sizes."""
    found = signature_from_json(metadata[METADATA_PREFIX + "main"])
    for spec in found.inputs:
        known_sizes(spec)
    return found


def known_sizes(spec: TensorSpec) -> tuple[int, ...]:
    """The sizes of an input. Raises: UsageError V0801 where it is no tensor of known sizes."""
    sizes = tuple(dim for dim in spec.shape or () if isinstance(dim, int))
    if spec.kind != "tensor" or spec.dtype is None or spec.shape != sizes:
        raise UsageError(
            V0801,
            f"parameter {spec.name!r} is {spec.text()}: expected a tensor of known sizes",
            help="the executor 'vm' takes others",
        )
    return sizes


def input_plans(metadata: Mapping[str, str]) -> list[InputPlan]:
    """What `main` takes. Raises: as `signature_of`; UsageError V0801 for a program of several devices."""
    if devices := devices_listed(metadata):
        raise UsageError(
            V0801,
            f"the program is for {len(devices)} devices ({', '.join(map(str, devices))}): a graph has one",
            help="the executor 'vm' runs every program",
        )
    inputs = signature_of(metadata).inputs
    return [InputPlan(spec.name, known_sizes(spec), str(spec.dtype)) for spec in inputs]
