"""What the importer knows of an ONNX value: a graph expression, a constant array, or the elements as scalar
expressions.

A model computes shapes with int64 tensors. Such a value has `content`: an array of scalar expressions over
symbolic dimensions. Operators that take a shape use the content; only where a tensor is really needed is one
made of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from heddle.arith import Analyzer
from heddle.frontend.onnx.proto import numpy_dtype
from heddle.graph.infer import type_of
from heddle.graph.types import TensorType
from heddle.ir.expr import Expr
from heddle.ir.visitor import walk
from heddle.prim.nodes import FloatImm, IntImm, PrimExpr, constant
from heddle.support.frozen import frozen

MAX_CONTENT = 256
"""Constants with more elements are never taken for shapes."""

MAX_DIM_NODES = 64
"""A dimension with more nodes gets a name when the model runs: text of dimensions would double with each step
of a chain `d = d / 7 + d`."""

Content = np.ndarray
"""An array of PrimExpr: int64 or bool, or float64 for scales on their way to a dimension."""


@frozen
class SequenceKind:
    """A sequence that exists when the model runs; `element` says what is known of its elements: of an empty
    one the element type alone."""

    element: TensorType
    is_empty: bool = False


@frozen
class TextKind:
    """A tensor of strings."""

    ndim: int


@frozen
class OptionalKind:
    """A value that may be missing when the model runs."""

    held: SequenceKind | TensorType


@dataclass(slots=True)
class Value:
    """At least one of `expr`, `array`, `content` and `items` (of a sequence) is there. `dtype` is that of the
    elements. `kind` says what an `expr` is that is no tensor."""

    expr: Expr | None = None
    array: np.ndarray[Any, Any] | None = None
    content: np.ndarray[Any, Any] | None = None
    items: tuple[Value, ...] | None = None
    dtype: str = ""
    name: str = ""
    kind: SequenceKind | OptionalKind | TextKind | None = None
    _tried: bool = field(default=False, repr=False)

    def elements(self) -> np.ndarray[Any, Any] | None:
        """The content; that of a small constant is made when it is first asked for."""
        if self.content is None and self.array is not None and not self._tried:
            self._tried = True
            self.content = content_of_array(self.array)
        return self.content


def tensor_value(expr: Expr, name: str = "") -> Value:
    """A value that is a typed graph expression."""
    ty = type_of(expr)
    dtype = str(ty.dtype or "") if isinstance(ty, TensorType) else ""
    return Value(expr=expr, dtype=dtype, name=name)


def array_value(array: np.ndarray[Any, Any], dtype: str = "", name: str = "") -> Value:
    """A constant. `dtype` is said where numpy's is not the model's."""
    return Value(array=array, dtype=dtype or array.dtype.name, name=name)


def content_value(content: np.ndarray[Any, Any], dtype: str = "int64") -> Value:
    """A tensor of integers whose elements are scalar expressions."""
    return Value(content=content, dtype=dtype)


def sequence_value(items: tuple[Value, ...]) -> Value:
    """A sequence of known length."""
    return Value(items=items)


# ---- arrays of scalar expressions


def object_array(items: list[Any] | tuple[Any, ...], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """An object array from elements in row-major order; numpy must not look into them."""
    made = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        made[index] = item
    return made.reshape(shape)


def vector(items: Any) -> np.ndarray[Any, Any]:
    """A content of rank 1."""
    values = list(items)
    return object_array(values, (len(values),))


def scalar(item: PrimExpr) -> np.ndarray[Any, Any]:
    """A content of rank 0."""
    return object_array([item], ())


def content_of_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """The content of a small constant of integers, bools or floats."""
    if array.size > MAX_CONTENT or array.dtype.kind not in "iubf":
        return None
    dtype = {"b": "bool", "f": "float64"}.get(array.dtype.kind, "int64")
    return object_array([constant(item, dtype) for item in array.reshape(-1).tolist()], array.shape)


def is_long(expr: PrimExpr) -> bool:
    """Whether an expression has more than MAX_DIM_NODES nodes as text."""
    return next(islice(walk(expr), MAX_DIM_NODES, None), None) is not None


def constant_elements(content: np.ndarray[Any, Any]) -> list[int | float] | None:
    """The elements as Python numbers, where all are constants."""
    items = list(content.reshape(-1))
    if not all(isinstance(item, (IntImm, FloatImm)) for item in items):
        return None
    return [item.value for item in items]


def array_of_content(content: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any] | None:
    """The content as a constant array of a dtype, where it is constant."""
    numbers = constant_elements(content)
    return None if numbers is None else np.asarray(numbers).astype(numpy_dtype(dtype)).reshape(content.shape)


class Simplifier:
    """Simplifies the elements of contents, and dimensions; it knows that symbolic dimensions are not
    negative."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def __call__(self, expr: PrimExpr) -> PrimExpr:
        if isinstance(expr, (IntImm, FloatImm)) or expr.dtype.is_float:
            return expr
        made: PrimExpr = self.analyzer.simplify(expr)
        return made

    def content(self, content: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A content with simple elements, of the same shape."""
        return object_array([self(item) for item in content.reshape(-1)], content.shape)

    def dims(self, dims: Any) -> tuple[PrimExpr, ...]:
        """Sizes, each in its simple form."""
        return tuple(self(dim) for dim in dims)

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two sizes are the same whatever their variables are."""
        return a is b or self.analyzer.can_prove_equal(a, b)
