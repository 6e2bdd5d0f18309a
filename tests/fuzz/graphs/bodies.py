"""If, Loop and Scan for the oracle: node by node, since peers depart from the standard inside bodies too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from heddle.frontend.onnx.part import used_names

Evaluate = Callable[[NodeProto, Mapping[str, Any], int], list[Any]]
MOST_TURNS = 100


class Refused(Exception):
    """No peer answers."""


def by_branch(evaluate: Evaluate, node: NodeProto, given: Mapping[str, Any], opset: int) -> list[Any]:
    """The branch that an If takes."""
    chosen = "then_branch" if bool(given[node.input[0]]) else "else_branch"
    return _by_nodes(evaluate, _body(node, chosen), given, opset)


def _body(node: NodeProto, name: str) -> GraphProto:
    (body,) = (attr.g for attr in node.attribute if attr.name == name)
    return body


def _by_nodes(evaluate: Evaluate, body: GraphProto, given: Mapping[str, Any], opset: int) -> list[Any]:
    table = dict(given) | {item.name: numpy_helper.to_array(item) for item in body.initializer}
    for inner in body.node:
        made = evaluate(inner, {name: table[name] for name in used_names(inner)}, opset)
        table.update(zip(filter(None, inner.output), made, strict=True))
    return [table[output.name] for output in body.output]


def by_turns(evaluate: Evaluate, node: NodeProto, given: Mapping[str, Any], opset: int) -> list[Any]:
    """A Loop, turn by turn."""
    body = _body(node, "body")
    trips, condition, *names = node.input
    turns = int(given[trips]) if trips else MOST_TURNS
    goes_on = bool(given[condition]) if condition else True
    carried, rows, number = [given[name] for name in names], [], 0
    while goes_on and number < turns:
        if number == MOST_TURNS:
            raise Refused("a loop of many turns, node by node")
        values = [np.asarray(number, np.int64), np.asarray(goes_on), *carried]
        own = dict(zip((each.name for each in body.input), values, strict=True))
        going, *made = _by_nodes(evaluate, body, dict(given) | own, opset)
        carried, goes_on, number = made[: len(names)], bool(going), number + 1
        rows.append(made[len(names) :])
    return _results(node, carried, [np.stack(each) for each in _columns(rows)])


def by_slices(evaluate: Evaluate, node: NodeProto, given: Mapping[str, Any], opset: int) -> list[Any]:
    """A Scan of the ninth operator set or later, slice by slice."""
    if opset < 9:
        raise Refused("a scan of batches, node by node")
    attrs = {attr.name: helper.get_attribute_value(attr) for attr in node.attribute}
    body, count = _body(node, "body"), int(attrs["num_scan_inputs"])
    names, scanned = node.input[:-count], [given[name] for name in node.input[-count:]]
    scanned = [
        np.moveaxis(x, axis, 0)
        for x, axis in zip(scanned, _each(attrs, "scan_input_axes", count), strict=True)
    ]
    backward = _each(attrs, "scan_input_directions", count)
    turns = len(scanned[0])
    if not 0 < turns <= MOST_TURNS:
        raise Refused("a scan of no turns or of many, node by node")
    carried, rows = [given[name] for name in names], []
    for turn in range(turns):
        slices = [x[turns - 1 - turn if back else turn] for x, back in zip(scanned, backward, strict=True)]
        own = dict(zip((each.name for each in body.input), [*carried, *slices], strict=True))
        made = _by_nodes(evaluate, body, dict(given) | own, opset)
        carried = made[: len(names)]
        rows.append(made[len(names) :])
    columns = _columns(rows)
    axes = _each(attrs, "scan_output_axes", len(columns))
    ends = _each(attrs, "scan_output_directions", len(columns))
    collected = [
        np.stack(each[::-1] if end else each, axis=axis if axis >= 0 else axis + each[0].ndim + 1)
        for each, axis, end in zip(columns, axes, ends, strict=True)
    ]
    return _results(node, carried, collected)


def _each(attrs: Mapping[str, Any], name: str, count: int) -> list[int]:
    return list(attrs.get(name, ())) or [0] * count


def _columns(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    collected = list(zip(*rows, strict=True))
    if any(len({row.shape for row in each}) > 1 for each in collected):
        raise Refused("rows of several shapes")
    return collected


def _results(node: NodeProto, carried: Sequence[Any], collected: Sequence[Any]) -> list[Any]:
    if len(carried) + len(collected) < len(node.output):
        raise Refused("rows of a loop that does not run")
    return [value for name, value in zip(node.output, [*carried, *collected], strict=False) if name]
