"""Graph executors in the form of TVM's Python classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.runtime.device import Device
from heddle.runtime.module import Module
from heddle.runtime.tensor import Tensor
from heddle.runtime.timing import BENCHMARK_OPTIONS, Benchmarked, BenchmarkResult
from heddle.support.diagnostics import UsageError
from heddle.vm.codes import V0303
from heddle.vm.graph.executor import GraphExecutor
from heddle.vm.graph.inputs import given_out
from heddle.vm.graph.nodes import Graph, graph_from_json


class StaticModule(Benchmarked):
    """A program with fixed input sizes: `set_input`, `run`, `get_output`. `module` has the same functions.

    Raises: UsageError V0303 for anything else.
    """

    def __init__(self, module: Module) -> None:
        if not callable(getattr(module, "set_input", None)):
            what, help_text = type(module).__name__, 'factory["default"](device) makes one'
            raise UsageError(V0303, f"expected a program on a device, got {what}", help=help_text)
        self.module: Any = module

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copy values to inputs: one by name or number, others by keyword. Keywords that are not inputs are
        ignored.

        Raises: Trap (a RuntimeError) V0803 for an unknown `key`; the errors of `Tensor.copyfrom`.
        """
        if key is not None:
            self.module.set_input(key, value)
        for name, each in params.items():
            if self.module.get_input_index(name) >= 0:
                self.module.set_input(name, each)

    def run(self, **input_dict: Any) -> None:
        """Set inputs by name, then run. Raises: as `set_input`; Trap for an error of a kernel."""
        if input_dict:
            self.set_input(**input_dict)
        self.module.run()

    def get_output(self, index: int, out: Tensor | None = None) -> Tensor:
        """Return an output. If `out` is given, copy the output there. Raises: TrapIndexError V0803."""
        found: Tensor = self.module.get_output(index, out)
        return found

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return int(self.module.get_num_outputs())

    def get_num_inputs(self) -> int:
        """Return the number of inputs, including the parameters of the graph."""
        return int(self.module.get_num_inputs())

    def get_input(self, index: int | str, out: Tensor | None = None) -> Tensor:
        """Return an input. If `out` is given, copy the input there. Raises: Trap V0803."""
        found: Tensor = self.module.get_input(index)
        return given_out(found, out)

    def get_input_index(self, name: str) -> int:
        """Return the number of the input `name`; -1 if there is none."""
        return int(self.module.get_input_index(name))

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Return shapes and dtypes of the inputs by name, without the parameters."""
        found: tuple[dict[str, tuple[int, ...]], dict[str, str]] = self.module.get_input_info()
        return found

    def __getitem__(self, key: str) -> Callable[..., Any]:
        """A function of the module. Raises: MissingNameError U0501."""
        found: Callable[..., Any] = self.module[key]
        return found

    def benchmark(self, device: Device | None = None, *options: Any, **kwargs: Any) -> BenchmarkResult:
        """Time a function of the module (by default `run`); `options` are those of `Benchmarked.benchmark`,
        in its order. With `end_to_end`, each timed call also copies the inputs in `kwargs` and the outputs.
        """
        named = zip(BENCHMARK_OPTIONS[: len(options)], options, strict=True)
        return super().benchmark(device, **dict(named), **kwargs)

    def timed_call(
        self, func_name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any], end_to_end: bool
    ) -> Callable[[], Any]:
        """Return the call that `benchmark` measures."""
        self.set_input(**kwargs)

        def whole() -> None:
            self.run(**kwargs)
            for index in range(self.get_num_outputs()):
                self.get_output(index).numpy().copy()

        return whole if end_to_end else self[func_name or "run"]


class GraphModule(StaticModule):
    """A graph on a device: `GraphModule(factory["default"](dev))`."""

    module: GraphExecutor

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Set parameters from the bytes of `save_param_dict`. Raises: FormatError F0106."""
        self.module.load_params(params_bytes)

    def share_params(self, other: GraphModule, params_bytes: bytes | bytearray) -> None:
        """Use the parameter memory of another graph; `params_bytes` names the parameters. Raises: as
        `GraphExecutor.share_params`."""
        shared: Any = other
        self.module.share_params(getattr(shared, "module", shared), params_bytes)

    def set_input_zero_copy(
        self, key: str | int | None = None, value: Tensor | None = None, **params: Tensor
    ) -> None:
        """Make the graph read inputs from tensors without a copy. Raises: Trap V0803; UsageError V0804."""
        if key is not None:
            self.module.set_input_zero_copy(key, value)  # type: ignore[arg-type]
        for name, each in params.items():
            self.module.set_input_zero_copy(name, each)

    def set_output_zero_copy(self, index: int | str, value: Tensor) -> None:
        """Make the graph write an output to a tensor without a copy. Raises: Trap V0803; UsageError V0804."""
        self.module.set_output_zero_copy(index, value)


def as_graph(graph: str | Graph) -> Graph:
    """Return the graph of a JSON text; a graph is returned unchanged. Raises: FormatError V0802."""
    return graph if isinstance(graph, Graph) else graph_from_json(graph)


def one_device(device: Device | list[Device] | tuple[Device, ...]) -> Device:
    """Return the single device of a graph. Raises: UsageError V0303 for several."""
    devices = [device] if isinstance(device, Device) else list(device)
    if len(devices) != 1 or not isinstance(devices[0], Device):
        raise UsageError(V0303, f"a graph runs on one device, got {devices}")
    return devices[0]


def create(graph_json_str: str | Graph, libmod: Module, device: Any) -> GraphModule:
    """Create an executor for a graph on a device, with the kernels of a module. The caller sets the
    parameters.

    Raises: FormatError V0802 for a malformed graph; UnresolvedFunctionError V0301; UsageError V0303.
    """
    return GraphModule(GraphExecutor(as_graph(graph_json_str), libmod, one_device(device)))
