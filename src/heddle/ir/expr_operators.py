"""Python's operators on graph expressions: `x + y`, `-x`, `x < y`, `x.astype("int8")`.

What they build is the matter of a dialect, which lies above: the table asks for it when an operator is first
used. `==` stays the identity of objects, so that expressions can be keys of dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.support.registry import Registry

EXPRESSION_OPERATORS: Registry[Callable[..., Any]] = Registry("operator on expressions")
"""add, subtract, multiply, divide, negative, less, less_equal, greater, greater_equal, cast."""


class ExpressionOperators:
    """Mixed into expressions; scalar ones have operators of their own."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["add"](self, other)

    def __radd__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["add"](other, self)

    def __sub__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["subtract"](self, other)

    def __rsub__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["subtract"](other, self)

    def __mul__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["multiply"](self, other)

    def __rmul__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["multiply"](other, self)

    def __truediv__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["divide"](self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["divide"](other, self)

    def __neg__(self) -> Any:
        return EXPRESSION_OPERATORS["negative"](self)

    def __lt__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["less"](self, other)

    def __le__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["less_equal"](self, other)

    def __gt__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["greater"](self, other)

    def __ge__(self, other: Any) -> Any:
        return EXPRESSION_OPERATORS["greater_equal"](self, other)

    def astype(self, dtype: str) -> Any:
        """The elements converted to another type."""
        return EXPRESSION_OPERATORS["cast"](self, dtype)
