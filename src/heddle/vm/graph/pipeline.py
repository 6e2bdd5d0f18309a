"""The pipelined executor: several programs, each on a thread of its own, that hand their results on.

While a stage works on one run, the stage before it works on the next. Values between stages are copied, so
that a stage may go on as soon as its results are taken over.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heddle.runtime.artefact import Section, require
from heddle.runtime.device import Device
from heddle.runtime.device import device as as_device
from heddle.runtime.module import Module, SectionData, load_module, register_loader
from heddle.runtime.tensor import Tensor, empty, tensor
from heddle.runtime.wire import Writer
from heddle.support.diagnostics import FormatError, UsageError, did_you_mean
from heddle.vm.codes import V0803, V0804, V0805, V0806
from heddle.vm.frames import FAILURES
from heddle.vm.graph.inputs import StaticExecutor
from heddle.vm.graph.wiring import Wiring, wiring_from_json

_PATIENCE_S = 1.0
MOST_WAITING = 8
"""How many runs may wait in front of a stage; `run` waits where there are more."""


class PipelineExecutorFactoryModule(Module):
    """The result of `pipeline_executor_build.build`: a factory for each stage, as imports, the devices that
    they run on, and how the stages are connected. `PipelineModule(factory)` runs it."""

    kind = "PipelineExecutorFactory"

    def __init__(
        self, stages: Sequence[Module], devices: Sequence[Device], names: Sequence[str], wiring: Wiring
    ) -> None:
        super().__init__()
        self._imports += stages
        self.devices, self.names, self.wiring = tuple(devices), tuple(names), wiring

    def function_names(self) -> Sequence[str]:
        return ("create",)

    def _find(self, name: str) -> Callable[..., Any] | None:
        return (lambda: PipelineModule(self)) if name == "create" else None

    def executors(self) -> list[StaticExecutor]:
        """An executor for each stage. Raises: FormatError V0805 where the stages lack what is connected."""
        found = []
        for stage, name, device in zip(self.imports, self.names, self.devices, strict=True):
            made = stage[name](device)
            if not isinstance(made, StaticExecutor):
                raise FormatError(V0805, f"a stage is a {stage.kind}, which makes no executor")
            found.append(made)
        for number, name in self.wiring.targets():
            if found[number].get_input_index(name) < 0:
                raise FormatError(V0805, f"stage {number} has no input {name!r}")
        for number, result in self.wiring.results():
            if result >= (count := found[number].get_num_outputs()):
                raise FormatError(V0805, f"stage {number} has {count} results, and no number {result}")
        return found

    def save_sections(self) -> Mapping[str, SectionData]:
        head = Writer()
        head.text(self.wiring.to_json())
        head.u64(len(self.names))
        for name, device in zip(self.names, self.devices, strict=True):
            head.text(name)
            head.text(str(device))
        return {"pipeline": head.bytes()}

    def export_library(self, path: str | os.PathLike[str], fcompile: Any = None) -> str:  # type: ignore[override]
        """Write the pipeline to a file, or to `pipeline.heddle` in a directory that is there. Return the
        path, which `PipelineModule.load_library` takes. Raises: as `Module.export_library`."""
        place = os.path.join(path, "pipeline.heddle") if os.path.isdir(path) else os.fspath(path)
        super().export_library(place, fcompile)
        return place


def _load(sections: Mapping[str, Section]) -> PipelineExecutorFactoryModule:
    """Restore a factory from its section. The stages are its imports. Raises: FormatError V0805, F0106."""
    head = require(sections, "pipeline").reader()
    wiring, count = wiring_from_json(head.text()), head.u64()
    if count != wiring.stages:
        raise FormatError(V0805, f"there are {wiring.stages} stages, and {count} names")
    rows = [(head.text(), head.text()) for _ in range(count)]
    head.done()
    try:
        devices = [as_device(text) for _, text in rows]
    except UsageError as error:
        raise FormatError(
            V0805, f"a stage is on an unknown device: {error.diagnostics[0].message}"
        ) from error
    return PipelineExecutorFactoryModule((), devices, [name for name, _ in rows], wiring)


register_loader(PipelineExecutorFactoryModule.kind, _load)


@dataclass(slots=True)
class _Failure:
    """What stands for the values of a run in which a stage failed."""

    error: Exception


@dataclass(slots=True)
class _Stage:
    """A program with the queues that its inputs come from and its results go to. `turns` has an item for
    each run: the parameters that change before it; None ends the thread."""

    executor: StaticExecutor
    cpus: tuple[int, ...] = ()
    turns: queue.SimpleQueue[Mapping[str, Any] | None] = field(default_factory=queue.SimpleQueue)
    sources: dict[str, queue.Queue[Any]] = field(default_factory=dict)
    targets: list[tuple[int, queue.Queue[Any]]] = field(default_factory=list)

    def serve(self) -> None:
        """Work on one run after the other, until there is no more."""
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)
        while (params := self.turns.get()) is not None:
            given = {name: source.get() for name, source in self.sources.items()}
            failure = next((value for value in given.values() if isinstance(value, _Failure)), None)
            results = [failure] * len(self.targets) if failure else self._run({**params, **given})
            for (_, target), value in zip(self.targets, results, strict=True):
                target.put(value)

    def _run(self, given: Mapping[str, Any]) -> Sequence[Any]:
        """What goes to the targets."""
        try:
            for name, value in given.items():
                self.executor.set_input(name, value)
            self.executor.run()
            return [_copy(self.executor.get_output(result)) for result, _ in self.targets]
        except FAILURES as error:
            return [_Failure(error)] * len(self.targets)


class PipelineModule:
    """A pipeline that runs: `set_input`, `run`, `get_output`. `run` does not wait for results: while it is
    called again, the stages work on the runs before. Results come in the order of runs.

    One thread at a time may call it. A child process that was forked begins with no runs in progress.
    """

    def __init__(self, module: PipelineExecutorFactoryModule) -> None:
        """Raises: UsageError V0805 for what is no pipeline; FormatError V0805 for stages that do not fit
        their connections; the errors of executors."""
        if not isinstance(module, PipelineExecutorFactoryModule):
            raise UsageError(V0805, f"expected a pipeline that was built, got {type(module).__name__}")
        self._wiring = module.wiring
        self._executors = module.executors()
        self._inputs: dict[str, Tensor] = {}
        self._params: dict[int, dict[str, Any]] = {}
        self._begun = self._taken = 0
        self._owner = 0
        self._start()

    @staticmethod
    def load_library(config_file_name: str | os.PathLike[str]) -> PipelineModule:
        """The pipeline of a file that `export_library` wrote. Raises: as `load_module`; FormatError V0805 for
        a file with another module."""
        found = load_module(config_file_name)
        if not isinstance(found, PipelineExecutorFactoryModule):
            raise FormatError(V0805, f"the file has a module of kind {found.kind!r}, and no pipeline")
        return PipelineModule(found)

    def _start(self) -> None:
        """Make the queues and start the threads, in this process."""
        cpus = (*self._wiring.cpus, *((),) * self._wiring.stages)
        known = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        for number, wanted in enumerate(cpus):
            if missing := set(wanted) - known:
                raise UsageError(
                    V0805, f"stage {number} is to run on processor {min(missing)}, which is not here"
                )
        stages = [_Stage(each, cpus[number]) for number, each in enumerate(self._executors)]
        self._entries: list[tuple[str, queue.Queue[Any]]] = []
        self._results: list[queue.Queue[Any]] = []
        for outside, number, name in self._wiring.inputs:
            stages[number].sources[name] = queue.Queue(MOST_WAITING)
            self._entries.append((outside, stages[number].sources[name]))
        for source, result, number, name in self._wiring.edges:
            stages[number].sources[name] = queue.Queue(MOST_WAITING)
            stages[source].targets.append((result, stages[number].sources[name]))
        for source, result in self._wiring.outputs:
            self._results.append(queue.Queue())
            stages[source].targets.append((result, self._results[-1]))
        self._stages, self._owner = stages, os.getpid()
        self._taken, self._found = self._begun, list[Any]()
        turns = [stage.turns for stage in stages]
        threads = [
            threading.Thread(target=stage.serve, name=f"heddle-stage-{number}", daemon=True)
            for number, stage in enumerate(stages)
        ]
        weakref.finalize(self, _end, turns, threads, self._owner)
        for thread in threads:
            thread.start()

    def set_input(self, key: str, value: Any) -> None:
        """Copy a value to an input of the pipeline, for all runs that follow.

        Raises: UsageError V0803 for an unknown input; the errors of `Tensor.copyfrom`.
        """
        number, name = self._entry(key)
        like = self._executors[number].get_input(name)
        made = empty(like.shape, like.dtype, like.device)
        self._inputs[key] = made.copyfrom(value if isinstance(value, Tensor) else tensor(value))

    def get_input(self, key: str) -> Tensor:
        """The value of an input that was set. Raises: UsageError V0803 for an unknown one, V0806 where it was
        not set."""
        self._entry(key)
        if key not in self._inputs:
            raise UsageError(V0806, f"input {key!r} is not set", help="call set_input first")
        return self._inputs[key]

    def set_params(self, params_group_name: str, params_data: Mapping[str, Any]) -> None:
        """Set parameters of the stage that a group is connected to, by name, for all runs that follow.

        Raises: UsageError V0803 for an unknown group or parameter, V0804 for no mapping; the errors of
        `Tensor.copyfrom`.
        """
        number = self.get_params_group_pipeline_map(params_group_name)
        executor = self._executors[number]
        if not isinstance(params_data, Mapping):
            raise UsageError(V0804, f"parameters are a mapping by name, got {type(params_data).__name__}")
        made = {}
        for name, value in params_data.items():
            if executor.get_input_index(name) < 0:
                raise UsageError(V0803, f"stage {number} has no parameter {name!r}")
            like = executor.get_input(name)
            fresh = empty(like.shape, like.dtype, like.device)
            made[name] = fresh.copyfrom(value if isinstance(value, Tensor) else tensor(value))
        self._params.setdefault(number, {}).update(made)

    def run(self) -> None:
        """Begin a run with the inputs that are set; wait only where stages have many runs to do.

        Raises: UsageError V0806 where an input was never set.
        """
        values = [(entry, self.get_input(name)) for name, entry in self._entries]
        if self._owner != os.getpid():
            self._start()
            values = [(entry, self.get_input(name)) for name, entry in self._entries]
        for number, stage in enumerate(self._stages):
            stage.turns.put(self._params.pop(number, {}))
        for entry, value in values:
            entry.put(value)
        self._begun += 1

    def get_output(self, synchronize: bool = True, sleep_interval: float = 0.001) -> list[Tensor]:
        """The results of the next run, in order; waits for them. Without `synchronize`, an empty list where
        they are not there yet. `sleep_interval` has no effect: nothing is polled.

        Raises: UsageError V0806 where no run is in progress; what a stage raised in this run.
        """
        if self._owner != os.getpid() or self._taken == self._begun:
            if not synchronize:
                return []
            raise UsageError(V0806, "the results of all runs are taken", help="call run first")
        if not synchronize and any(result.empty() for result in self._results[len(self._found) :]):
            return []
        while len(self._found) < len(self._results):  # an interruption leaves what is there to the next call
            self._found.append(self._results[len(self._found)].get())
        found, self._found = self._found, []
        self._taken += 1
        for value in found:
            if isinstance(value, _Failure):
                raise value.error
        return found

    @property
    def num_executing_pipeline(self) -> int:
        """How many runs have begun."""
        return self._begun

    @property
    def num_outputs(self) -> int:
        """How many results a run has."""
        return len(self._wiring.outputs)

    def get_input_pipeline_map(self, name: str) -> list[str]:
        """The stage that an input of the pipeline goes to, as text, and the name of the input there. Raises:
        UsageError V0803."""
        number, here = self._entry(name)
        return [str(number), here]

    def get_params_group_pipeline_map(self, name: str) -> int:
        """The stage that a group of parameters is for. Raises: UsageError V0803."""
        known = dict(self._wiring.params)
        if not isinstance(name, str) or name not in known:
            raise UsageError(V0803, f"no group of parameters {name!r}", help=did_you_mean(name, known))
        return known[name]

    def _entry(self, key: str) -> tuple[int, str]:
        for outside, number, name in self._wiring.inputs:
            if outside == key:
                return number, name
        known = [outside for outside, *_ in self._wiring.inputs]
        raise UsageError(V0803, f"the pipeline has no input {key!r}", help=did_you_mean(str(key), known))


def _end(turns: Sequence[queue.SimpleQueue[Any]], threads: Sequence[threading.Thread], owner: int) -> None:
    """Let the threads end, behind the runs that they have; wait for it, so that their memory is free then,
    but not for long runs."""
    for each in turns:
        each.put(None)
    if owner == os.getpid() and threading.current_thread() not in threads:
        for thread in threads:
            thread.join(_PATIENCE_S)


def _copy(value: Tensor) -> Tensor:
    """A tensor of the same values: a stage overwrites its results in the next run."""
    return empty(value.shape, value.dtype, value.device).copyfrom(value)


def pipeline_executor_enabled() -> bool:
    """Whether there are pipelines: always."""
    return True
