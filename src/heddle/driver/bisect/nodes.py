"""The part of an ONNX model that shows a fault: values of the other engine take the place of all the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper

from heddle.driver.bisect.case import Case, fault, kind_of
from heddle.driver.inputs import Array
from heddle.frontend.onnx import from_onnx
from heddle.frontend.onnx.part import given_inputs, needed_nodes, part_of
from heddle.support.diagnostics import HeddleError

MAX_TRIALS = 150
"""Programs that are compiled, at most, to make a part smaller."""


@dataclass(slots=True)
class _Search:
    """`values` are those of the other engine; a part is tried until `left` is used up."""

    model: ModelProto
    case: Case
    values: Mapping[str, Array]
    kind: str
    left: int
    progress: Callable[[str], None]

    def takes(self, outputs: Sequence[str], cuts: Sequence[str]) -> bool:
        """Whether a part fails in the same way; then it is the model from now on."""
        made = self.part(outputs, cuts)
        if made is None or self.left <= 0:
            return False
        self.left -= 1
        if kind_of(fault(made[1])) != self.kind:
            return False
        self.model, self.case = made
        self.progress(f"{len(self.model.graph.node)} nodes")
        return True

    def part(self, outputs: Sequence[str], cuts: Sequence[str]) -> tuple[ModelProto, Case] | None:
        """A part of the model, and the case of it; None where there is none."""
        if any(name not in self.values for name in outputs):
            return None
        types = {name: _typed(name, self.values[name]) for name in cuts if name in self.values}
        types |= {item.name: item for item in self.model.graph.input if item.name not in types}
        model = part_of(self.model, [_typed(name, self.values[name]) for name in outputs], types)
        if model is None:
            return None
        given = [item.name for item in model.graph.input]
        if any(name not in self.values for name in given):
            return None
        try:
            mod = from_onnx(model)
        except HeddleError:
            return None
        arrays = tuple(self.values[name] for name in given)
        expected = tuple(self.values[name] for name in outputs)
        return model, replace(self.case, mod=mod, arrays=arrays, expected=expected)

    def run(self) -> None:
        """One output, the earliest value that is wrong, and of what gives it as little as can be."""
        for item in self.model.graph.output:
            if self.takes([item.name], []):
                break
        self._earliest()
        self._cut()

    def _earliest(self) -> None:
        """The first value on the way to the output whose own part fails, if faults carry on."""
        graph = self.model.graph
        names = [name for node in graph.node for name in node.output if name in self.values]
        low, high = 0, len(names) - 1
        while low < high and self.left > 0:
            middle = (low + high) // 2
            if self.takes([names[middle]], []):
                high = middle
            else:
                low = middle + 1

    def _cut(self) -> None:
        """Nodes in blocks, the largest first, become inputs of what stays."""
        block = max(1, len(self.model.graph.node) // 2)
        while True:
            for names in self._blocks(block):
                outputs = [item.name for item in self.model.graph.output]
                self.takes(outputs, names)
            if block == 1:
                return
            block //= 2

    def _blocks(self, block: int) -> Iterator[list[str]]:
        nodes = list(self.model.graph.node)
        last = {item.name for item in self.model.graph.output}
        for start in range(0, len(nodes), block):
            present = {name for node in self.model.graph.node for name in node.output}
            names = [name for node in nodes[start : start + block] for name in node.output]
            fitting = [name for name in names if name in present & self.values.keys() and name not in last]
            if fitting:
                yield fitting


def _typed(name: str, value: Array) -> ValueInfoProto:
    """The type of a value, with its sizes."""
    kind = helper.np_dtype_to_tensor_dtype(value.dtype) if value.dtype != object else 8
    return helper.make_tensor_value_info(name, kind, list(value.shape))


def smallest_part(
    model: ModelProto, case: Case, values: Mapping[str, Array], progress: Callable[[str], None]
) -> tuple[ModelProto, Case]:
    """The smallest part of a model that was found to fail as the whole does, and the case of it. `values`
    are what the other engine gave for values of the graph, its inputs among them, by name.
    """
    search = _Search(model, case, values, kind_of(fault(case)), MAX_TRIALS, progress)
    search.run()
    return search.model, search.case


def feeds_of(model: ModelProto, arrays: Sequence[Array]) -> dict[str, Array]:
    """Arrays by the names of the inputs that they are for."""
    names = (item.name for item in given_inputs(model.graph))
    return dict(zip(names, arrays, strict=True))


def graph_values(model: ModelProto, arrays: Sequence[Array], run: Callable[..., Any]) -> dict[str, Array]:
    """The values of a graph by name, as far as they are arrays: `run(model, feeds)` gives the outputs of a
    model, in order."""
    feeds = feeds_of(model, arrays)
    names = [name for node in needed_nodes(model.graph, [item.name for item in model.graph.output])
             for name in node.output if name]  # fmt: skip
    wide = ModelProto()
    wide.CopyFrom(model)
    del wide.graph.output[:]
    wide.graph.output.extend(ValueInfoProto(name=name) for name in names)
    found = dict(zip(names, run(wide, feeds), strict=True))
    return feeds | {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
