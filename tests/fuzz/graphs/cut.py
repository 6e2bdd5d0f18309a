"""Smaller cases out of a case: other outputs, nodes replaced by the values that they give."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import onnx
from onnx import numpy_helper

from heddle.frontend.onnx.part import needed_nodes, part_of, used_names
from tests.fuzz.graphs.judge import Case, Ways
from tests.fuzz.graphs.oracle import value_info
from tests.fuzz.graphs.values import Value, is_fixed


def rebuilt(
    case: Case,
    outputs: Sequence[str],
    cuts: Collection[str] = (),
    samples: Sequence[int] | None = None,
    ways: Ways | None = None,
    static: bool = False,
) -> Case | None:
    """The part of the case that gives `outputs`, with the values `cuts` given as inputs. `static`: all sizes
    of inputs are written. None where a value is no tensor or nothing is left."""
    graph = case.model.graph
    chosen = list(range(len(case.inputs))) if samples is None else list(samples)
    if any(name not in case.known or case.known[name].is_sequence for name in (*outputs, *cuts)):
        return None
    kept = needed_nodes(graph, outputs, cuts)
    needed = {*outputs, *(name for node in kept for name in used_names(node))}
    types = {item.name: item for item in graph.input if item.name in needed}
    types |= {name: _free_type(case, name) for name in dict.fromkeys(cuts) if name in needed}
    if static:
        for name in types:
            value = case.known[name]
            array = value.clean[chosen[0]]
            if all(value.clean[s].shape == array.shape for s in chosen):
                types[name] = value_info(name, array, array.shape)
    model = part_of(case.model, [value_info(name, case.known[name].clean[0]) for name in outputs], types)
    if model is None:
        return None
    names = [item.name for item in model.graph.input]
    values = case.known
    return Case(
        model,
        [{name: values[name].clean[s] for name in names} for s in chosen],
        [[values[name].clean[s] for name in outputs] for s in chosen],
        [[values[name].noisy[s] for name in outputs] for s in chosen],
        case.ways if ways is None else ways,
        case.seed,
        {name: _chosen(value, chosen) for name, value in values.items()},
    )


def _chosen(value: Value, samples: Sequence[int]) -> Value:
    return Value(
        value.name, [value.clean[s] for s in samples], [value.noisy[s] for s in samples], value.constant
    )


def _free_type(case: Case, name: str) -> onnx.ValueInfoProto:
    """Sizes that differ between the samples are names of their own: what they share is not known here."""
    value = case.known[name]
    dims = [size[0] if is_fixed(size) else f"{name}_{axis}" for axis, size in enumerate(value.shape)]
    return value_info(name, value.clean[0], dims)


def without_refused(case: Case, message: str) -> Case | None:
    """The case with the values of the node that a refusal names as inputs."""
    found = re.search(r'node "(\w+)"', message)
    node = found and next((n for n in case.model.graph.node if found[1] in n.output), None)
    if not node:
        return None
    names = [name for name in node.output if name in case.known]
    outputs = [item.name for item in case.model.graph.output if item.name not in names]
    return rebuilt(case, outputs, names) if outputs else None


def stored_inputs(case: Case) -> list[onnx.TensorProto]:
    """The inputs of the first sample, to lie beside the model."""
    return [numpy_helper.from_array(array, name) for name, array in case.inputs[0].items()]
