"""Nodes in an order in which each comes after those that it uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx import GraphProto, NodeProto

from heddle.frontend.codes import N0105
from heddle.frontend.onnx.proto import Node, node_of, subgraphs
from heddle.support.diagnostics import ImportModelError


def in_order(
    protos: Sequence[NodeProto], given: Mapping[str, Any] | None = None, folder: Path | None = None
) -> list[Node]:
    """The nodes, sorted by what they use where the file does not sort them. Raises: ImportModelError N0105
    for a cycle."""
    nodes = [node_of(proto, given, folder) for proto in protos]
    made_by: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.outputs:
            if name in made_by:
                raise ImportModelError(N0105, f"value {name!r} is defined twice")
            if name:
                made_by[name] = index
    needs = [sorted({made_by[name] for name in used_names(node) if name in made_by}) for node in nodes]
    if all(need < index for index, uses in enumerate(needs) for need in uses):
        return nodes
    return [nodes[index] for index in _sorted(needs, nodes)]


def _sorted(needs: Sequence[Sequence[int]], nodes: Sequence[Node]) -> list[int]:
    """Depth first with an own stack: models can be deeper than Python's."""
    state = [0] * len(needs)
    order: list[int] = []
    for root in range(len(needs)):
        stack = [(root, iter(needs[root]))] if not state[root] else []
        if stack:
            state[root] = 1
        while stack:
            index, rest = stack[-1]
            below = next(rest, None)
            if below is None:
                stack.pop()
                state[index] = 2
                order.append(index)
            elif state[below] == 1:
                raise ImportModelError(N0105, f"node {nodes[below].label!r} depends on its own output")
            elif state[below] == 0:
                state[below] = 1
                stack.append((below, iter(needs[below])))
    return order


def used_names(node: Node) -> Iterator[str]:
    """What a node reads: its inputs, and what its subgraphs take from around them."""
    yield from (name for name in node.inputs if name)
    for graph in subgraphs(node):
        yield from outer_names(graph)


def outer_names(graph: GraphProto) -> list[str]:
    """The names that a subgraph uses and does not define, each once, in order."""
    own = {value.name for value in graph.input} | {stored.name for stored in graph.initializer}
    own |= {stored.values.name for stored in graph.sparse_initializer}
    nodes = [node_of(proto) for proto in graph.node]
    own |= {name for node in nodes for name in node.outputs}
    used: Iterable[str] = [name for node in nodes for name in used_names(node)]
    used = [*used, *(output.name for output in graph.output)]
    return [name for name in dict.fromkeys(used) if name and name not in own]
