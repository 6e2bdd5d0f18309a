"""What a converter sees of its node: inputs as tensors, constants or shapes, attributes, and ways to build
calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NoReturn

import numpy as np

from heddle.frontend.codes import N0106, N0203, N0301
from heddle.frontend.onnx.importing import Importing
from heddle.frontend.onnx.proto import Node
from heddle.frontend.onnx.values import Value, array_value, tensor_value
from heddle.graph.contents import scalar, vector
from heddle.graph.infer import type_of
from heddle.graph.op_builder import const
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Expr, Tuple, TupleGetItem
from heddle.prim.nodes import IntImm, PrimExpr, constant, is_const_int
from heddle.prim.ops import multiply
from heddle.support.diagnostics import Code, ImportModelError

MISSING: Any = object()
Result = Expr | Value | Sequence[Expr | Value]


class NodeContext:
    """Input numbers count as in the operator's specification; an optional input that is left out is
    absent."""

    def __init__(self, importer: Importing, node: Node, inputs: Sequence[Value | None], opset: int) -> None:
        self.importer = importer
        self.builder = importer.builder
        self.node = node
        self.inputs = tuple(inputs)
        self.opset = opset

    # ---- failures

    def fail(self, code: Code, message: str, help: str | None = None) -> NoReturn:
        """Raise an ImportModelError of a code about this node."""
        raise ImportModelError(code, f"{self.node.op_type}: {message}", help=help)

    def unsupported(self, message: str, help: str | None = None) -> NoReturn:
        """Raise N0203: the node asks for what the importer does not do."""
        self.fail(N0203, message, help)

    def malformed(self, message: str) -> NoReturn:
        """Raise N0106: the node breaks its operator's specification."""
        self.fail(N0106, message)

    # ---- inputs

    @property
    def num_inputs(self) -> int:
        """How many inputs the node names, absent ones among them."""
        return len(self.inputs)

    @property
    def num_outputs(self) -> int:
        """How many outputs the node names."""
        return len(self.node.outputs)

    def has(self, index: int) -> bool:
        """Whether an input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def has_output(self, index: int) -> bool:
        """Whether an output is asked for."""
        return index < len(self.node.outputs) and bool(self.node.outputs[index])

    def value(self, index: int) -> Value:
        """An input as it is known. Raises: ImportModelError N0106 where it is absent."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            self.malformed(f"input {index} is missing")
        return found

    def tensor(self, index: int) -> Expr:
        """An input as a tensor expression; symbolic contents are turned into tensors."""
        return self.importer.tensor_of(self.value(index))

    def tensors(self, start: int = 0) -> list[Expr]:
        """The inputs from number `start` on, all of which must be tensors."""
        return [self.tensor(index) for index in range(start, self.num_inputs)]

    def dtype(self, index: int) -> str:
        """The element type of an input, also of one that is no tensor."""
        return self.value(index).dtype

    def type(self, index: int) -> TensorType:
        """The tensor type of an input."""
        return self.type_of(self.tensor(index))

    def type_of(self, expr: Expr) -> TensorType:
        """The tensor type of an expression. Raises: ImportModelError N0203 where it is no tensor."""
        ty = type_of(expr)
        if not isinstance(ty, TensorType):
            self.unsupported(f"expected a tensor, got {ty}")
        return ty

    def ndim(self, index: int) -> int:
        """The rank of an input, without making a tensor of it. Raises: N0301 where it is not known."""
        value = self.value(index)
        known = value.array if value.array is not None else value.content
        if known is not None and value.expr is None:
            return known.ndim
        found = self.type(index).ndim
        if found < 0:
            self.fail(N0301, f"the rank of input {index} is not known")
        return found

    def require_rank(self, index: int, *ranks: int) -> None:
        """Refuse an input of other numbers of dimensions. Raises: ImportModelError N0106."""
        if self.ndim(index) not in ranks:
            some = " or ".join(map(str, ranks))
            self.malformed(f"input {index} must have {some} dimensions, got {self.ndim(index)}")

    def dims(self, index: int) -> tuple[PrimExpr, ...]:
        """The dimensions of an input. Raises: N0301 where they are not known."""
        return self.dims_of(self.tensor(index))

    def dims_of(self, expr: Expr) -> tuple[PrimExpr, ...]:
        """The sizes of an expression. Raises: ImportModelError N0301 where not even their number is known."""
        dims = self.type_of(expr).dims
        if dims is None:
            self.fail(N0301, "the dimensions of an input are not known")
        return dims

    def static_dim(self, index: int, axis: int, what: str) -> int:
        """A dimension that must be a constant."""
        dims = self.dims(index)
        if axis >= len(dims):
            self.malformed(f"{what} has {len(dims)} dimensions, expected at least {axis + 1}")
        dim = dims[axis]
        if not isinstance(dim, IntImm):
            self.unsupported(f"{what} must be constant, got {dim}", "fix the dimension with shape_dict")
        return int(dim)

    def array(self, index: int) -> np.ndarray[Any, Any] | None:
        """An input as a constant array, or None."""
        return self.importer.array_of(self.value(index))

    def constant(self, index: int, what: str) -> np.ndarray[Any, Any]:
        """An input that must be constant."""
        found = self.array(index)
        if found is None:
            self.unsupported(f"{what} must be constant", "compute it before, or make it an initializer")
        return found

    def ints(self, index: int, what: str) -> tuple[int, ...]:
        """The elements of an input that must be constant, as integers; `what` names them in an error."""
        return tuple(int(item) for item in self.constant(index, what).reshape(-1))

    def scalar(self, index: int, what: str) -> Any:
        """A constant input of one element, as a Python number."""
        found = self.constant(index, what)
        if found.size != 1:
            self.malformed(f"{what} must have one element, got {found.size}")
        return found.reshape(-1)[0].item()

    def first(self, index: int) -> Any:
        """The first element of a constant input as a Python number; None where it is not constant. Raises:
        ImportModelError N0106 where there is none."""
        stored = self.array(index)
        if stored is None:
            return None
        if not stored.size:
            self.malformed(f"input {index} must be a number, got no elements")
        return stored.reshape(-1)[0].item()

    def shape_values(self, index: int, sizes: bool = True, count: int | None = None) -> tuple[PrimExpr, ...]:
        """The elements of an integer input of rank 1 or 0 as scalar expressions.

        An input that is known only when the model runs is read then, into fresh symbolic variables (`sizes`
        says whether they are never negative). `count`: so many must there be, which is checked when the model
        runs where it leaves the length open.
        """
        value = self.value(index)
        if count is not None and value.elements() is None and self._is_open(index):
            value = tensor_value(self.of_length(index, count), value.name)
        return tuple(self.importer.elements_of(value, sizes).reshape(-1))

    def of_length(self, index: int, count: int) -> Expr:
        """An input of one dimension; where the model leaves its length open, checked to have `count`."""
        expr = self.tensor(index)
        return self.cast_shape(expr, (constant(count, "int64"),)) if self._is_open(index) else expr

    def _is_open(self, index: int) -> bool:
        return self.ndim(index) == 1 and not isinstance(self.dims(index)[0], IntImm)

    def number(self, index: int) -> PrimExpr:
        """The first element of an integer input. Raises: N0106 where there is none."""
        found = self.shape_values(index, sizes=False, count=1)
        if not found:
            self.malformed(f"input {index} must be a number, got no elements")
        return found[0]

    # ---- attributes

    def attr(self, name: str, default: Any = MISSING) -> Any:
        """An attribute, or what the standard has where it is left out: as float32, as all numbers with a
        fraction are in models."""
        found = self.node.attrs.get(name, default)
        if found is MISSING:
            self.malformed(f"attribute {name!r} is missing")
        return float(np.float32(found)) if isinstance(found, float) else found

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is 0 or 1."""
        return bool(self.attr(name, int(default)))

    def axis(self, axis: int, ndim: int) -> int:
        """An axis as a number from 0. Raises: N0106 out of range."""
        if not -ndim <= axis < ndim:
            self.malformed(f"axis {axis} is out of range for a tensor of {ndim} dimensions")
        return axis + ndim if axis < 0 else axis

    def axes(self, axes: Sequence[int], ndim: int) -> list[int]:
        """Axes counted from the front. Raises: ImportModelError where one is out of range or named twice."""
        found = [self.axis(int(axis), ndim) for axis in axes]
        if len(set(found)) != len(found):
            self.malformed(f"axes {list(axes)} name an axis twice")
        return found

    # ---- building

    def call(self, op: str, *args: Any, **attrs: Any) -> Expr:
        """Bind a call of an operator of ours."""
        return self.importer.call(op, *args, **attrs)

    def const(self, value: Any, dtype: str) -> Expr:
        """A constant tensor."""
        return const(value, dtype)

    def like(self, value: Any, index: int) -> Expr:
        """A scalar constant of an input's element type."""
        return const(value, self.dtype(index))

    def require_equal(self, pairs: Sequence[tuple[PrimExpr, PrimExpr]], what: str) -> None:
        """Check when the model runs that pairs of scalars (expected, got) are equal. Messages name the node
        and `what`."""
        self.importer.require_equal(pairs, f"{self.node.label}_{what}")

    def size(self, dim: PrimExpr) -> Expr:
        """A size, known or not, as one int64 in one dimension, which broadcasts."""
        if isinstance(dim, IntImm):
            return const([int(dim.value)], "int64")
        return self.call("arange", dim, dim + 1, 1, dtype="int64")

    def binary(self, op: str, a: Expr, b: Expr) -> Expr:
        """A broadcasting operator."""
        return self.call(op, a, b)

    def astype(self, expr: Expr, dtype: str) -> Expr:
        """The tensor in another element type; itself where it has that type."""
        return expr if self.type_of(expr).dtype == dtype else self.call("astype", expr, dtype=dtype)

    def reshape(self, expr: Expr, dims: Sequence[Any]) -> Expr:
        """The tensor in other sizes; itself where they are known to be its own."""
        target = self.importer.simplify.dims(_as_dims(dims))
        own = self.dims_of(expr)
        if self.importer.same_dims(own, target):
            return expr
        if not any(is_const_int(dim, 0) for dim in target):
            return self.call("reshape", expr, ShapeExpr(target))
        # To the operator, 0 is the input's dimension.
        nothing: PrimExpr = constant(0, "int64")
        self.require_equal([(nothing, reduce(multiply, own, constant(1, "int64")))], "reshape_sizes")
        return self.call("zeros", ShapeExpr(target), dtype=str(self.type_of(expr).dtype))

    def item(self, expr: Expr, index: int) -> Expr:
        """A field of a tuple."""
        if isinstance(expr, Tuple):
            return expr.fields[index]
        return self.builder.emit(TupleGetItem(expr, index))

    def shape_content(self, expr: Expr) -> np.ndarray[Any, Any]:
        """The dimensions of a tensor as a content of rank 1."""
        return vector(self.dims_of(expr))

    def array_value(self, array: np.ndarray[Any, Any], dtype: str = "") -> Value:
        """A known value from a numpy array; `dtype` where numpy has no name for the element type."""
        return array_value(array, dtype)

    def scalar_content(self, item: PrimExpr) -> np.ndarray[Any, Any]:
        """The elements of a known scalar: an object array of rank 0."""
        return scalar(item)

    def known_dims(self, expr: Expr) -> Expr:
        """A value of data-dependent shape, its dimensions bound to fresh symbolic variables."""
        ty = self.type_of(expr)
        if ty.dims is not None:
            return expr
        if ty.ndim < 0:
            self.fail(N0301, "the rank of a result is not known")
        fresh = [self.importer.fresh_dim(f"{self.node.label}_d{axis}") for axis in range(ty.ndim)]
        return self.importer.bind_dims(expr, fresh)

    def cast_shape(self, expr: Expr, dims: Sequence[Any]) -> Expr:
        """The value checked against a shape when it runs; nothing where the shape is known to be that."""
        return self.importer.cast_shape(expr, _as_dims(dims))


def _as_dims(dims: Sequence[Any]) -> tuple[PrimExpr, ...]:
    return ShapeExpr(tuple(dims)).values
