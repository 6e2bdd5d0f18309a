"""What the importer knows of an ONNX value: a graph expression, a constant array, or the elements as scalar
expressions.

A model computes shapes with int64 tensors. Such a value has `content`: an array of scalar expressions over
symbolic dimensions. Operators that take a shape use the content; only where a tensor is really needed is one
made of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heddle.frontend.onnx.proto import numpy_dtype
from heddle.graph.contents import constant_elements, content_of_array
from heddle.graph.infer import type_of
from heddle.graph.types import TensorType
from heddle.ir.expr import Expr
from heddle.support.frozen import frozen


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


def array_of_content(content: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any] | None:
    """The content as a constant array of a dtype, where it is constant."""
    numbers = constant_elements(content)
    return None if numbers is None else np.asarray(numbers).astype(numpy_dtype(dtype)).reshape(content.shape)
