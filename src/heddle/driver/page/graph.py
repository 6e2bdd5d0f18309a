"""The graphs of a model for a page: nodes, edges, weights, and which call of a kernel computes what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heddle.driver.page.facts import Graph, GraphNode, Group
from heddle.driver.page.tables import Tables
from heddle.driver.page.walk import bodies_in, kernel_calls
from heddle.graph.nodes import Binding, MatchCast, SeqExpr
from heddle.ir.expr import Call, Constant, Expr, ExternFunc, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.op_def import op_def
from heddle.ir.visitor import walk_distinct
from heddle.lower.normal_form import graph_functions

_BRANCHES = ("then", "else")


def graphs_of(tables: Tables, mod: IRModule, lowered: IRModule | None) -> list[Graph]:
    """The graph functions of a module, `main` first, with the groups of what it was lowered to."""
    calls: dict[str, list[Group]] = {}
    for function, kernel, span in () if lowered is None else kernel_calls(lowered):
        calls.setdefault(function, []).append(Group(kernel, tables.set(span)))
    everywhere = [group for groups in calls.values() for group in groups]
    found = []
    for var, func in sorted(graph_functions(mod), key=lambda item: item[0].name_hint != "main"):
        builder = _Builder(tables, calls.get(var.name_hint) or everywhere)
        found.append(builder.build(var.name_hint, func))
    return found


class _Builder:
    """Builds one graph."""

    def __init__(self, tables: Tables, groups: list[Group]) -> None:
        self._tables = tables
        self._graph = Graph("", [], [], groups)
        self._makers: dict[Var, tuple[int, ...]] = {}
        """The nodes that a variable's value comes from."""
        by_place: dict[int, list[int]] = {}
        for number, group in enumerate(groups):
            for place in tables.facts.sets[group.set]:
                by_place.setdefault(place, []).append(number)
        self._by_place: Mapping[int, list[int]] = by_place

    def build(self, name: str, func: Any) -> Graph:
        self._graph.function = name
        for param in func.params:
            node = GraphNode("param", "input", param.name_hint, _type(param), self._tables.set(param.span))
            self._makers[param] = (self._add(node),)
        result = self._body(func.body, -1)
        output = self._add(GraphNode("output", "output", "", _type(func.body), self._tables.set()))
        self._edges(result, output)
        self._graph.edges = list(dict.fromkeys(self._graph.edges))
        return self._graph

    def _add(self, node: GraphNode) -> int:
        self._graph.nodes.append(node)
        return len(self._graph.nodes) - 1

    def _edges(self, sources: Iterable[int], target: int) -> None:
        self._graph.edges += [(source, target) for source in sources if source != target]

    def _body(self, body: Expr, parent: int) -> tuple[int, ...]:
        """Add the nodes of a body; gives those that its result comes from."""
        if not isinstance(body, SeqExpr):
            return self._sources(body)
        for binding in body.bindings():
            self._binding(binding, parent)
        return self._sources(body.body)

    def _binding(self, binding: Binding, parent: int) -> None:
        value = binding.value
        if isinstance(value, (Var, Tuple, TupleGetItem)) or isinstance(binding, MatchCast):
            self._makers[binding.var] = self._sources(value)
            return
        kind = "if" if isinstance(value, If) else "function" if isinstance(value, Function) else "call"
        span = self._tables.set(binding.origin)
        node = GraphNode(kind, _label(value), binding.var.name_hint, _type(binding.var), span)
        node.parent = parent
        own = self._add(node)
        self._makers[binding.var] = (own,)
        if kind == "call":
            node.weight_bytes = _weight_bytes(value)
            node.group = self._group(span)
            self._edges(self._sources(value), own)
        elif isinstance(value, If):
            self._edges(self._sources(value.cond), own)
        self._inside(value, own)

    def _inside(self, value: Expr, own: int) -> None:
        """The bodies that a node holds. What they give is the node's value."""
        bodies = bodies_in(value)
        if isinstance(value, Function):
            for param in value.params:
                node = GraphNode("param", "parameter", param.name_hint, _type(param), self._tables.set())
                node.parent = own
                self._makers[param] = (self._add(node),)
        for name, body in zip(_BRANCHES if len(bodies) > 1 else ("",), bodies, strict=False):
            inner = own
            if name:
                inner = self._add(GraphNode("branch", name, "", _type(body), self._tables.set(), 0, own))
            self._body(body, inner)

    def _sources(self, value: Expr) -> tuple[int, ...]:
        """The nodes whose values an expression reads."""
        found = [self._makers.get(node, ()) for node in walk_distinct(value) if isinstance(node, Var)]
        return tuple(dict.fromkeys(maker for makers in found for maker in makers))

    def _group(self, span: int) -> int:
        """The call of a kernel that shares most places with a node; of equal ones that with fewest others."""
        places = self._tables.facts.sets[span]
        shared: dict[int, int] = {}
        for place in places:
            for group in self._by_place.get(place, ()):
                shared[group] = shared.get(group, 0) + 1
        sets, groups = self._tables.facts.sets, self._graph.groups
        return max(shared, key=lambda g: (shared[g], -len(sets[groups[g].set]), -g), default=-1)


def _label(value: Expr) -> str:
    if isinstance(value, If):
        return "if"
    if isinstance(value, Function):
        return "function"
    if not isinstance(value, Call):
        return value.node_kind.rpartition(".")[2]
    record = op_def(value.op)
    if record is not None:
        return record.name
    if isinstance(value.op, (GlobalVar, Var)):
        return value.op.name_hint
    return value.op.global_symbol if isinstance(value.op, ExternFunc) else value.op.node_kind


def _type(expr: Expr) -> str:
    ty = expr.ty
    return "" if ty is None else str(ty).replace("R.", "")


def _weight_bytes(value: Expr) -> int:
    """Bytes of the constants that an expression reads."""
    return sum(node.data.size_bytes for node in walk_distinct(value) if isinstance(node, Constant))
