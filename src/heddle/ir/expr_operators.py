"""Python's operators on graph expressions: `x + y`, `-x`, `x < y`, `x.astype("int8")`, `x[0]`, `x.shape`.

The dialect of the operands determines what they build. Dialects are in packages above this one; they are
imported when an operator is first used. `==` compares object identity, so that expressions can be dictionary
keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from heddle.ir.codes import I0304, I0309, I0310
from heddle.support.diagnostics import MissingNameError, TrapIndexError, UsageError
from heddle.support.registry import Registry

EXPRESSION_OPERATORS: Registry[Callable[..., Any]] = Registry("operator on expressions")
"""By dialect and name ("relax.add"): add, subtract, multiply, divide, floor_divide, mod, power, negative,
less, less_equal, greater, greater_equal, cast. A dialect may lack some."""
DEFAULT_DIALECT = "relax"
"""That of an expression which does not tell: constants alone."""


def apply(name: str, *operands: Any) -> Any:
    """Build an operator in the dialect of the first operand that has one. Return NotImplemented if that
    dialect has no such operator."""
    told = (getattr(operand, "operand_dialect", "") for operand in operands)
    key = f"{next(filter(None, told), DEFAULT_DIALECT)}.{name}"
    build = EXPRESSION_OPERATORS.get(key)
    return NotImplemented if build is None else build(*operands)


class ExpressionOperators:
    """Mixed into expressions; scalar ones have operators of their own."""

    __slots__ = ()

    @property
    def operand_dialect(self) -> str:
        """The dialect that says what operators on the expression build; empty where it belongs to none."""
        return ""

    def __add__(self, other: Any) -> Any:
        return apply("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return apply("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return apply("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return apply("divide", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return apply("floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return apply("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return apply("mod", other, self)

    def __pow__(self, other: Any) -> Any:
        return apply("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return apply("power", other, self)

    def __neg__(self) -> Any:
        return apply("negative", self)

    def __lt__(self, other: Any) -> Any:
        return apply("less", self, other)

    def __le__(self, other: Any) -> Any:
        return apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return apply("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return apply("greater_equal", self, other)

    def astype(self, dtype: str) -> Any:
        """The elements converted to another type."""
        return apply("cast", self, dtype)


class TypedParts:
    """Mixin for graph expressions: properties that the type determines. Each raises an AttributeError
    (MissingNameError I0304, I0309) if the type is unknown or has no such property."""

    __slots__ = ()
    ty: Any
    span: Any

    @property
    def struct_info(self) -> Any:
        """The type, by TVM's older name. Raises: MissingNameError I0304."""
        if self.ty is None:
            raise MissingNameError(
                I0304,
                "the expression has no type yet",
                span=self.span,
                help="bind it with BlockBuilder.emit, or infer it with BlockBuilder.normalize",
            )
        return self.ty

    def _type_part(self, name: str) -> Any:
        found = getattr(self.struct_info, name, None)
        if found is None:
            raise MissingNameError(
                I0309, f"the type {self.ty} of the expression says no {name}", span=self.span
            )
        return found

    @property
    def shape(self) -> Any:
        """The sizes of a tensor, as a value of the graph: `x.shape[0]` is a scalar expression."""
        return self._type_part("shape")

    @property
    def dtype(self) -> Any:
        """The element type of a tensor or scalar."""
        return self._type_part("dtype")

    @property
    def ndim(self) -> int:
        """The number of axes. It may be unknown: -1, as in the type."""
        return int(self._type_part("ndim"))


def check_field(ty: Any, index: Any, span: Any) -> int:
    """Convert a field index of a tuple type to a nonnegative index; a negative one counts from the end.

    Raises: TrapIndexError I0310 (an IndexError); UsageError I0310 for a type that is not a tuple, or an index
    that is not an integer.
    """
    fields = getattr(ty, "fields", None)
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise UsageError(
            I0310, f"a field is chosen by an integer, got {type(index).__name__}", span=span, help=_OF_TENSORS
        )
    if fields is None:
        if ty is not None and not getattr(ty, "is_top", False):
            raise UsageError(I0310, f"only a tuple has fields, got {ty}", span=span, help=_OF_TENSORS)
        return int(index)
    place = int(index)
    if not -len(fields) <= place < len(fields):
        raise TrapIndexError(I0310, f"index {place} is out of range for {len(fields)} fields", span=span)
    return place % len(fields)


_OF_TENSORS = "parts of a tensor come from the operators take and strided_slice"


def iterate_fields(value: Any) -> Iterator[Any]:
    """The fields of an expression whose type is a tuple. Raises: UsageError I0310 where it is not known."""
    fields = getattr(value.ty, "fields", None)
    if fields is None:
        raise UsageError(
            I0310,
            "only a tuple can be iterated over",
            span=value.span,
            help=_OF_TENSORS,
        )
    return iter([value[place] for place in range(len(fields))])
