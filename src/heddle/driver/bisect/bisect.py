"""Bisect a model whose outputs differ from a reference, down to the node, the pass and the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heddle.driver.bisect.case import Case, Setup, fault, interpreted_outputs
from heddle.driver.bisect.nodes import feeds_of, graph_values, smallest_part
from heddle.driver.bisect.stages import Stage, find_stage, outputs_of
from heddle.driver.codes import D0402, D1001
from heddle.driver.compare import run_in_onnxruntime
from heddle.driver.compile import function_signature
from heddle.driver.inputs import Array, make_arguments
from heddle.driver.models import find_uncompiled, import_model
from heddle.driver.targets import as_target
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen

ENGINES = ("onnxruntime", "interpreter")
"""The reference engine: ONNX Runtime, or Heddle's graph interpreter."""


@frozen
class BisectOptions:
    """Options of `bisect`. `given` are arrays by input name; `dims` are values of free dimensions; the other
    inputs are random, from `seed`."""

    against: str = "onnxruntime"
    function: str = "main"
    target: Any = None
    exec_mode: str = "compiled"
    precision: str = "fp32"
    given: Mapping[str, Array] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    trust: bool = False


@dataclass(slots=True)
class Finding:
    """The result of `bisect`. `fault` is a one-line description of the fault of the whole model. If it is
    empty, the engines agree, and all else is empty too. Then: the nodes of the smallest failing part
    (operators and the names of their results), the stage, and that part as `case`, and as an ONNX model in
    `part` if it comes from one."""

    fault: str
    nodes: list[str] = field(default_factory=list)
    stage: Stage | None = None
    case: Case | None = None
    part: Any = None

    def text(self) -> str:
        """Return a report of several lines."""
        if not self.fault:
            return "the engines agree: there is nothing to look for"
        lines = [f"found: {self.fault}"]
        if self.nodes:
            lines.append(f"nodes: {', '.join(self.nodes[:8])}{' ...' if len(self.nodes) > 8 else ''}")
        if self.stage is not None:
            lines.append(f"stage: {self.stage.name}")
            if self.stage.kernel:
                rule = f", scheduled by rule {self.stage.rule}" if self.stage.rule else ""
                lines.append(f"kernel: {self.stage.kernel}{rule}")
            lines.append(f"there: {self.stage.found}")
            lines += [f"note: {note}" for note in self.stage.notes]
        return "\n".join(lines)


def bisect(text: str, options: BisectOptions, progress: Callable[[str], None] = lambda _: None) -> Finding:
    """Find the node, the pass and the kernel that make a model's outputs differ from another engine's.

    `text` is an uncompiled model in a form that `heddle run` accepts. Differences within the tolerances of
    `heddle run --compare` do not count.

    Raises: UsageError D0402 for an engine that cannot run the model, D1001 for inputs that are not arrays; as
    `heddle run` for the model and its inputs; MissingDependencyError D0401.
    """
    if options.against not in ENGINES:
        raise UsageError(D0402, f"unknown engine {options.against!r}: expected one of {', '.join(ENGINES)}")
    model = find_uncompiled(text)
    mod = import_model(model, trust=options.trust)
    setup = Setup(as_target(options.target), options.exec_mode, options.precision, options.function)
    signature = function_signature(mod[options.function])
    found = make_arguments(signature, options.given, options.dims, options.seed)
    arrays = tuple(_array(name, value) for name, value in found.arrays.items())
    case = Case(mod, arrays, (), setup)
    source = _onnx_model(model) if model.suffix == ".onnx" else None
    if options.against == "onnxruntime":
        if source is None:
            raise UsageError(D0402, f"{model.name} is no ONNX model, which alone onnxruntime can run")
        expected = run_in_onnxruntime(source, feeds_of(source, arrays))
    else:
        expected = outputs_of(case)
    case = Case(mod, arrays, tuple(expected), setup)
    wrong = fault(case)
    if not wrong:
        return Finding("")
    progress(wrong)
    if source is None:
        return Finding(wrong, [], find_stage(case, progress), case)
    values = graph_values(source, arrays, _runner(options, case))
    part, small = smallest_part(source, case, values, progress)
    nodes = [f"{node.op_type} {node.name or node.output[0]}" for node in part.graph.node]
    return Finding(wrong, nodes, find_stage(small, progress), small, part)


def _runner(options: BisectOptions, case: Case) -> Callable[[Any, Mapping[str, Array]], Sequence[Any]]:
    """What runs an ONNX model in the other engine."""
    if options.against == "onnxruntime":
        return run_in_onnxruntime

    def run(model: Any, feeds: Mapping[str, Array]) -> Sequence[Any]:
        from heddle.frontend.onnx import from_onnx  # it needs the package onnx

        wide = Case(from_onnx(model), tuple(feeds.values()), case.expected, case.setup)
        return interpreted_outputs(wide, wide.mod)

    return run


def _onnx_model(model: Any) -> Any:
    import onnx  # an optional package

    return onnx.load(model.path)


def _array(name: str, value: Any) -> Array:
    if not isinstance(value, np.ndarray):
        raise UsageError(D1001, f"input {name!r} is no array: only models of arrays can be taken apart")
    return value
