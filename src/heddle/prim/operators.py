"""Python's operators on scalar expressions. They call the functions of `prim.ops`, which fold constants.

`==` builds a lazy comparison. Its truth value in Python is whether both sides are one object, or constants of
the same value, so expressions can be dictionary keys. Where an expression is expected, it becomes an `EQ`
node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.prim.codes import K0103
from heddle.support.diagnostics import IRTypeError

OPERATORS: dict[str, Callable[..., Any]] = {}
"""Filled by `prim.ops`: operator name → function."""


class EqualOp:
    """`a == b` (or `a != b`) not yet used: a bool as the module's text says, an expression on demand."""

    __slots__ = ("a", "b", "negated")

    def __init__(self, a: Any, b: Any, negated: bool) -> None:
        self.a, self.b, self.negated = a, b, negated

    def __bool__(self) -> bool:
        return (self.a is self.b or _are_equal_constants(self.a, self.b)) is not self.negated

    def asexpr(self) -> Any:
        """The comparison as an expression."""
        return OPERATORS["not_equal" if self.negated else "equal"](self.a, self.b)

    def asobject(self) -> Any:
        """The same as `asexpr`."""
        return self.asexpr()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.asexpr(), name)

    def __and__(self, other: Any) -> Any:
        return OPERATORS["bitwise_and"](self.asexpr(), other)

    def __or__(self, other: Any) -> Any:
        return OPERATORS["bitwise_or"](self.asexpr(), other)

    def __hash__(self) -> int:
        return id(self)


def _are_equal_constants(a: Any, b: Any) -> bool:
    a, b = (getattr(side, "value", None) if isinstance(side, Operators) else side for side in (a, b))
    return isinstance(a, (int, float)) and isinstance(b, (int, float)) and a == b


class Operators:
    """Mixed into scalar expressions, buffers' loads and te tensors' elements."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return OPERATORS["add"](self, other)

    def __radd__(self, other: Any) -> Any:
        return OPERATORS["add"](other, self)

    def __sub__(self, other: Any) -> Any:
        return OPERATORS["subtract"](self, other)

    def __rsub__(self, other: Any) -> Any:
        return OPERATORS["subtract"](other, self)

    def __mul__(self, other: Any) -> Any:
        return OPERATORS["multiply"](self, other)

    def __rmul__(self, other: Any) -> Any:
        return OPERATORS["multiply"](other, self)

    def __truediv__(self, other: Any) -> Any:
        return OPERATORS["div"](self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return OPERATORS["div"](other, self)

    def __floordiv__(self, other: Any) -> Any:
        return OPERATORS["floordiv"](self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return OPERATORS["floordiv"](other, self)

    def __mod__(self, other: Any) -> Any:
        return OPERATORS["floormod"](self, other)

    def __rmod__(self, other: Any) -> Any:
        return OPERATORS["floormod"](other, self)

    def __neg__(self) -> Any:
        return OPERATORS["negative"](self)

    def __lshift__(self, other: Any) -> Any:
        return OPERATORS["shift_left"](self, other)

    def __rlshift__(self, other: Any) -> Any:
        return OPERATORS["shift_left"](other, self)

    def __rshift__(self, other: Any) -> Any:
        return OPERATORS["shift_right"](self, other)

    def __rrshift__(self, other: Any) -> Any:
        return OPERATORS["shift_right"](other, self)

    def __and__(self, other: Any) -> Any:
        return OPERATORS["bitwise_and"](self, other)

    def __rand__(self, other: Any) -> Any:
        return OPERATORS["bitwise_and"](other, self)

    def __or__(self, other: Any) -> Any:
        return OPERATORS["bitwise_or"](self, other)

    def __ror__(self, other: Any) -> Any:
        return OPERATORS["bitwise_or"](other, self)

    def __xor__(self, other: Any) -> Any:
        return OPERATORS["bitwise_xor"](self, other)

    def __rxor__(self, other: Any) -> Any:
        return OPERATORS["bitwise_xor"](other, self)

    def __invert__(self) -> Any:
        return OPERATORS["bitwise_not"](self)

    def __lt__(self, other: Any) -> Any:
        return OPERATORS["less"](self, other)

    def __le__(self, other: Any) -> Any:
        return OPERATORS["less_equal"](self, other)

    def __gt__(self, other: Any) -> Any:
        return OPERATORS["greater"](self, other)

    def __ge__(self, other: Any) -> Any:
        return OPERATORS["greater_equal"](self, other)

    def __eq__(self, other: object) -> Any:
        return EqualOp(self, other, False)

    def __ne__(self, other: object) -> Any:
        return EqualOp(self, other, True)

    def __hash__(self) -> int:
        return id(self) >> 4

    def __bool__(self) -> bool:
        raise IRTypeError(
            K0103,
            "a scalar expression has no truth value in Python",
            help="use prim.all and prim.any for logic, if_then_else for a choice made when the program runs",
        )

    def equal(self, other: Any) -> Any:
        """The comparison as an expression; `==` gives one that is also a bool."""
        return OPERATORS["equal"](self, other)

    def astype(self, dtype: str) -> Any:
        """The value converted to a dtype."""
        return OPERATORS["cast"](dtype, self)
