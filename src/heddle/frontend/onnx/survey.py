"""What can be said of a model without compiling it: everything that is not supported, and the types of its
values.

The importer stops at the first node that it cannot import. A survey goes on: what such a node gives is
unknown, nodes that use it are passed over, and all others are imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnx import ModelProto, ValueInfoProto

from heddle import ops
from heddle.frontend.onnx import ops as converters  # noqa: F401  (importing it registers them)
from heddle.frontend.onnx.bodies import FunctionTable
from heddle.frontend.onnx.check import check_model
from heddle.frontend.onnx.importer import GraphImporter
from heddle.frontend.onnx.inputs import InputTypes, input_kind
from heddle.frontend.onnx.load import bind_inputs, loaded_model
from heddle.frontend.onnx.model_size import model_size
from heddle.frontend.onnx.part import given_inputs
from heddle.frontend.onnx.proto import LoadedModel, Node
from heddle.frontend.onnx.values import OptionalKind, SequenceKind, TextKind, Value
from heddle.graph.block_builder import BlockBuilder
from heddle.graph.infer import type_of
from heddle.graph.op_builder import const
from heddle.graph.types import TensorType
from heddle.ir.expr import Var
from heddle.prim.substitute import free_vars
from heddle.support.diagnostics import Diagnostic, ImportModelError
from heddle.support.span import ModelSpan, at

_STRUCTURAL = ("N0105", "N0106")
"""Findings after which nothing else can be said."""


@dataclass(slots=True)
class Survey:
    """`types` are those of all values by name, in the order in which they are made; `passed_over` are nodes
    that use what an unsupported one gives."""

    opsets: dict[str, int]
    num_nodes: int = 0
    inputs: list[tuple[str, str]] = field(default_factory=list)
    free_dims: list[str] = field(default_factory=list)
    findings: list[Diagnostic] = field(default_factory=list)
    types: list[tuple[str, str]] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)


def survey(model: ModelProto | str | Path, shape_dict: Mapping[str, Sequence[Any]] | None = None) -> Survey:
    """Look at a whole model. Raises: FormatError N01.. for a damaged file, UsageError N0302 for a
    `shape_dict` that does not fit; what is not supported is in the result."""
    ops.load()
    loaded = loaded_model(model)
    functions = FunctionTable(loaded)
    found = Survey(dict(functions.model_opsets), len(loaded.proto.graph.node))
    try:
        size = model_size(loaded, functions)
        check_model(loaded, functions)
    except ImportModelError as error:
        found.findings.extend(error.diagnostics)
        if any(item.code.name in _STRUCTURAL for item in error.diagnostics):
            return found
        size = model_size(loaded, functions)
    try:
        _import(loaded, functions, shape_dict, size.is_straight, found)
    except ImportModelError as error:  # an input's type
        _add(found, error.diagnostics)
    return found


def _import(
    loaded: LoadedModel,
    functions: FunctionTable,
    shape_dict: Mapping[str, Sequence[Any]] | None,
    is_straight: bool,
    found: Survey,
) -> None:
    builder = BlockBuilder()
    importer = _Surveyor(loaded, builder, functions, found)
    types = InputTypes(shape_dict, None, importer.dim_names)
    graph = loaded.proto.graph
    inputs = given_inputs(graph)
    params = types.params(inputs, sanitize=False)
    bind_inputs(importer, types, inputs, params)
    _describe_inputs(found, inputs, params)
    with at(ModelSpan(loaded.name, graph.name, "graph")), builder.function("main", params):
        if is_straight:
            with builder.dataflow():
                importer.survey_graph()
        else:
            importer.survey_graph()
        builder.emit_func_output(const(0, "int64"))


def _describe_inputs(found: Survey, inputs: Sequence[ValueInfoProto], params: Sequence[Var]) -> None:
    free: dict[str, None] = {}
    for value, param in zip(inputs, params, strict=True):
        found.inputs.append((value.name, type_text(Value(expr=param, kind=input_kind(value)))))
        ty = type_of(param)
        if isinstance(ty, TensorType) and ty.dims is not None:
            free.update((var.name, None) for dim in ty.dims for var in free_vars(dim))
    found.free_dims = list(free)


def _add(found: Survey, diagnostics: Sequence[Diagnostic], note: str = "") -> None:
    """Findings that are new; one that was there gets the note."""
    for item in diagnostics:
        noted = replace(item, notes=(*item.notes, note)) if note else item
        same = [k for k, old in enumerate(found.findings) if _key(old) == _key(item)]
        if same:
            found.findings[same[0]] = noted
        else:
            found.findings.append(noted)


def _key(item: Diagnostic) -> tuple[Any, ...]:
    return item.code, str(item.span), item.message


class _UnknownValue(ImportModelError):
    """A node uses what one that is not supported gives."""


class _Surveyor(GraphImporter):
    """An importer that goes on after nodes that it cannot import."""

    def __init__(
        self, model: LoadedModel, builder: BlockBuilder, functions: FunctionTable, found: Survey
    ) -> None:
        super().__init__(model, builder, functions)
        self.found = found
        self._unknown = Value(name="?")

    def survey_graph(self) -> None:
        try:
            values = self.run_graph(self.model.proto.graph)
            for value in values:
                self.tensor_of(value)
        except _UnknownValue:
            pass
        for name, value in self.scope.names.items():
            if value is not self._unknown:
                self.found.types.append((name, type_text(value)))

    def lookup(self, name: str) -> Value:
        value = super().lookup(name)
        if value is self._unknown:
            raise _UnknownValue([])
        return value

    def run_node(self, node: Node) -> None:
        try:
            super().run_node(node)
        except _UnknownValue:
            self.found.passed_over.append(node.label)
            self._forget(node)
        except ImportModelError as error:
            _add(self.found, error.diagnostics, self._note(node))
            self._forget(node)

    def _note(self, node: Node) -> str:
        """The operator set, and the types of the inputs."""
        opset = self.opsets.get(node.domain, 1)
        given = [self.scope.find(name) for name in node.inputs if name]
        texts = [type_text(value) for value in given if value is not None]
        domain = f" of {node.domain}" if node.domain else ""
        return f"operator set {opset}{domain}; inputs {', '.join(texts) or 'none'}"

    def _forget(self, node: Node) -> None:
        for name in node.outputs:
            if name:
                self.scope.names[name] = self._unknown


def type_text(value: Value) -> str:
    """A value's type as ONNX's text form writes it: `float32[batch, 3]`, `seq(int64)`, `string[2 axes]`."""
    if isinstance(value.kind, (SequenceKind, OptionalKind, TextKind)):
        return _kind_text(value.kind)
    if value.items is not None:
        return f"seq({value.dtype or (type_text(value.items[0]) if value.items else '?')})"
    known = value.array if value.array is not None else value.content
    if known is not None and value.expr is None:
        return f"{value.dtype}[{', '.join(map(str, known.shape))}]"
    ty = type_of(value.expr) if value.expr is not None else None
    return _tensor_text(ty) if isinstance(ty, TensorType) else str(ty)


def _kind_text(kind: SequenceKind | OptionalKind | TextKind) -> str:
    if isinstance(kind, TextKind):
        return f"string[{', '.join('?' * kind.ndim)}]"
    if isinstance(kind, SequenceKind):
        return f"seq({_tensor_text(kind.element)})"
    held = kind.held
    return f"optional({_tensor_text(held) if isinstance(held, TensorType) else _kind_text(held)})"


def _tensor_text(ty: TensorType) -> str:
    if ty.ndim < 0:
        return f"{ty.dtype or '?'}"
    dims = [str(dim) for dim in ty.dims] if ty.dims is not None else ["?"] * ty.ndim
    return f"{ty.dtype or '?'}[{', '.join(dims)}]"
