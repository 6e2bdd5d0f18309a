"""Operators that are defined by simpler ones: functions of the model, and bodies in ONNX's own operator
specifications."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import FunctionProto, TensorProto, defs, helper, numpy_helper

from heddle.frontend.codes import N0106
from heddle.frontend.onnx.proto import DTYPES, LoadedModel, Node, attr_value, dtype_name, plain_domain
from heddle.frontend.onnx.schemas import schema_of
from heddle.frontend.onnx.values import SequenceKind, Value
from heddle.graph.types import TensorType
from heddle.ir.expr import Expr
from heddle.prim.nodes import IntImm
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import ImportModelError

_MAX_VERSION = (1 << 31) - 1
_NUMBERS = {name: number for number, name in DTYPES.items()}


class FunctionTable:
    """The functions of a model, and those of specifications as they are asked for."""

    def __init__(self, model: LoadedModel) -> None:
        self.model_opsets = {
            plain_domain(item.domain): int(item.version) for item in model.proto.opset_import
        }
        self.model_opsets.setdefault("", 1)
        self._local = {
            (plain_domain(func.domain), func.name, func.overload): func for func in model.proto.functions
        }

    def local(self, node: Node) -> FunctionProto | None:
        """The model's own function that a node calls."""
        return self.body_of(node.domain, node.op_type)

    def body_of(self, domain: str, op_type: str) -> FunctionProto | None:
        """The model's own function for an operator; None where it has none."""
        return self._local.get((domain, op_type, ""))

    def schema(self, node: Node, opset: int) -> Any:
        """The specification of a node's operator in an operator set, or None."""
        declared = schema_of(node.domain, node.op_type)
        if declared is not None:
            return declared
        newest = _MAX_VERSION if node.domain else defs.onnx_opset_version()
        try:
            return defs.get_schema(node.op_type, max(0, min(opset, newest)), node.domain)
        except defs.SchemaError:
            return None

    def newest_schema(self, node: Node) -> Any:
        """The specification of a node's operator in the newest operator set, or None."""
        return self.schema(node, _MAX_VERSION)

    def has_body(self, node: Node, opset: int) -> bool:
        """Whether ONNX defines the operator by a function of others."""
        schema = self.schema(node, opset)
        return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)

    def specified(self, node: Node, opset: int, inputs: Sequence[Value | None]) -> FunctionProto | None:
        """The body that an operator's specification gives for a node, if there is one."""
        schema = self.schema(node, opset)
        if schema is None:
            return None
        if schema.has_function:
            made: FunctionProto = schema.function_body
            return made
        if not schema.has_context_dependent_function:
            return None
        types = [_type_bytes(value) for value in inputs]
        version = max([v for v in schema.context_dependent_function_opset_versions if v <= opset] or [0])
        if not version:
            return None
        try:
            text = schema.get_context_dependent_function_with_opset_version(
                version, _proto_of(node).SerializeToString(), types
            )
        except (ValueError, RuntimeError) as error:  # what the package that writes the body finds
            why = str(error).strip() or type(error).__name__
            raise ImportModelError(N0106, f"{node.op_type} has no body for its inputs: {why}") from error
        body = FunctionProto()
        body.ParseFromString(text)
        return body if body.node else None

    def defaults(self, body: FunctionProto, node: Node) -> dict[str, Any]:
        """Attribute values that a function has where its call gives none."""
        found = {attr.name: attr_value(attr) for attr in body.attribute_proto}
        schema = (
            self.schema(node, self.model_opsets.get(node.domain, 1)) if self.local(node) is None else None
        )
        for name, spec in schema.attributes.items() if schema is not None else ():
            if spec.default_value.name:
                found.setdefault(name, attr_value(spec.default_value))
        return found

    def opsets_of(self, body: FunctionProto, outer: Mapping[str, int]) -> dict[str, int]:
        """The operator sets in a function: its own over those around it."""
        return {**outer, **{plain_domain(item.domain): int(item.version) for item in body.opset_import}}

    def dtype_of(self, stored: TensorProto) -> str:
        """The element type of a stored tensor. Raises: ImportModelError for one that is unknown."""
        return dtype_name(stored.data_type, f"tensor {stored.name!r}")


def of_one_dtype(
    schema: Any, inputs: Sequence[Value | None], cast: Callable[[Value, str], Value]
) -> list[Value | None]:
    """The inputs of a node in a specification's body, those of one type parameter in one element type.

    Bodies say float where any float goes, and int64 where any index goes: a constant becomes what the others
    are, integers become the widest of them, and floats what the first of them is.
    """
    found: dict[str, list[tuple[int, Value]]] = {}
    for place, value in enumerate(inputs):
        spec = schema.inputs[min(place, len(schema.inputs) - 1)]  # the last one may be repeated
        if value is not None and value.dtype and spec.is_homogeneous:
            found.setdefault(spec.type_str, []).append((place, value))
    made = list(inputs)
    for values in found.values():
        dtypes = [value.dtype for _, value in values if value.array is None]
        common = next(iter(dtypes), "")
        if all(DataType(dtype).is_int for dtype in dtypes):
            common = max(dtypes, key=lambda dtype: DataType(dtype).bits, default="")
        elif not all(DataType(dtype).is_float for dtype in dtypes):
            common = common if len(set(dtypes)) == 1 else ""
        for place, value in values if common else ():
            made[place] = value if value.dtype == common else cast(value, common)
    return made


def _proto_of(node: Node) -> onnx.NodeProto:
    attrs = {
        name: numpy_helper.from_array(value) if hasattr(value, "dtype") else value
        for name, value in node.attrs.items()
        if not (isinstance(value, tuple) and not value)  # an empty list has no kind
    }
    return helper.make_node(node.op_type, node.inputs, node.outputs, domain=node.domain, **attrs)


def _type_bytes(value: Value | None) -> bytes:
    """The type of a value as ONNX writes it; an input that is left out has none."""
    if value is None:
        return b""
    if isinstance(value.kind, SequenceKind) or value.items is not None:
        return _sequence_type_bytes(value)
    number = _NUMBERS.get(value.dtype, TensorProto.UNDEFINED)
    data: bytes = helper.make_tensor_type_proto(number, _shape_of(value)).SerializeToString()
    return data


def _sequence_type_bytes(value: Value) -> bytes:
    """A sequence's type, without the shape of its elements."""
    dtype = value.dtype or next((item.dtype for item in value.items or ()), "")
    if isinstance(value.kind, SequenceKind):
        dtype = str(value.kind.element.dtype or "")
    element = helper.make_tensor_type_proto(_NUMBERS.get(dtype, TensorProto.UNDEFINED), None)
    data: bytes = helper.make_sequence_type_proto(element).SerializeToString()
    return data


def _shape_of(value: Value) -> list[int | str | None] | None:
    known = value.array if value.array is not None else value.content
    if known is not None:
        return list(known.shape)
    ty = value.expr.ty if isinstance(value.expr, Expr) else None
    if not isinstance(ty, TensorType) or ty.ndim < 0:
        return None
    if ty.dims is None:
        return [None] * ty.ndim
    return [int(dim) if isinstance(dim, IntImm) else None for dim in ty.dims]
