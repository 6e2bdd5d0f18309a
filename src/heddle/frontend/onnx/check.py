"""The first pass over a model: everything that cannot be imported, found before anything is built.

Structure first (names, cycles, numbers of inputs, attributes), since the rest relies on it; then operators,
versions and forms of every node, those of subgraphs and functions included. Each finding is a diagnostic at
its node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from heddle.frontend.codes import N0105, N0106, N0201, N0202, N0203, N0204
from heddle.frontend.onnx.bodies import FunctionTable
from heddle.frontend.onnx.order import in_order
from heddle.frontend.onnx.proto import DTYPES, LoadedModel, Node, subgraphs, tensor_shape
from heddle.frontend.onnx.registry import (
    MAX_OPSET,
    denials,
    find_converter,
    first_version,
    known_operators,
    reason_against,
)
from heddle.support.diagnostics import Code, Diagnostic, ImportModelError, nearest
from heddle.support.span import ModelSpan


def check_model(model: LoadedModel, functions: FunctionTable) -> None:
    """Raises: ImportModelError with all findings; FormatError N0106 for attributes that cannot be decoded."""
    checker = _Checker(model, functions)
    checker.opsets()
    checker.graph(model.proto.graph, frozenset(), 0)
    if checker.findings:
        raise ImportModelError(checker.findings)


@dataclass(slots=True)
class _Checker:
    model: LoadedModel
    functions: FunctionTable
    findings: list[Diagnostic] = field(default_factory=list)
    calls: tuple[str, ...] = ()

    def report(self, code: Code, message: str, node: Node | None = None, help: str | None = None) -> None:
        span = ModelSpan(self.model.name, node.label, node.op_type) if node else None
        self.findings.append(Diagnostic(code, message, span, help=help))

    # ---- structure

    def opsets(self) -> None:
        for domain, version in self.functions.model_opsets.items():
            newest = MAX_OPSET.get(domain)
            if newest is not None and version > newest:
                what = f"operator set {version}" + (f" of {domain}" if domain else "")
                self.report(
                    N0202,
                    f"{what} is newer than {newest}, the newest known",
                    help="export the model for an older operator set",
                )

    def graph(self, graph: GraphProto, outside: frozenset[str], depth: int) -> None:
        """A graph whose nodes may use `outside` beside its own names."""
        self._stored(graph)
        if graph.sparse_initializer:
            self.report(N0203, "sparse initializers are not supported", help="store them dense")
        given = [value.name for value in graph.input]
        for name in _repeated(given):
            self.report(N0105, f"input {name!r} is defined twice")
        own = {*given, *(stored.name for stored in graph.initializer)}
        self._nodes(graph.node, own, outside, depth)
        own |= {name for proto in graph.node for name in proto.output}
        for output in graph.output:
            if output.name not in own and output.name not in outside:
                self.report(N0105, f"output {output.name!r} is not defined")

    def _stored(self, graph: GraphProto) -> None:
        for name in _repeated(stored.name for stored in graph.initializer):
            self.report(N0105, f"initializer {name!r} is defined twice")
        for stored in graph.initializer:
            tensor_shape(stored)
            if stored.data_type not in DTYPES:
                self.report(
                    N0204, f"initializer {stored.name!r} has elements of {_type_name(stored.data_type)}"
                )

    def _nodes(
        self,
        protos: Iterable[NodeProto],
        own: set[str],
        outside: frozenset[str],
        depth: int,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        protos = list(protos)
        made = [name for proto in protos for name in proto.output if name]
        for name in _repeated([*made, *own]):
            self.report(N0105, f"value {name!r} is defined twice")
            return
        nodes = in_order(protos, given, self.model.folder)
        visible = outside | own | set(made)
        for node in nodes:
            for name in node.inputs:
                if name and name not in visible:
                    self.report(N0105, f"value {name!r} is used and not defined", node)
            for graph in subgraphs(node):
                self.graph(graph, frozenset(visible), depth + 1)
        for node, proto in zip(nodes, _same_order(nodes, protos), strict=True):
            self.node(node, proto, depth)

    # ---- nodes

    def node(self, node: Node, proto: NodeProto, depth: int) -> None:
        opset = self.functions.model_opsets.get(node.domain, 0)
        body = self.functions.local(node)
        if body is not None:
            self._function(node, body.node, list(body.input), depth)
            return
        if not opset and node.domain not in MAX_OPSET:
            self.report(N0202, f"{node.op_type}: domain {node.domain!r} is not supported", node)
            return
        opset = opset or 1
        if find_converter(node.domain, node.op_type, opset) is None:
            if not self.functions.has_body(node, opset):
                self._unknown(node, opset)
            return
        if not self._form(node, proto, opset):
            return
        for denial in denials(node.domain, node.op_type):
            message = denial(node)
            if message:
                self.report(N0203, f"{node.op_type}: {message}", node)

    def _unknown(self, node: Node, opset: int) -> None:
        first = first_version(node.domain, node.op_type)
        if first is not None:
            self.report(
                N0202, f"{node.op_type} of operator set {opset} is not supported: the oldest is {first}", node
            )
            return
        known = reason_against(node.domain, node.op_type)
        if known is not None:
            reason, rewrite = known
            self.report(N0201, f"operator {node.op_type} is not supported: {reason}", node, rewrite or None)
            return
        near = nearest(node.op_type, known_operators(node.domain))
        self.report(
            N0201,
            f"operator {node.op_type} is not supported",
            node,
            f"the nearest supported operator is {near}" if near else None,
        )

    def _function(self, node: Node, protos: Any, inputs: list[str], depth: int) -> None:
        key = f"{node.domain}.{node.op_type}"
        if key in self.calls:
            self.report(N0105, f"function {node.op_type} calls itself", node)
            return
        self.calls += (key,)
        self._nodes(protos, set(inputs), frozenset(), depth + 1, node.attrs)
        self.calls = self.calls[:-1]

    def _form(self, node: Node, proto: NodeProto, opset: int) -> bool:
        """Whether the node has the inputs and attributes that its specification asks for."""
        schema = self.functions.schema(node, opset) or self.functions.newest_schema(node)
        if schema is None:
            return True
        before = len(self.findings)
        if not schema.min_input <= len(proto.input) <= schema.max_input:
            self.report(
                N0106,
                f"{node.op_type} takes {_span(schema.min_input, schema.max_input)} inputs, "
                f"got {len(proto.input)}",
                node,
            )
        for index, spec in enumerate(schema.inputs[: schema.min_input]):
            if spec.option.name == "Single" and index < len(proto.input) and not proto.input[index]:
                self.report(N0106, f"{node.op_type}: input {spec.name!r} is missing", node)
        if not schema.min_output <= len(proto.output) <= schema.max_output:
            self.report(
                N0106,
                f"{node.op_type} gives {_span(schema.min_output, schema.max_output)} outputs, "
                f"got {len(proto.output)}",
                node,
            )
        self._attributes(node, proto, schema)
        return len(self.findings) == before

    def _attributes(self, node: Node, proto: NodeProto, schema: Any) -> None:
        for name, spec in schema.attributes.items():
            if spec.required and name not in node.attrs:
                self.report(N0106, f"{node.op_type}: attribute {name!r} is missing", node)
        for attr in proto.attribute:
            spec = schema.attributes.get(attr.name)
            if spec is not None and not attr.ref_attr_name and attr.type != int(spec.type.value):
                kinds = AttributeProto.AttributeType
                self.report(
                    N0106,
                    f"{node.op_type}: attribute {attr.name!r} must be of kind {spec.type.name}, "
                    f"got {kinds.Name(attr.type) if attr.type in kinds.values() else attr.type}",
                    node,
                )


def _span(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"at least {low}" if high > 1 << 20 else f"{low} to {high}"


def _type_name(number: int) -> str:
    names = {value: key for key, value in TensorProto.DataType.items()}
    return f"type {names.get(number, number)}, which is not supported"


def _repeated(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    again: dict[str, None] = {}
    for name in names:
        if name in seen:
            again[name] = None
        seen.add(name)
    return [name for name in again if name]


def _same_order(nodes: list[Node], protos: list[NodeProto]) -> Iterator[NodeProto]:
    """The messages of nodes that were sorted: by their outputs."""
    if all(tuple(proto.output) == node.outputs for proto, node in zip(protos, nodes, strict=True)):
        yield from protos
        return
    by_outputs = {tuple(proto.output): proto for proto in protos}
    for node in nodes:
        yield by_outputs[node.outputs]
