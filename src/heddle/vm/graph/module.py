"""Executors of graphs as users of Python call them."""

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
from heddle.vm.graph.nodes import Graph, graph_from_json


class StaticModule(Benchmarked):
    """A program over inputs of known sizes: `set_input`, `run`, `get_output`. `module` has its functions."""

    def __init__(self, module: Module) -> None:
        self.module: Any = module

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copy values into inputs: one by name or number, others by keyword. Keywords that are no inputs do
        nothing.

        Raises: Trap (a RuntimeError) V0803 for an unknown `key`; what `Tensor.copyfrom` raises.
        """
        if key is not None:
            self.module.set_input(key, value)
        for name, each in params.items():
            if self.module.get_input_index(name) >= 0:
                self.module.set_input(name, each)

    def run(self, **input_dict: Any) -> None:
        """Set inputs by name and run. Raises: as `set_input`; Trap with what a kernel reported."""
        if input_dict:
            self.set_input(**input_dict)
        self.module.run()

    def get_output(self, index: int, out: Tensor | None = None) -> Tensor:
        """A result, or `out` with a copy of it. Raises: TrapIndexError V0803."""
        found: Tensor = self.module.get_output(index, out)
        return found

    def get_num_outputs(self) -> int:
        """How many results there are."""
        return int(self.module.get_num_outputs())

    def get_num_inputs(self) -> int:
        """How many inputs there are, parameters of the graph among them."""
        return int(self.module.get_num_inputs())

    def get_input(self, index: int | str, out: Tensor | None = None) -> Tensor:
        """An input, or `out` with a copy of it. Raises: Trap V0803."""
        found: Tensor = self.module.get_input(index)
        return found if out is None else out.copyfrom(found)

    def get_input_index(self, name: str) -> int:
        """The number of an input; -1 where there is none of the name."""
        return int(self.module.get_input_index(name))

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Sizes and dtypes of the inputs, parameters apart, by name."""
        found: tuple[dict[str, tuple[int, ...]], dict[str, str]] = self.module.get_input_info()
        return found

    def __getitem__(self, key: str) -> Callable[..., Any]:
        """A function of the module. Raises: MissingNameError U0501."""
        found: Callable[..., Any] = self.module[key]
        return found

    def benchmark(self, device: Device | None = None, *options: Any, **kwargs: Any) -> BenchmarkResult:
        """Time a function of the module, by default `run`, as `Benchmarked.benchmark` does; `options` are its
        options in their order. `end_to_end` copies the inputs in `kwargs` and the results for each call."""
        named = zip(BENCHMARK_OPTIONS[: len(options)], options, strict=True)
        return super().benchmark(device, **dict(named), **kwargs)

    def timed_call(
        self, func_name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any], end_to_end: bool
    ) -> Callable[[], Any]:
        """The call that `benchmark` measures."""
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
        """Read the parameters that bytes name from the memory of another graph. Raises: as
        `GraphExecutor.share_params`."""
        self.module.share_params(other.module, params_bytes)

    def set_input_zero_copy(
        self, key: str | int | None = None, value: Tensor | None = None, **params: Tensor
    ) -> None:
        """Let the graph read tensors in place. Raises: Trap V0803; UsageError V0804."""
        if key is not None:
            self.module.set_input_zero_copy(key, value)  # type: ignore[arg-type]
        for name, each in params.items():
            self.module.set_input_zero_copy(name, each)

    def set_output_zero_copy(self, index: int | str, value: Tensor) -> None:
        """Let the graph write a result into a tensor. Raises: Trap V0803; UsageError V0804."""
        self.module.set_output_zero_copy(index, value)


def as_graph(graph: str | Graph) -> Graph:
    """The graph of a JSON text, or the graph itself. Raises: FormatError V0802."""
    return graph if isinstance(graph, Graph) else graph_from_json(graph)


def one_device(device: Device | list[Device] | tuple[Device, ...]) -> Device:
    """The device of a graph. Raises: UsageError V0303 for several."""
    devices = [device] if isinstance(device, Device) else list(device)
    if len(devices) != 1 or not isinstance(devices[0], Device):
        raise UsageError(V0303, f"a graph runs on one device, got {devices}")
    return devices[0]


def create(graph_json_str: str | Graph, libmod: Module, device: Any) -> GraphModule:
    """A graph on a device, with the kernels of a module. Parameters are set by the caller.

    Raises: FormatError V0802 for a malformed graph; UnresolvedFunctionError V0301; UsageError V0303.
    """
    return GraphModule(GraphExecutor(as_graph(graph_json_str), libmod, one_device(device)))
