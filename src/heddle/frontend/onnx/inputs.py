"""Graph inputs as parameters: names, element types, and dimensions, of which one name is one symbolic
variable.

A dimension that the model names is that name; a name like `batch*2` is an expression where `batch` is a
dimension too. A dimension without a name, or with one that has no letter or digit (`?`), is one of its own,
called after its input and axis (`ids_d0`). `shape_dict` fixes or
renames them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, ValueInfoProto

from heddle.frontend.codes import N0105, N0203, N0301, N0302
from heddle.frontend.onnx.proto import dtype_name
from heddle.frontend.onnx.values import OptionalKind, SequenceKind, TextKind
from heddle.graph.types import TensorType
from heddle.ir.expr import Var
from heddle.ir.types import AnyType
from heddle.prim import ops
from heddle.prim.nodes import PrimExpr, SizeVar, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import ImportModelError, UsageError, did_you_mean
from heddle.support.names import NameSupply, identifier
from heddle.support.syntax import parse_expression

_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: ops.add,
    ast.Sub: ops.subtract,
    ast.Mult: ops.multiply,
    ast.FloorDiv: ops.floordiv,
    ast.Div: ops.floordiv,
    ast.Mod: ops.floormod,
}


class InputTypes:
    """Makes the parameters of a model's main function."""

    def __init__(
        self,
        shape_dict: Mapping[str, Sequence[Any]] | None,
        dtype_dict: str | Mapping[str, str] | None,
        names: NameSupply,
    ) -> None:
        if not isinstance(shape_dict, Mapping | None):
            raise UsageError(N0302, f"shapes are given by input, got {type(shape_dict).__name__}")
        self.shapes = dict(shape_dict or {})
        self.dtypes = dict(dtype_dict) if isinstance(dtype_dict, Mapping) else {}
        self.names = names
        self.vars: dict[str, PrimVar] = {}

    def params(self, inputs: Sequence[ValueInfoProto], sanitize: bool) -> list[Var]:
        """One variable for each graph input. Raises: ImportModelError N0301; UsageError N0302."""
        known = [value.name for value in inputs]
        for name in [*self.shapes, *self.dtypes]:
            if name not in known:
                raise UsageError(N0302, f"the model has no input {name!r}", help=did_you_mean(name, known))
        texts = {value.name: self._dim_texts(value) for value in inputs if input_kind(value) is None}
        plain = {
            text for dims in texts.values() for text in dims if isinstance(text, str) and text.isidentifier()
        }
        taken = NameSupply()
        made: list[Var] = []
        for value in inputs:
            name = sanitized(value.name) if sanitize else value.name
            if value.name not in texts:
                made.append(Var(taken.fresh(name), AnyType()))
                continue
            dims = [self._dim(text, plain) for text in texts[value.name]]
            dtype = self.dtypes.get(value.name) or dtype_name(
                _tensor_type(value).elem_type, f"input {value.name!r}"
            )
            made.append(Var(taken.fresh(name), TensorType(tuple(dims), dtype)))  # type: ignore[arg-type]
        return made

    def _dim_texts(self, value: ValueInfoProto) -> list[int | str | PrimExpr]:
        """Each dimension as a number, a name or expression in text, or an expression: one that the
        caller gave, or a new variable where there is no name."""
        stored = _stored_dims(value)
        given = self.shapes.get(value.name)
        if given is None:
            if stored is None:
                raise ImportModelError(
                    N0301,
                    f"input {value.name!r} has no shape",
                    help=f"give one: shape_dict={{{value.name!r}: ...}}",
                )
            return [self._unnamed(value, axis) if dim is None else dim for axis, dim in enumerate(stored)]
        if stored is not None and len(stored) != len(given):
            raise UsageError(
                N0302, f"input {value.name!r} has {len(stored)} dimensions, and shape_dict gives {len(given)}"
            )
        for own, new in zip(stored or (), given, strict=False):
            if isinstance(own, int) and isinstance(new, int) and own != new:
                raise UsageError(
                    N0302, f"input {value.name!r} has the shape {stored}, and shape_dict gives {given}"
                )
        dims = [_given_dim(value.name, item) for item in given]
        return [self._unnamed(value, axis) if _is_nameless(dim) else dim for axis, dim in enumerate(dims)]

    def _unnamed(self, value: ValueInfoProto, axis: int) -> PrimVar:
        return SizeVar(self.names.fresh(f"{identifier(value.name)}_d{axis}"))

    def _dim(self, text: int | str | PrimExpr, plain: set[str]) -> PrimExpr:
        if isinstance(text, PrimExpr):
            return text
        if isinstance(text, int):
            return constant(text, "int64")
        if text.isidentifier():
            return self._var(text)
        parsed = _parsed(text)
        if isinstance(parsed, ast.Name):  # "N " is another name than "N"
            return self._var(text)
        names = {node.id for node in ast.walk(parsed) if isinstance(node, ast.Name)} if parsed else set()
        if parsed is not None and names and names <= plain:
            return self._expression(parsed)
        return self._var(text)

    def _var(self, name: str) -> PrimVar:
        if name not in self.vars:
            self.vars[name] = SizeVar(self.names.fresh(identifier(name)))
        return self.vars[name]

    def _expression(self, node: ast.expr) -> PrimExpr:
        if isinstance(node, ast.Name):
            return self._var(node.id)
        if isinstance(node, ast.Constant):
            return constant(node.value, "int64")
        assert isinstance(node, ast.BinOp)
        made: PrimExpr = _OPERATORS[type(node.op)](self._expression(node.left), self._expression(node.right))
        return made


def _parsed(text: str) -> ast.expr | None:
    """Sums, products and quotients of names and positive integers; None for anything else."""
    try:
        root = parse_expression(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in ast.walk(root):
        if isinstance(node, ast.Constant) and type(node.value) is int and 0 < node.value < 1 << 62:
            continue
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            continue
        if not isinstance(node, (ast.Name, ast.operator, ast.expr_context)):
            return None
    return root


def input_kind(value: ValueInfoProto) -> SequenceKind | OptionalKind | TextKind | None:
    """What an input is that is no tensor of numbers. Raises: ImportModelError N0203, N0204, N0301."""
    tensor = value.type.tensor_type
    if value.type.WhichOneof("value") == "tensor_type" and tensor.elem_type == TensorProto.STRING:
        if not tensor.HasField("shape"):
            raise ImportModelError(N0301, f"input {value.name!r} has no shape")
        return TextKind(len(tensor.shape.dim))
    return kind_of(value.type, f"input {value.name!r}")


def kind_of(ty: TypeProto, what: str) -> SequenceKind | OptionalKind | None:
    """A sequence or an optional value; None for a tensor, and for what is refused elsewhere."""
    kind = ty.WhichOneof("value")
    if kind == "sequence_type":
        return SequenceKind(_element_type(ty.sequence_type.elem_type, what))
    if kind == "optional_type":
        inner = ty.optional_type.elem_type
        held = kind_of(inner, what)
        if isinstance(held, OptionalKind):
            raise ImportModelError(N0203, f"{what} is an optional optional value")
        return OptionalKind(held if held is not None else _element_type(inner, what))
    return None


def _element_type(ty: TypeProto, what: str) -> TensorType:
    """What the type of an element says, but for its dimensions. One without dimensions says nothing of the
    rank: writers put it where they do not know the shape."""
    if ty.WhichOneof("value") != "tensor_type":
        raise ImportModelError(N0203, f"{what} holds values that are no tensors")
    tensor = ty.tensor_type
    rank = len(tensor.shape.dim) if tensor.HasField("shape") and tensor.shape.dim else -1
    return TensorType(None, DataType(dtype_name(tensor.elem_type, what)), None, rank)


def _tensor_type(value: ValueInfoProto) -> Any:
    """The tensor type of an input. Raises: ImportModelError N0203, N0105."""
    ty = value.type
    kind = ty.WhichOneof("value")
    if kind is None:
        raise ImportModelError(N0105, f"input {value.name!r} has no type")
    if kind != "tensor_type":
        raise ImportModelError(N0203, f"input {value.name!r} is a {kind.removesuffix('_type')}, not a tensor")
    return ty.tensor_type


def _given_dim(name: str, dim: Any) -> int | str | PrimExpr:
    """A dimension that the caller gave. Raises: UsageError N0302."""
    if isinstance(dim, (str, PrimExpr)):
        return dim
    is_whole = isinstance(dim, (int, np.integer)) and not isinstance(dim, bool)
    if not is_whole or dim < 0:
        raise UsageError(N0302, f"input {name!r}: a dimension is a size, a name or a formula, got {dim!r}")
    return int(dim)


def _is_nameless(dim: object) -> bool:
    return isinstance(dim, str) and (dim.strip() == "-1" or not any(char.isalnum() for char in dim))


def _stored_dims(value: ValueInfoProto) -> tuple[int | str | None, ...] | None:
    """Numbers and names; None for a dimension without a name, as which exporters also write -1."""
    tensor: TypeProto.Tensor = _tensor_type(value)
    if not tensor.HasField("shape"):
        return None
    dims: list[int | str | None] = []
    for dim in tensor.shape.dim:
        if dim.WhichOneof("value") == "dim_value":
            if dim.dim_value < -1:
                raise ImportModelError(N0105, f"input {value.name!r} has the dimension {dim.dim_value}")
            dims.append(None if dim.dim_value == -1 else int(dim.dim_value))
        else:
            dims.append(None if _is_nameless(dim.dim_param) else dim.dim_param)
    return tuple(dims)


def sanitized(name: str) -> str:
    """An input's name as an identifier: other characters become `_`, and a leading digit gets `input_` before
    it."""
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"input_{cleaned}" if not cleaned or cleaned[0].isdigit() else cleaned
