"""Compile Relay modules to executables of the Relay VM.

Relay programs take the same path as all others: `to_relax`, the passes of the pipeline, and the VM code
generator, here with the builder of the Relay VM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.driver.codes import D0103
from heddle.driver.compile import function_signature, kernel_modules
from heddle.driver.dialects import in_relax
from heddle.driver.pipeline import OptionError, default_pipeline, optimize_passes
from heddle.driver.signature import METADATA_PREFIX
from heddle.driver.targets import as_target
from heddle.ir.bound_function import with_bound_function
from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, Sequential
from heddle.lower.codegen_vm import emit_functions
from heddle.lower.kernel_forms import kernel_forms
from heddle.ops.load import load as load_operators
from heddle.relay.executor import bind_params_by_name
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.collection import collection_paused
from heddle.support.diagnostics import UsageError
from heddle.target import Target
from heddle.vm.relay import Executable, RelayBuilder


def compile(
    mod: Any, target: Any = None, target_host: Any = None, params: Mapping[str, Any] | None = None
) -> Executable:
    """Compile `main` of a Relay module, or a Relay function, with all functions that it calls.

    `target` is a Target or its text, or a dictionary with one target; the default is the current target, else
    this machine. The host is the target's host. `params` are values of parameters of `main` by name; other
    names are ignored.

    Raises: OptionError D0103 (a ValueError) for another target; UsageError L03.. for programs that cannot be
    compiled; IRTypeError for type errors.
    """
    compiler = VMCompiler()
    if params:
        compiler.set_params(params)
    compiler.lower(mod, target, target_host)
    compiler.codegen()
    return compiler.get_exec()


@collection_paused()
def compile_functions(mod: IRModule, names: Sequence[str], target: Any = None) -> Executable:
    """Compile functions of a Relay module, with what they call. Raises: as `compile`."""
    chosen = one_target(target)
    return executable_of(in_relax(mod, names), default_pipeline(chosen, exec_mode="bytecode"), chosen)


def executable_of(graph: IRModule, pipeline: Pass, target: Target) -> Executable:
    """An executable of this machine from a graph of operators (what `to_relax` gives), by a pipeline that
    ends at the machine's builtins."""
    load_operators()
    return _executable(graph, pipeline(graph), target)


class VMCompiler:
    """Compiles a Relay module in steps: `lower`, `codegen`, `get_exec`."""

    def __init__(self) -> None:
        self._params: dict[str, Tensor] = {}
        self._target: Target | None = None
        self._graph = self._lowered = IRModule()
        self._made: Executable | None = None

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set values of parameters of `main`, by name."""
        self._params |= as_tensors(params)

    def get_params(self) -> dict[str, Tensor]:
        """The values that were set."""
        return dict(self._params)

    def optimize(
        self,
        mod: Any,
        target: Any = None,
        target_host: Any = None,
        params: Mapping[str, Any] | None = None,
    ) -> tuple[IRModule, dict[str, Tensor]]:
        """The module as a graph of operators in normal form, optimised, and the parameters.

        Raises: as `compile`.
        """
        self.set_params(params or {})
        load_operators()
        self._graph = in_relax(self._bound(mod))
        passes = optimize_passes(one_target(target, target_host))
        return Sequential(passes, "optimize")(self._graph), self.get_params()

    def lower(self, mod: Any, target: Any = None, target_host: Any = None) -> None:
        """Lower a module or a function to the form for code generation. Raises: as `compile`."""
        self._target = one_target(target, target_host)
        load_operators()
        self._graph = in_relax(self._bound(mod))
        self._lowered = _lowered(self._graph, self._target)

    def codegen(self) -> None:
        """Generate bytecode and kernels. Raises: UsageError D0103 where nothing was lowered."""
        if self._target is None:
            raise UsageError(D0103, "nothing to generate code for: call lower first")
        self._made = _executable(self._graph, self._lowered, self._target)

    def get_exec(self) -> Executable:
        """Return the executable. Raises: UsageError D0103 if `codegen` was not called."""
        if self._made is None:
            raise UsageError(D0103, "there is no executable yet: call codegen first")
        return self._made

    def _bound(self, mod: Any) -> IRModule:
        whole = as_module(mod)
        return whole if whole.get("main") is None else with_params(whole, self._params)


def as_module(mod: Any) -> IRModule:
    """A module, or that of a function alone."""
    return mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)


def as_tensors(params: Mapping[str, Any] | None) -> dict[str, Tensor]:
    """Values of parameters as tensors, by name. Raises: UsageError D0103 for what has no names."""
    if params is not None and not isinstance(params, Mapping):
        raise OptionError(D0103, f"params are values by name, got {type(params).__name__}")
    return {
        name: value if isinstance(value, Tensor) else tensor(value) for name, value in (params or {}).items()
    }


def with_params(mod: IRModule, params: Mapping[str, Tensor]) -> IRModule:
    """A module whose `main` has some parameters as constants. Raises: MissingNameError I0301 where there are
    some, and no `main`; as `bind_params_by_name`."""
    if not params:
        return mod
    main = mod.get_global_var("main")
    return with_bound_function(mod, main, bind_params_by_name(mod[main], params))


def one_target(target: Any = None, target_host: Any = None) -> Target:
    """The target that arguments mean; of a list or map, its one value. Raises: OptionError D0103; H01.. for a
    malformed one."""
    if isinstance(target, (Mapping, list, tuple)):
        if len(target) != 1:
            raise OptionError(D0103, f"expected one target, got {len(target)}")
        (target,) = target.values() if isinstance(target, Mapping) else target
    chosen = as_target(target)
    if target_host is not None and as_target(target_host).kind.name != chosen.kind.name:
        raise OptionError(D0103, f"the host is {chosen}'s, and target_host is {target_host}")
    return chosen


def _lowered(graph: IRModule, target: Target) -> IRModule:
    load_operators()
    return default_pipeline(target, exec_mode="bytecode")(graph)


def _executable(graph: IRModule, lowered: IRModule, target: Target) -> Executable:
    builder = RelayBuilder(kernel_forms(lowered))
    loops = emit_functions(lowered, builder)
    for var, func in graph.functions.items():
        if isinstance(func, Function):
            builder.metadata[METADATA_PREFIX + var.name_hint] = function_signature(func).to_json()
    return builder.get(*kernel_modules(loops, target))
