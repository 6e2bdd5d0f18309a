"""Run graphs: tensors over preallocated memory, and native code that calls the kernels one after the
other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from heddle.runtime.device import Device
from heddle.runtime.dtype import DataType
from heddle.runtime.function import find_global_func
from heddle.runtime.kernel_module import KernelModule
from heddle.runtime.module import Module, modules_of
from heddle.runtime.native import abi
from heddle.runtime.native.errors import native_error
from heddle.runtime.native.glue import configure_glue
from heddle.runtime.native.methods import CONTENT_OFFSET
from heddle.runtime.params import load_param_dict
from heddle.runtime.storage import Storage, allocator_for
from heddle.runtime.tensor import Tensor, storage_tensor
from heddle.support.diagnostics import FormatError, TrapIndexError, UsageError
from heddle.systems.types import ctype_of
from heddle.vm.callables import UnresolvedFunctionError
from heddle.vm.codes import V0301, V0311, V0802, V0803, V0804
from heddle.vm.graph.inputs import StaticExecutor, given_out, is_number
from heddle.vm.graph.nodes import COPY, RESHAPE, Graph, GraphNode

_Value, _Call = ctype_of(abi.Value), ctype_of(abi.GraphCall)


@dataclass(slots=True)
class _Step:
    """A sequence of kernels that native code calls, or a single Python function."""

    first: int
    count: int
    function: Callable[..., Any] | None = None


class GraphExecutor(StaticExecutor):
    """Runs a graph on a device. Its methods are those of TVM's graph executor: `set_input`, `run`, ...

    Memory is allocated once, so the next run overwrites the results. Only one thread may use it at a time.
    """

    kind = "GraphExecutor"
    _noun = "graph"
    _UNKNOWN_INPUT = "Could not find {!r} in graph"
    _METHODS: ClassVar[tuple[str, ...]] = (
        "get_graph_json",
        "get_input",
        "get_input_index",
        "get_input_info",
        "get_input_name",
        "get_num_inputs",
        "get_num_outputs",
        "get_output",
        "get_output_index",
        "get_output_name",
        "load_params",
        "run",
        "set_input",
        "set_input_zero_copy",
        "set_output_zero_copy",
        "share_params",
    )

    def __init__(
        self, graph: Graph, lib: Module | None, device: Device, params: Mapping[str, Tensor] | None = None
    ) -> None:
        """Prepare a graph to run. Raises: UnresolvedFunctionError V0301 for a kernel that neither `lib` nor
        the global functions have; UsageError U0202 for a device that cannot be reached, V0311 for one whose
        memory the host cannot access."""
        super().__init__()
        if lib is not None:
            self._imports.append(lib)
        if device.exist and not device.is_host:
            raise UsageError(V0311, f"graphs call their kernels in machine code, which {device} does not run")
        self.graph, self.device = graph, device
        self._first = graph.first_entries
        self._param_names = frozenset(params or ())
        allocator = allocator_for(device)
        self._inputs = [number for number, node in enumerate(graph.nodes) if node.is_input]
        self._name_inputs([graph.nodes[number].name for number in self._inputs])
        given = {self._input_entry(name): self._param(name, each) for name, each in (params or {}).items()}
        theirs = {graph.entries[entry].storage for entry in given}
        memory = {
            number: allocator.alloc(0 if number in theirs else size)
            for number, size in graph.storage_bytes().items()
        }
        self.tensors: list[Tensor] = []
        for number, node in enumerate(graph.nodes):
            for entry in range(self._first[number], self._first[number + 1]):
                self.tensors.append(self._first_tensor(node, entry, given, memory))
        self._prepare()

    # Code

    def _prepare(self) -> None:
        """Lay out the arguments of all kernels."""
        self._calls: list[int] = []
        """The node of each native call."""
        self.steps: dict[int, _Step] = {}
        self._values: dict[int, Any] = {}
        kernels = self._kernels()
        records: list[tuple[int, int, int]] = []
        runs: list[_Step] = []
        for number, node in enumerate(self.graph.nodes):
            if node.is_input or node.function == RESHAPE:
                continue
            if node.function not in kernels:
                runs.append(self._python_step(number, node))
                self.steps[number] = runs[-1]
                continue
            values = self._arguments(number, node)
            self._values[number] = values
            records.append((kernels[node.function], ctypes.addressof(values), len(values)))
            self._calls.append(number)
            self.steps[number] = _Step(len(records) - 1, 1)
            if runs and runs[-1].function is None:
                runs[-1].count += 1
            else:
                runs.append(_Step(len(records) - 1, 1))
        self._records = (_Call * max(len(records), 1))()
        for record, (code, values_at, count) in zip(self._records, records, strict=False):
            record.code, record.values, record.count = code, values_at, count
        self._runs = runs
        address = configure_glue().addresses["heddle_run_graph"]
        self._native = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(address)
        self._records_at = ctypes.addressof(self._records)

    def _kernels(self) -> dict[str, int]:
        """Addresses of the kernels of the imports, by name."""
        wanted = {node.function for node in self.graph.nodes}
        found: dict[str, int] = {}
        for module in modules_of(self):
            if isinstance(module, KernelModule):
                names = wanted.intersection(module.names).difference(found)
                found |= {name: module.address(name) for name in names}
        return found

    def _python_step(self, number: int, node: GraphNode) -> _Step:
        if node.function == COPY:
            return _Step(0, 0, lambda: self._result(number).copyfrom(self._operand(node, 0)))
        found = self.find_function(node.function, True) or find_global_func(node.function)
        if found is None:
            raise UnresolvedFunctionError(
                V0301, f"nobody provides function {node.function!r} of node {node.name!r}"
            )
        return _Step(0, 0, lambda: found(*self._tensors_of(number, node), *node.sizes))

    def _operand(self, node: GraphNode, index: int) -> Tensor:
        source, result = node.inputs[index]
        return self.tensors[self._first[source] + result]

    def _result(self, number: int, index: int = 0) -> Tensor:
        return self.tensors[self._first[number] + index]

    def _tensors_of(self, number: int, node: GraphNode) -> list[Tensor]:
        given = [self._operand(node, index) for index in range(len(node.inputs))]
        return given + [self._result(number, index) for index in range(node.num_outputs)]

    def _arguments(self, number: int, node: GraphNode) -> Any:
        tensors = self._tensors_of(number, node)
        values = (_Value * (len(tensors) + len(node.sizes)))()
        for value, each in zip(values, tensors, strict=False):
            value.kind, value.payload = abi.Kind.TENSOR, _header_of(each)
        for value, size in zip(values[len(tensors) :], node.sizes, strict=True):
            value.kind, value.payload = abi.Kind.INT, size
        return values

    def _bind(self, entry: int, value: Tensor) -> None:
        """Bind an entry, and all views of it, to another tensor."""
        changed = {entry}
        self.tensors[entry] = value
        for number, node in enumerate(self.graph.nodes):
            first = self._first[number]
            sources = {self._first[source] + result for source, result in node.inputs}
            if node.function == RESHAPE and sources & changed:
                plan = self.graph.entries[first]
                self.tensors[first] = self._operand(node, 0).reshape(plan.shape)
                changed.add(first)
            results = range(first, first + node.num_outputs)
            if number in self._values and (sources & changed or changed.intersection(results)):
                for slot, each in zip(self._values[number], self._tensors_of(number, node), strict=False):
                    slot.payload = _header_of(each)

    # Running

    def run(self) -> None:
        """Run all nodes. Raises: Trap for an error of a kernel."""
        for each in self._runs:
            self.run_step(each)

    def run_step(self, step: _Step) -> None:
        """Run a part of the graph. Raises: as `run`."""
        if step.function is not None:
            step.function()
            return
        failed = self._native(self._records_at + step.first * ctypes.sizeof(_Call), step.count)
        if failed >= 0:
            node = self.graph.nodes[self._calls[step.first + failed]]
            raise native_error([f"in node {node.name!r} ({node.function})"])

    # Inputs

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return len(self.graph.heads)

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Return shapes and dtypes of the inputs by name, without the parameters."""
        names = [name for name in self._numbers if name not in self._param_names]
        plans = {name: self.graph.entries[self._input_entry(name)] for name in names}
        return {n: plan.shape for n, plan in plans.items()}, {n: plan.dtype for n, plan in plans.items()}

    def _input_entry(self, key: str | int) -> int:
        return self._first[self._inputs[self._input_number(key)]]

    def get_input(self, key: str | int) -> Tensor:
        """Return the tensor of an input. Writing to it changes what the graph reads. Raises: Trap V0803."""
        return self.tensors[self._input_entry(key)]

    def set_input_zero_copy(self, key: str | int, value: Tensor) -> None:
        """Make the graph read an input from a tensor without a copy. Raises: Trap V0803; UsageError V0804."""
        entry = self._input_entry(key)
        self._bind(entry, self._fitting(entry, value))

    def set_output_zero_copy(self, index: int | str, value: Tensor) -> None:
        """Make the graph write an output to a tensor without a copy. Raises: Trap V0803; UsageError V0804 for
        a tensor that does not match, and for an output that is an input, a reshape, or shares its memory with
        another entry."""
        place = self.get_output_index(index) if isinstance(index, str) else index
        node, result = self._head(place)
        entry = self._first[node] + result
        storage = self.graph.entries[entry].storage
        users = [plan for plan in self.graph.entries if plan.storage == storage]
        if self.graph.nodes[node].is_input or self.graph.nodes[node].function == RESHAPE or len(users) > 1:
            raise UsageError(V0804, f"output {index!r} has no memory of its own")
        self._bind(entry, self._fitting(entry, value))

    def _fitting(self, entry: int, value: Any) -> Tensor:
        plan = self.graph.entries[entry]
        if not isinstance(value, Tensor):
            raise UsageError(V0804, f"expected a tensor, got {type(value).__name__}")
        got = tuple(value.shape), str(value.dtype), value.device
        if got != (plan.shape, plan.dtype, self.device) or not value.is_contiguous or value.is_readonly:
            raise UsageError(
                V0804,
                f"expected a compact tensor of shape {plan.shape} and dtype {plan.dtype} on {self.device}, "
                f"got one of shape {got[0]} and dtype {got[1]} on {got[2]}",
            )
        return value

    def _first_tensor(
        self, node: GraphNode, entry: int, given: Mapping[int, Tensor], memory: Mapping[int, Storage]
    ) -> Tensor:
        """Return the initial tensor of an entry: a parameter, a view of another tensor, or preallocated
        memory."""
        plan = self.graph.entries[entry]
        if entry in given:
            return given[entry]
        if node.function == RESHAPE:
            return self._operand(node, 0).reshape(plan.shape)
        made = storage_tensor(memory[plan.storage], 0, plan.shape, DataType(plan.dtype))
        if node.is_input:
            ctypes.memset(made.address, 0, made.size_bytes)
        return made

    def _param(self, name: str, value: Tensor) -> Tensor:
        """Return a parameter, used without a copy. Raises: FormatError V0802 if it does not match the
        graph.
        """
        plan = self.graph.entries[self._input_entry(name)]
        if (tuple(value.shape), str(value.dtype)) != (plan.shape, plan.dtype):
            raise FormatError(
                V0802,
                f"parameter {name!r}: expected {plan.dtype} of shape {plan.shape}, got {value.dtype} of "
                f"shape {tuple(value.shape)}",
            )
        return (value if value.device == self.device else value.to_device(self.device)).contiguous()

    def load_params(self, data: bytes | bytearray) -> None:
        """Set the inputs from the bytes of `save_param_dict`; names that are no inputs are ignored. Raises:
        FormatError F0106."""
        for name, value in load_param_dict(data).items():
            if name in self._numbers:
                self.set_input(name, value)

    def share_params(self, other: GraphExecutor, data: bytes | bytearray) -> None:
        """Use the parameter memory of another executor. `data` (from `save_param_dict`) names the parameters.

        Raises: FormatError F0106; Trap V0803 for a name that the other executor lacks; UsageError V0804 if
        shapes or dtypes differ, or the other is no executor.
        """
        if not isinstance(other, GraphExecutor):
            raise UsageError(V0804, f"parameters are those of a graph, got {type(other).__name__}")
        for name in load_param_dict(data):
            if name in self._numbers:
                entry = self._input_entry(name)
                shared = other.get_input(name)
                if shared.dtype != self.tensors[entry].dtype or shared.shape != self.tensors[entry].shape:
                    raise UsageError(V0804, f"parameter {name!r} differs between the two graphs")
                self._bind(entry, shared)

    # Results

    def _head(self, index: int) -> tuple[int, int]:
        if not is_number(index, len(self.graph.heads)):
            raise TrapIndexError(
                V0803, f"the graph has {len(self.graph.heads)} outputs, and no number {index!r}"
            )
        return self.graph.heads[index]

    def get_output(self, index: int, out: Tensor | None = None) -> Tensor:
        """Return an output in the graph's own memory, which the next run overwrites. If `out` is given, copy
        it there and return `out`.

        Raises: TrapIndexError V0803; the errors of `Tensor.copyfrom`.
        """
        node, result = self._head(index)
        found = self._result(node, result)
        return given_out(found, out)

    def get_output_name(self, index: int) -> str:
        """Return the name of the node that computes an output. Raises: TrapIndexError V0803."""
        return self.graph.nodes[self._head(index)[0]].name

    def get_output_index(self, name: str) -> int:
        """Return the number of the first output of the node `name`; -1 if there is none."""
        names = [self.graph.nodes[node].name for node, _ in self.graph.heads]
        return names.index(name) if name in names else -1

    def get_graph_json(self) -> str:
        """The graph as JSON text."""
        return self.graph.to_json()


def _header_of(value: Tensor) -> int:
    """Return the address of the DLTensor that kernels get. It is valid while the tensor lives."""
    return id(value._header) + CONTENT_OFFSET
