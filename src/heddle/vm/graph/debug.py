"""The debug graph executor: times and results of single nodes."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from heddle.runtime.module import Module
from heddle.runtime.profiling import CallRow, Report, TraceEvent
from heddle.runtime.tensor import Tensor
from heddle.runtime.timing import BenchmarkResult, TimingPlan, measure
from heddle.support.diagnostics import MissingNameError, TrapIndexError, UsageError, did_you_mean
from heddle.support.files import write_bytes
from heddle.vm.codes import V0303, V0803
from heddle.vm.graph.executor import GraphExecutor
from heddle.vm.graph.inputs import given_out
from heddle.vm.graph.module import GraphModule, as_graph, one_device
from heddle.vm.graph.nodes import Graph


class GraphDebugExecutor(GraphExecutor):
    """A graph executor that runs and times single nodes and returns their results."""

    kind = "GraphExecutorDebug"
    _METHODS = (
        *GraphExecutor._METHODS,
        "debug_get_output",
        "profile",
        "run_individual",
        "run_individual_node",
    )

    def node_number(self, node: int | str) -> int:
        """Return the number of a node, given by name or number. Raises: MissingNameError V0803,
        TrapIndexError V0803."""
        if isinstance(node, str):
            names = [each.name for each in self.graph.nodes]
            if node not in names:
                raise MissingNameError(V0803, f"no node is called {node!r}", help=did_you_mean(node, names))
            return names.index(node)
        if not 0 <= node < len(self.graph.nodes):
            raise TrapIndexError(V0803, f"the graph has {len(self.graph.nodes)} nodes, and no number {node}")
        return node

    def run_to(self, node: int) -> None:
        """Run all nodes up to and including this one. Raises: Trap for an error of a kernel."""
        for number, step in self.steps.items():
            if number <= node:
                self.run_step(step)

    def debug_get_output(self, node: int | str, out: Tensor | None = None) -> Tensor:
        """Run all nodes up to this one and return a copy of its first result. If `out` is given, copy it
        there.

        Raises: as `node_number` and `run`.
        """
        number = self.node_number(node)
        self.run_to(number)
        found = self._result(number)
        return found.to_device(self.device) if out is None else given_out(found, out)

    def run_individual_node(self, node: int | str, plan: TimingPlan) -> BenchmarkResult:
        """Time one node on the present contents of its inputs. Raises: as `node_number` and `run`."""
        step = self.steps.get(self.node_number(node))
        return (
            BenchmarkResult((0.0,) * plan.repeat)
            if step is None
            else measure(lambda: self.run_step(step), plan)
        )

    def run_individual(self, plan: TimingPlan) -> list[BenchmarkResult]:
        """Time each node, after the nodes before it have run. Inputs and reshapes take no time."""
        return [self.run_individual_node(number, plan) for number in range(len(self.graph.nodes))]

    def profile(self) -> Report:
        """Run the graph once and report the time of each node."""
        self.run()  # warm up, so that no one-time work is measured
        spans, begin = [], perf_counter_ns()
        for step in self.steps.values():
            start = perf_counter_ns()
            self.run_step(step)
            spans.append((start, perf_counter_ns()))
        whole = perf_counter_ns() - begin
        rows, events = [], []
        for number, (start, end) in zip(self.steps, spans, strict=True):
            node = self.graph.nodes[number]
            tensors = self._tensors_of(number, node)
            shapes = tuple(tuple(each.shape) for each in tensors)
            text = ", ".join(f"{each.dtype}{list(each.shape)}" for each in tensors)
            row = CallRow(node.function, shapes, text, (), 1, end - start, places=[node.name])
            rows.append(row)
            event = TraceEvent(node.function, False, start - begin, end - start, 0, node.name, None, text)
            events.append(event)
        memory = sum(self.graph.storage_bytes().values())
        config = {"executor": "graph", "device": str(self.device)}
        return Report(rows, whole, config, len(rows), peak_bytes=memory, events=events)


class GraphModuleDebug(GraphModule):
    """A graph on a device, with times and results of its nodes. If `dump_root` is given, a folder in it
    receives the graph and, for each run, a trace for Perfetto. `exit` removes the folder."""

    module: GraphDebugExecutor

    def __init__(
        self,
        module: Module,
        device: Any = None,
        graph_json_str: str | None = None,
        dump_root: str | None = None,
    ) -> None:
        super().__init__(module)
        self._folder = None if dump_root is None else _new_folder(dump_root)
        if self._folder is not None:
            write_bytes(self._folder / "graph.json", self.module.get_graph_json().encode())

    def run(self, **input_dict: Any) -> None:
        """Set inputs by name, run, and write a trace if there is a dump folder. Raises: as in the base
        class.
        """
        if self._folder is None:
            super().run(**input_dict)
            return
        report = self.profile(**input_dict)
        write_bytes(self._folder / "trace.json", json.dumps(report.chrome_trace()).encode())

    def run_individual(
        self,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[float]:
        """Return the mean time of each node in seconds; 0 for inputs and reshapes. Raises: UsageError
        U0801.
        """
        self.module.run()
        plan = TimingPlan(number, repeat, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)
        return [result.mean for result in self.module.run_individual(plan)]

    def run_individual_node(
        self,
        index: int,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> BenchmarkResult:
        """Return the times of one node in seconds. Raises: TrapIndexError V0803; UsageError U0801."""
        self.module.run_to(self.module.node_number(index))
        plan = TimingPlan(number, repeat, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)
        return self.module.run_individual_node(index, plan)

    def debug_get_output(self, node: int | str, out: Tensor | None = None) -> Tensor:
        """Return a copy of the first result of a node. Raises: MissingNameError, TrapIndexError V0803."""
        return self.module.debug_get_output(node, out)

    def profile(self, collectors: Any = None, **input_dict: Any) -> Report:
        """Set inputs by name, run, and report the time of each node. `collectors` must be empty.

        Raises: UsageError V0303 for collectors; as `run`.
        """
        if collectors is not None:
            raise UsageError(V0303, "there are no collectors: the report counts time itself")
        self.set_input(**input_dict)
        return self.module.profile()

    def exit(self) -> None:
        """Remove the dump folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _new_folder(root: str) -> Path:
    Path(root).mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="heddle-graph-", dir=root))


def create(
    graph_json_str: str | Graph, libmod: Module, device: Any, dump_root: str | None = None
) -> GraphModuleDebug:
    """Create a debug executor for a graph with the kernels of a module. The caller sets the parameters.

    Raises: FormatError V0802 for a malformed graph; UnresolvedFunctionError V0301; UsageError V0303.
    """
    made = GraphDebugExecutor(as_graph(graph_json_str), libmod, one_device(device))
    return GraphModuleDebug(made, device, None, dump_root)
