"""How large a model is once its functions are inlined, counted without doing that.

    f1 calls f0 twice, f2 calls f1 twice, ...        →        f22 counts as 2²² calls of f0

Each function is looked at once, so the count takes time in proportion to the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from onnx import AttributeProto, NodeProto

from heddle.frontend.codes import N0105
from heddle.frontend.onnx.bodies import FunctionTable
from heddle.frontend.onnx.proto import LoadedModel, plain_domain
from heddle.support.diagnostics import ImportModelError
from heddle.support.limits import current_limits, exceeded
from heddle.support.span import ModelSpan

_CONTROL_FLOW = ("If", "Loop", "Scan")


class Size(NamedTuple):
    """Nodes with those of subgraphs and called functions, and how deep these lie in one another."""

    num_nodes: int = 0
    depth: int = 0
    is_straight: bool = True


def model_size(model: LoadedModel, functions: FunctionTable) -> Size:
    """The size of a model that is within the limits.

    Raises: UsageError S0601 beyond the limits `nodes` and `nesting`; ImportModelError N0105 for a function
    that calls itself.
    """
    found = _Counter(model.name, functions).graph(model.proto.graph.node, 0)
    most = current_limits().nodes
    if found.num_nodes > most:
        raise exceeded("nodes", f"{model.name} has {found.num_nodes} nodes once its functions are inlined")
    return found


@dataclass(slots=True)
class _Counter:
    name: str
    functions: FunctionTable
    known: dict[int, Size] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def graph(self, nodes: Iterable[NodeProto], depth: int) -> Size:
        self._check_depth(depth)
        num_nodes, below, is_straight = 0, 0, True
        for proto in nodes:
            own = self._node(proto, depth)
            num_nodes += own.num_nodes
            below, is_straight = max(below, own.depth), is_straight and own.is_straight
        return Size(num_nodes, below, is_straight)

    def _node(self, proto: NodeProto, depth: int) -> Size:
        parts = []
        for attr in proto.attribute:
            graphs = [attr.g] if attr.type == AttributeProto.GRAPH else attr.graphs
            parts += [self.graph(graph.node, depth + 1) for graph in graphs]
        domain = plain_domain(proto.domain)
        body = self.functions.body_of(domain, proto.op_type)
        if body is not None:
            parts.append(self._function(id(body), proto, body.node, depth + 1))
        own = 1 + sum(part.num_nodes for part in parts)
        below = max((part.depth + 1 for part in parts), default=0)
        is_control = not domain and proto.op_type in _CONTROL_FLOW
        return Size(own, below, not is_control and all(part.is_straight for part in parts))

    def _function(self, key: int, call: NodeProto, nodes: Iterable[NodeProto], depth: int) -> Size:
        found = self.known.get(key)
        if found is None:
            if key in self.open:
                label = call.name or next(iter(call.output), call.op_type)
                span = ModelSpan(self.name, label, call.op_type)
                raise ImportModelError(N0105, f"function {call.op_type} calls itself", span=span)
            self.open.add(key)
            found = self.known[key] = self.graph(nodes, depth)
            self.open.remove(key)
        self._check_depth(depth + found.depth)
        return found

    def _check_depth(self, depth: int) -> None:
        most = current_limits().nesting
        if depth > most:
            raise exceeded(
                "nesting", f"subgraphs and functions of {self.name} lie {depth} deep in one another"
            )
