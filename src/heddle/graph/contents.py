"""Small tensors of sizes whose elements are known as scalar expressions over symbolic dimensions.

A content is an object array of them: int64 or bool, or float64 for scales on their way to a dimension. A
program computes shapes with integer tensors; what takes a shape can use the content, and no tensor is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from heddle.arith import Analyzer
from heddle.graph.op_builder import call_op
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Expr
from heddle.ir.visitor import walk
from heddle.prim.nodes import FloatImm, IntImm, PrimExpr, constant

MAX_CONTENT = 256
"""Constants with more elements are never taken for shapes."""

MAX_DIM_NODES = 64
"""A dimension with more nodes gets a name when the model runs: text of dimensions would double with each step
of a chain `d = d / 7 + d`."""


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


def zipped(function: Callable[..., PrimExpr], contents: Sequence[Any]) -> np.ndarray[Any, Any]:
    """A scalar function over contents that broadcast. Raises: ValueError where they do not."""
    shaped = np.broadcast_arrays(*contents)
    rows = zip(*(content.reshape(-1) for content in shaped), strict=True)
    return object_array([function(*row) for row in rows], shaped[0].shape)


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


def size_tensor(content: np.ndarray[Any, Any], dtype: str = "int64") -> Expr:
    """The expression of a tensor of integers from what it holds. A single element is made by a kernel that
    fuses with what uses it, where a shape would be a value of the machine's."""
    items = list(content.reshape(-1))
    if len(items) == 1:
        made: Expr = call_op("arange", items[0], items[0] + 1, 1, dtype="int64")
    else:
        made = call_op("shape_to_tensor", ShapeExpr(tuple(items)))
    if dtype != "int64":
        made = call_op("astype", made, dtype=dtype)
    return made if content.ndim == 1 else call_op("reshape", made, list(content.shape))


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
