"""Pipelines of Relay programs: which program is a stage, and what is connected to what.

config = PipelineConfig()
config["input"]["x"].connect(config[first]["input"]["data"])
config[first]["output"][0].connect(config[second]["input"]["y"])
config[second]["output"][0].connect(config["output"][0])
config[second].target = "llvm"
pipeline = PipelineModule(build(config))
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heddle.driver.codes import D0110
from heddle.driver.relay_build import build as build_program
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_equal
from heddle.ir.types import TupleType, Type
from heddle.relay.text_values import type_text
from heddle.relay.transform.infer_type import InferType
from heddle.runtime.device import Device, cpu
from heddle.runtime.module import Module
from heddle.support.diagnostics import UsageError, did_you_mean
from heddle.vm.graph.pipeline import PipelineExecutorFactoryModule
from heddle.vm.graph.wiring import Wiring

_CONNECTIONS = {
    ("pipeline", "input", "stage", "input"),
    ("stage", "output", "stage", "input"),
    ("stage", "output", "pipeline", "output"),
    ("pipeline", "param", "stage", "param"),
}
"""What may be connected to what."""


class PipelineConfig:
    """Programs and their connections. `config[mod]` is the stage of a Relay module, which is added where it
    is not there; `config["input"]["x"]`, `config["output"][0]` and `config["param_group"]["p"]` are inputs,
    outputs and groups of parameters of the whole pipeline."""

    def __init__(self) -> None:
        self.stages: dict[int, PipelineStage] = {}
        """By the identity of the module."""
        self._outside = {kind: Interfaces(None, kind) for kind in ("input", "output", "param")}
        self.connections: list[tuple[Interface, Interface]] = []
        for each in self._outside.values():
            each.config = self

    def __getitem__(self, key: Any) -> Any:
        """A stage, or interfaces of the pipeline. Raises: UsageError D0110 for an unknown name."""
        if isinstance(key, IRModule):
            if id(key) not in self.stages:
                self.stages[id(key)] = PipelineStage(self, key)
            return self.stages[id(key)]
        kind = "param" if key == "param_group" else key
        if not isinstance(kind, str) or kind not in self._outside:
            names = ["input", "output", "param_group"]
            help = did_you_mean(str(key), names)
            raise UsageError(D0110, f"expected a module, or one of {names}, got {key!r}", help=help)
        return self._outside[kind]

    def ordered(self) -> list[PipelineStage]:
        """The stages, each behind those that it depends on, otherwise in the order of before."""
        done: dict[int, PipelineStage] = {}
        todo = [(stage, False) for stage in reversed(self.stages.values())]
        while todo:
            stage, is_ready = todo.pop()
            if is_ready:
                done.setdefault(id(stage), stage)
            elif id(stage) not in done:
                todo.append((stage, True))
                todo += [(each, False) for each in reversed(self.sources(stage))]
        return list(done.values())

    def sources(self, stage: PipelineStage) -> list[PipelineStage]:
        """The stages that a stage takes results from."""
        return [source.stage for source, target in self.connections if target.stage is stage and source.stage]

    def wiring(self) -> Wiring:
        """The connections with the stages' numbers. Raises: UsageError D0110 for gaps."""
        stages = self.ordered()
        numbers = {id(stage): number for number, stage in enumerate(stages)}
        inputs, edges, outputs, params = [], [], {}, []
        for source, target in self.connections:
            if source.stage is None:
                number = numbers[id(target.stage)]
                if source.kind == "param":
                    params.append((source.name, number))
                else:
                    inputs.append((source.name, number, target.name))
            elif target.stage is None:
                outputs[int(target.name)] = numbers[id(source.stage)], int(source.name)
            else:
                pair = numbers[id(source.stage)], numbers[id(target.stage)]
                edges.append((pair[0], int(source.name), pair[1], target.name))
        if sorted(outputs) != list(range(len(outputs))) or not outputs:
            raise UsageError(D0110, f"outputs are numbered from 0 on, got {sorted(outputs) or 'none'}")
        found = tuple(outputs[place] for place in range(len(outputs)))
        cpus = tuple(stage.processors() for stage in stages)
        return Wiring(len(stages), tuple(inputs), tuple(edges), found, tuple(params), cpus)

    def __str__(self) -> str:
        """Inputs, outputs and connections, a line each."""
        numbers = {id(stage): number for number, stage in enumerate(self.ordered())}

        def end(each: Interface) -> str:
            place = "" if each.stage is None else f"mod{numbers[id(each.stage)]}."
            return f"{place}{each.kind}({each.name})"

        return "\n".join(f"{end(source)} -> {end(target)}" for source, target in self.connections)


@dataclass(eq=False)
class PipelineStage:
    """One program of a pipeline, and what it is built with, as `relay.build` takes it. `build_func` is called
    in place of `relay.build`; `cpu_affinity` lists the processors that the stage's thread may use ("0,1")."""

    config: PipelineConfig
    mod: IRModule
    target: Any = None
    target_host: Any = None
    dev: Device = field(default_factory=lambda: cpu(0))
    params: Mapping[str, Any] | None = None
    build_func: Any = None
    mod_name: str = "default"
    cpu_affinity: str = ""

    def __post_init__(self) -> None:
        typed = InferType()(self.mod)
        main = typed["main"]
        fields = main.ret_ty.fields if isinstance(main.ret_ty, TupleType) else (main.ret_ty,)
        inputs = {param.name_hint: param.ty for param in main.params}
        outputs = {str(place): ty for place, ty in enumerate(fields)}
        self._interfaces = {
            "input": Interfaces(self, "input", inputs),
            "output": Interfaces(self, "output", outputs),
            "param": Interfaces(self, "param", None),
        }
        for each in self._interfaces.values():
            each.config = self.config

    def __getitem__(self, key: str) -> Interfaces:
        """Raises: UsageError D0110 for another name than input, output and param."""
        if not isinstance(key, str) or key not in self._interfaces:
            help = did_you_mean(str(key), self._interfaces)
            raise UsageError(D0110, f"expected 'input', 'output' or 'param', got {key!r}", help=help)
        return self._interfaces[key]

    def check(self, number: int) -> None:
        """Raises: UsageError D0110 for a setting of another kind."""
        for name, kind in (("dev", Device), ("mod_name", str), ("cpu_affinity", str)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                expected, given = kind.__name__, type(value).__name__
                raise UsageError(D0110, f"{name} of stage {number}: expected {expected}, got {given}")
        if self.build_func is not None and not callable(self.build_func):
            raise UsageError(D0110, f"build_func of stage {number} cannot be called")

    def processors(self) -> tuple[int, ...]:
        """The numbers in `cpu_affinity`. Raises: UsageError D0110 for another text."""
        items = [item.strip() for item in str(self.cpu_affinity).split(",")] if self.cpu_affinity else []
        if not all(item.isdecimal() for item in items):
            raise UsageError(D0110, f"cpu_affinity lists processors, as in '0,1', got {self.cpu_affinity!r}")
        return tuple(map(int, items))


@dataclass(eq=False)
class Interfaces:
    """The inputs, outputs or parameters of a stage, or of the pipeline, by name or number."""

    stage: PipelineStage | None
    kind: str
    types: Mapping[str, Type] | None = None
    config: Any = None

    def __getitem__(self, key: str | int) -> Interface:
        """Raises: UsageError D0110 for an input or output that a stage has not."""
        name = str(key)
        if self.kind == "output" and name.isdecimal():
            name = str(int(name))
        if self.types is not None and name not in self.types:
            help = did_you_mean(name, self.types)
            raise UsageError(D0110, f"the stage has no {self.kind} {key!r}", help=help)
        if self.stage is None and self.kind == "output" and not name.isdecimal():
            raise UsageError(D0110, f"outputs of the pipeline are numbered, got {key!r}")
        ty = None if self.types is None else self.types[name]
        return Interface(self.config, self.stage, self.kind, name, ty)


@dataclass(eq=False)
class Interface:
    """One input, output or group of parameters. `ty` is None for those of the pipeline."""

    config: PipelineConfig
    stage: PipelineStage | None
    kind: str
    name: str
    ty: Type | None

    def connect(self, binding: Any) -> None:
        """Connect an input of the pipeline to one of a stage, a stage's output to an input of another stage
        or to an output of the pipeline, or a group of parameters to a stage's.

        Raises: UsageError D0110 for other connections, for types that differ, for an end that has a source
        already, and for a cycle.
        """
        if isinstance(binding, Interfaces) and binding.kind == "param":
            binding = binding[""]
        if not isinstance(binding, Interface) or binding.config is not self.config:
            raise UsageError(D0110, "expected an input, output or parameters of the same pipeline")
        self._check_kinds(binding)
        for source, target in self.config.connections:
            if target.kind != "param" and target.is_same(binding):
                raise UsageError(D0110, f"{binding.kind} {binding.name!r} has a source already")
            if self.stage is None and source.is_same(self):
                self._check_types(target, binding)
                if self.kind == "param":
                    raise UsageError(D0110, f"parameters {self.name!r} are for one stage")
        if self.stage is not None and binding.stage is not None:
            self._check_types(self, binding)
            self._check_order(binding.stage)
        self.config.connections.append((self, binding))

    def is_same(self, other: Interface) -> bool:
        """Whether both are the same input, output or parameters."""
        return (self.stage, self.kind, self.name) == (other.stage, other.kind, other.name)

    def _check_kinds(self, other: Interface) -> None:
        if (*self.end(), *other.end()) not in _CONNECTIONS or self.stage is other.stage:
            (ours, kind), (theirs, other_kind) = self.end(), other.end()
            raise UsageError(
                D0110,
                f"the {kind} of a {ours} cannot be connected to the {other_kind} of a {theirs}",
                help="an input of the pipeline goes to one of a stage, an output of a stage to an input of "
                "another or to an output of the pipeline, parameters to a stage's parameters",
            )

    def end(self) -> tuple[str, str]:
        """Whose it is, and its kind."""
        return "pipeline" if self.stage is None else "stage", self.kind

    def _check_types(self, ours: Interface, theirs: Interface) -> None:
        if ours.ty is not None and theirs.ty is not None and not structural_equal(ours.ty, theirs.ty):
            raise UsageError(
                D0110,
                f"{ours.kind} {ours.name!r} is {type_text(ours.ty)}, and {theirs.kind} {theirs.name!r} is "
                f"{type_text(theirs.ty)}",
            )

    def _check_order(self, target: PipelineStage) -> None:
        todo, seen = [self.stage], set()
        while todo:
            stage = todo.pop()
            if stage is target:
                raise UsageError(D0110, "the stages would wait for each other in a cycle")
            if stage is not None and id(stage) not in seen:
                seen.add(id(stage))
                todo += self.config.sources(stage)


def build(pipe_configs: PipelineConfig) -> PipelineExecutorFactoryModule:
    """Build each stage, and connect them. `PipelineModule(build(config))` runs the pipeline.

    Raises: UsageError D0110 for outputs that are not numbered from 0 on, and inputs of stages without a
    source; as `relay.build`.
    """
    if not isinstance(pipe_configs, PipelineConfig):
        raise UsageError(D0110, f"expected a PipelineConfig, got {type(pipe_configs).__name__}")
    wiring = pipe_configs.wiring()
    stages = pipe_configs.ordered()
    targets, set_later = set(wiring.targets()), {number for _, number in wiring.params}
    made = []
    for number, stage in enumerate(stages):
        for name in (param.name_hint for param in stage.mod["main"].params):
            if (number, name) not in targets and name not in (stage.params or {}) and number not in set_later:
                raise UsageError(D0110, f"input {name!r} of stage {number} has no source")
        stage.check(number)
        function = stage.build_func or build_program
        built = function(
            stage.mod,
            stage.target,
            params=stage.params,
            target_host=stage.target_host,
            mod_name=stage.mod_name,
        )
        if not isinstance(built, Module):
            raise UsageError(D0110, f"build_func of stage {number} gave a {type(built).__name__}, no module")
        made.append(built)
    return PipelineExecutorFactoryModule(
        made, [stage.dev for stage in stages], [stage.mod_name for stage in stages], wiring
    )


def export_library(factory: PipelineExecutorFactoryModule, directory_path: str | os.PathLike[str]) -> str:
    """Write a pipeline to a file. Return its path. Raises: as `Module.export_library`."""
    return factory.export_library(directory_path)


def pipeline_executor_build_enabled() -> bool:
    """Whether pipelines can be built: always."""
    return True
