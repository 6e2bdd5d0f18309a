"""Building Relay programs: the functions and classes that TVM's users know, over the shared nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from heddle.graph.op_builder import check_fits, default_dtype
from heddle.graph.types import TensorType as GraphTensorType
from heddle.ir import expr as ir
from heddle.ir import types
from heddle.ir.expr import Expr
from heddle.ir.node import Node, replace
from heddle.ir.stands import Stands, Takes
from heddle.ir.types import Type
from heddle.ir.variables import free_vars
from heddle.ir.visitor import rebuild
from heddle.relay import nodes
from heddle.relay.codes import Q0101, Q0102, Q0104
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.diagnostics import IRTypeError, TrapIndexError, UsageError
from heddle.support.span import Span, ambient_span


class TensorType(metaclass=Stands):
    """`TensorType((n, 4), dtype="float32")`; a dimension may be `Any()`."""

    stands_for: ClassVar[type] = GraphTensorType

    def __new__(cls, shape: Sequence[Any], dtype: str = "float32") -> GraphTensorType:  # type: ignore[misc]
        return GraphTensorType(shape, DataType(dtype))


class FuncType(
    Takes,
    node=types.FuncType,
    takes="arg_types=params ret_type=ret type_params? type_constraints?",
):
    """`FuncType(arg_types, ret_type, type_params=None, type_constraints=None)`."""


class Var(Takes, node=ir.Var, takes="name_hint type_annotation?=ty", dialect="relay"):
    """`Var(name_hint, type_annotation=None)`: a variable of Relay."""


class Function(
    Takes,
    node=ir.Function,
    takes="params body ret_type?=ret_ty type_params? attrs?",
    dialect="relay",
):
    """`Function(params, body, ret_type=None, type_params=None, attrs=None)`."""


class Call(Takes, node=ir.Call, takes="op args attrs? type_args?=ty_args"):
    """`Call(op, args, attrs=None, type_args=None)`."""


class Constant(Takes, node=ir.Constant, takes="data"):
    """`Constant(data)`."""


class If(Takes, node=ir.If, takes="cond true_branch false_branch"):
    """`If(cond, true_branch, false_branch)`."""


class Let(Takes, node=nodes.Let, takes="variable=var value body"):
    """`Let(variable, value, body)`."""


class RefCreate(Takes, node=nodes.RefCreate, takes="value"):
    """`RefCreate(value)`."""


class RefRead(Takes, node=nodes.RefRead, takes="ref"):
    """`RefRead(ref)`."""


class RefWrite(Takes, node=nodes.RefWrite, takes="ref value"):
    """`RefWrite(ref, value)`."""


class Tuple(Takes, node=ir.Tuple, takes="fields"):
    """`Tuple(fields)`."""


class TupleGetItem(Takes, node=ir.TupleGetItem, takes="tuple_value index"):
    """`TupleGetItem(tuple_value, index)`."""


class PatternConstructor(Takes, node=nodes.PatternConstructor, takes="constructor patterns?"):
    """`PatternConstructor(constructor, patterns=None)`."""


class PatternTuple(Takes, node=nodes.PatternTuple, takes="patterns?"):
    """`PatternTuple(patterns=None)`."""


def scalar_type(dtype: str) -> GraphTensorType:
    """The type of a tensor without axes."""
    return TensorType((), dtype)


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Sequence[Any] | None = None,
    dtype: str = "float32",
    span: Span | None = None,
) -> ir.Var:
    """A variable of a type, of the tensor type of `shape` and `dtype`, or of a type that inference finds. A
    type that is a string is that of a scalar.

    Raises: UsageError Q0101 where both a type and a shape are given.
    """
    if type_annotation is not None and shape is not None:
        raise UsageError(
            Q0101,
            f"variable {name_hint!r} got a type annotation and a shape: expected one of them",
            help="the type TensorType(shape, dtype) says both",
        )
    if shape is not None:
        type_annotation = TensorType(shape, dtype)
    elif isinstance(type_annotation, str):
        type_annotation = scalar_type(type_annotation)
    return ir.Var(name_hint, type_annotation, dialect="relay", span=span or ambient_span())


def const(value: Any, dtype: str | None = None, span: Span | None = None) -> ir.Constant:
    """A constant of a number, list, array or tensor. Without `dtype`, int64 becomes int32 where all values
    fit, and float64 float32. With one, arrays are cast by numpy's rules.

    Raises: UsageError Q0101 for any other value; IRTypeError K0106 for Python numbers that `dtype` cannot
    represent.
    """
    if isinstance(value, Tensor) and dtype is None:
        return ir.Constant(value, span=span or ambient_span())
    if isinstance(value, Tensor):
        value = value.numpy()
    if not isinstance(value, (bool, int, float, list, np.ndarray, np.generic)):
        raise UsageError(Q0101, f"a constant is a number, list, array or tensor, got {type(value).__name__}")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise UsageError(Q0101, f"the list is no array: {error}") from error
    if array.dtype.kind not in "biufV":
        raise UsageError(Q0101, f"a constant has numbers as elements, got {array.dtype}")
    wanted = dtype or (default_dtype(array) if array.dtype in ("int64", "float64") else None)
    if wanted is not None:
        if not hasattr(value, "dtype"):
            check_fits(array, DataType(wanted))
        array = array.astype(DataType(wanted).numpy())
    return ir.Constant(tensor(array, dtype=wanted) if wanted else tensor(array), span=span or ambient_span())


class TupleWrapper:
    """An expression of tuple type that can be indexed and unpacked in Python."""

    def __init__(self, tuple_value: Expr, size: int) -> None:
        self.tuple_value, self.size = tuple_value, size

    def astuple(self) -> Expr:
        """The expression of tuple type itself."""
        return self.tuple_value

    as_node = astuple
    """What stands in a node that takes an expression."""

    def astext(self, *args: Any, **kwargs: Any) -> str:
        """As that of the expression."""
        return self.tuple_value.astext(*args, **kwargs)

    def astype(self, _: str) -> Expr:
        """Raises: IRTypeError Q0102 always: the fields have types of their own."""
        raise IRTypeError(Q0102, "astype of a tuple", help="convert its fields")

    def __getitem__(self, index: int) -> ir.TupleGetItem:
        """Raises: TrapIndexError (an IndexError) Q0104 past the end."""
        if not 0 <= index < self.size:
            raise TrapIndexError(Q0104, f"the tuple has {self.size} fields, got index {index}")
        return ir.TupleGetItem(self.tuple_value, index)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[ir.TupleGetItem]:
        return (self[index] for index in range(self.size))

    def __repr__(self) -> str:
        return f"TupleWrapper({self.tuple_value!r}, {self.size})"


def as_expr(value: Any) -> Expr:
    """What a builder takes for an expression: one, a TupleWrapper, or a list of these as a tuple.

    Raises: UsageError Q0101 for anything else.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, TupleWrapper):
        return value.tuple_value
    if isinstance(value, (list, tuple)):
        return ir.Tuple(tuple(as_expr(item) for item in value))
    return const(value)


def bind(expr: Node, binds: Mapping[Any, Any]) -> Any:
    """The expression with variables, of values or of types, replaced. A parameter of the outermost function
    that is replaced is none any more; variables that come in with the replacements become parameters.

    Raises: UsageError Q0101 for what is no mapping of variables.
    """
    if not isinstance(binds, Mapping) or not all(isinstance(key, Node) for key in binds):
        raise UsageError(Q0101, f"expected what stands for variables by variable, got {type(binds).__name__}")
    if not isinstance(expr, ir.Function):
        return replace_vars(expr, binds)
    kept = tuple(param for param in expr.params if param not in binds)
    made = replace(
        expr,
        params=kept,
        body=replace_vars(expr.body, binds),
        ret_ty=replace_vars(expr.ret_ty, binds),
        type_params=tuple(item for item in expr.type_params if item not in binds),
        ty=None,
    )
    known = set(free_vars(expr))
    new = tuple(item for item in free_vars(made) if item not in known)
    return replace(made, params=kept + new) if new else made


def replace_vars(node: Any, binds: Mapping[Any, Any]) -> Any:
    """Every use of a variable replaced; nodes that change have no type until inference."""

    def change(old: Node, new: Any) -> Any:
        if old.identity:
            return binds.get(old, new)
        return without_type(new) if new is not old else new

    return None if node is None else rebuild(node, change)


def without_type(node: Any) -> Any:
    """An expression before inference; a variable's type is part of it."""
    has_type = isinstance(node, Expr) and "ty" in node.init_names and not isinstance(node, ir.Var)
    return replace(node, ty=None) if has_type and node.ty is not None else node
