"""Scalar expressions: loop indices, symbolic dimensions and values alike.

    e = var | int | float | "string" | cast(e)
      | e + e | e - e | e * e | e / e | truncdiv | truncmod | floordiv | floormod | min | max
      | e == e | e != e | e < e | e <= e | e > e | e >= e | e and e | e or e | not e
      | select(c, e, e) | let v = e in e | ramp(e, stride, lanes) | broadcast(e, lanes) | shuffle(vectors,
      indices)
      | op(e, ...)                    (intrinsics: exp, if_then_else, bitwise_and, ...)
    Buffer loads (tir) and tensor reads (te) are scalar expressions too.

Semantics:
- Integers wrap at their width when they are values. Analysis (`arith`) assumes that indices of at least 32
  bits do not overflow; the front ends choose int64 for dimensions so that this holds.
- `truncdiv`/`truncmod` round to zero; `floordiv`/`floormod` round to minus infinity, so floormod has the
  divisor's sign. Integers divided by zero give 0; analysis of indices may assume that it does not happen.
- `prim.values` defines casts, divisions and shifts at their edges; docs/semantics.md has them all.
- Floats are IEEE 754 and are never reassociated. `min(a, b)` is a where a < b and else b, `max(a, b)` a where
  a > b and else b: the second operand where one is NaN.
- All operands are evaluated, in no stated order. Exceptions: `and`/`or` may stop early, `if_then_else`
  evaluates one branch only. `select` evaluates both.
- Both operands of a binary node have the same dtype; the operators in `prim.ops` insert casts.

Over 450 lines: the nodes of scalar expressions, which the grammar above lists on one screen.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from heddle.ir.expr import Expr, StringImm
from heddle.ir.node import defines, derived, label, node
from heddle.ir.op import Op
from heddle.ir.structural import structural_equal
from heddle.ir.types import PointerType, PrimType, Type
from heddle.prim.codes import K0101, K0102, K0106, K0108
from heddle.prim.operators import Operators
from heddle.prim.signatures import Signature, check_call
from heddle.prim.values import MAX_FLOAT32, int_range
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError

BOOL = DataType("bool")


class PrimExpr(Operators, Expr):
    """The base of scalar expressions. Each has a `dtype`; vectors have lanes."""

    __slots__ = ()
    dtype: DataType

    @property
    def ty(self) -> Type:
        """The type of its value, a scalar or a vector."""
        return PrimType(self.dtype)


@node("prim.Var", identity=True)
class Var(PrimExpr):
    """A scalar or pointer variable. `is_size` marks a dimension: never negative."""

    name: str = label()
    dtype: DataType
    type_annotation: Type | None = None
    is_size: bool = label(default=False)

    def __post_init__(self) -> None:
        given: Any = self.dtype
        if isinstance(given, Type):
            self.set_derived("dtype", given.dtype if isinstance(given, PrimType) else DataType("handle"))
            self.set_derived("type_annotation", None if isinstance(given, PrimType) else given)
        elif not isinstance(given, DataType):
            self.set_derived("dtype", DataType(given))

    @property
    def name_hint(self) -> str:
        """The same as `name`."""
        return self.name

    @property
    def ty(self) -> Type:
        """The annotated type; without one, that of a scalar of its dtype."""
        return self.type_annotation or PrimType(self.dtype)

    @property
    def element_dtype(self) -> DataType | None:
        """What a pointer variable points to, if that is known."""
        pointer = self.type_annotation
        if isinstance(pointer, PointerType) and isinstance(pointer.element_type, PrimType):
            return pointer.element_type.dtype
        return None


def SizeVar(name: str, dtype: str = "int64") -> Var:
    """A variable for a dimension: an integer that is never negative."""
    return Var(name, DataType(dtype), None, True)


@node("prim.IntImm")
class IntImm(PrimExpr):
    """An integer or bool constant. Raises: IRTypeError K0106 for a value outside the range of its dtype."""

    dtype: DataType
    value: int

    def __post_init__(self) -> None:
        dtype, value = self.dtype, self.value
        if type(dtype) is not DataType or type(value) is not int:
            dtype, value = DataType(dtype), int(value)
            self.set_derived("dtype", dtype)
            self.set_derived("value", value)
        low, high = int_range(dtype)
        if not low <= value <= high:
            raise IRTypeError(
                K0106,
                f"{value} is outside the range of {dtype}: expected {low} to {high}",
                help=f"take a wider dtype, or wrap_int(value, {str(dtype)!r}) for the value modulo "
                f"2**{dtype.bits}",
            )

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


@node("prim.FloatImm")
class FloatImm(PrimExpr):
    dtype: DataType
    value: float

    def __post_init__(self) -> None:
        self.set_derived("dtype", DataType(self.dtype))
        self.set_derived("value", float(self.value))

    def __float__(self) -> float:
        return self.value


@node("prim.Cast")
class Cast(PrimExpr):
    """Value conversion by the rules of `prim.values.convert`: floats to integers drop the fraction and
    saturate, integers wrap, to bool is `!= 0`."""

    dtype: DataType
    value: PrimExpr

    def __post_init__(self) -> None:
        self.set_derived("dtype", DataType(self.dtype))
        self.set_derived("value", as_expr(self.value))


class BinaryExpr(PrimExpr):
    """The base of nodes with operands `a` and `b` of one dtype; `symbol` is how text shows them."""

    __slots__ = ()
    symbol: ClassVar[str] = ""
    a: PrimExpr
    b: PrimExpr

    def _check_operands(self) -> DataType:
        a, b = as_expr(self.a), as_expr(self.b)
        if a.dtype != b.dtype:
            if isinstance(b, IntImm) and not isinstance(self.b, PrimExpr):
                b = constant(b.value, a.dtype)
            elif isinstance(a, IntImm) and not isinstance(self.a, PrimExpr):
                a = constant(a.value, b.dtype)
            else:
                raise IRTypeError(
                    K0101, f"operands of {self.node_kind} differ in dtype: {a.dtype} and {b.dtype}"
                )
        if a is not self.a:
            self.set_derived("a", a)
        if b is not self.b:
            self.set_derived("b", b)
        return a.dtype


class ArithExpr(BinaryExpr):
    """Arithmetic: the result has the operands' dtype."""

    __slots__ = ()

    def __post_init__(self) -> None:
        self.set_derived("dtype", self._check_operands())


class CompareExpr(BinaryExpr):
    """Comparison: the result is bool, with the operands' lanes."""

    __slots__ = ()

    def __post_init__(self) -> None:
        self.set_derived("dtype", BOOL.with_lanes(self._check_operands().lanes))


@node("prim.Add")
class Add(ArithExpr):
    symbol: ClassVar[str] = "+"
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.Sub")
class Sub(ArithExpr):
    symbol: ClassVar[str] = "-"
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.Mul")
class Mul(ArithExpr):
    symbol: ClassVar[str] = "*"
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.Div")
class Div(ArithExpr):
    """Float division, or integer division that rounds to zero."""

    symbol: ClassVar[str] = "/"
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.Mod")
class Mod(ArithExpr):
    """The remainder of the division that rounds to zero; it has the dividend's sign."""

    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.FloorDiv")
class FloorDiv(ArithExpr):
    symbol: ClassVar[str] = "//"
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.FloorMod")
class FloorMod(ArithExpr):
    symbol: ClassVar[str] = "%"
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.Min")
class Min(ArithExpr):
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.Max")
class Max(ArithExpr):
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.EQ")
class EQ(CompareExpr):
    symbol: ClassVar[str] = "=="
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.NE")
class NE(CompareExpr):
    symbol: ClassVar[str] = "!="
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.LT")
class LT(CompareExpr):
    symbol: ClassVar[str] = "<"
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.LE")
class LE(CompareExpr):
    symbol: ClassVar[str] = "<="
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.GT")
class GT(CompareExpr):
    symbol: ClassVar[str] = ">"
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.GE")
class GE(CompareExpr):
    symbol: ClassVar[str] = ">="
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.And")
class And(CompareExpr):
    symbol: ClassVar[str] = "and"
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.Or")
class Or(CompareExpr):
    symbol: ClassVar[str] = "or"
    a: PrimExpr
    b: PrimExpr
    dtype: DataType = derived()


@node("prim.Not")
class Not(PrimExpr):
    a: PrimExpr
    dtype: DataType = derived()

    def __post_init__(self) -> None:
        self.set_derived("a", as_expr(self.a))
        self.set_derived("dtype", BOOL.with_lanes(self.a.dtype.lanes))


@node("prim.Select")
class Select(PrimExpr):
    """Both values are evaluated; a scalar condition chooses whole vectors."""

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr
    dtype: DataType = derived()

    def __post_init__(self) -> None:
        if self.true_value.dtype != self.false_value.dtype:
            raise IRTypeError(
                K0101,
                f"values of select differ in dtype: {self.true_value.dtype} and {self.false_value.dtype}",
            )
        self.set_derived("dtype", self.true_value.dtype)


@node("prim.Let")
class Let(PrimExpr):
    var: Var = defines()
    value: PrimExpr
    body: PrimExpr
    dtype: DataType = derived()

    def __post_init__(self) -> None:
        self.set_derived("dtype", self.body.dtype)


@node("prim.Ramp")
class Ramp(PrimExpr):
    """The vector base, base + stride, ..., base + (lanes - 1) * stride."""

    base: PrimExpr
    stride: PrimExpr
    lanes: int
    dtype: DataType = derived()

    def __post_init__(self) -> None:
        self.set_derived("base", as_expr(self.base))
        self.set_derived("stride", as_expr(self.stride, self.base.dtype))
        self.set_derived("dtype", self.base.dtype.with_lanes(int(self.lanes)))


@node("prim.Broadcast")
class Broadcast(PrimExpr):
    """A vector of equal lanes."""

    value: PrimExpr
    lanes: int
    dtype: DataType = derived()

    def __post_init__(self) -> None:
        self.set_derived("value", as_expr(self.value))
        self.set_derived("dtype", self.value.dtype.with_lanes(int(self.lanes)))


@node("prim.Shuffle")
class Shuffle(PrimExpr):
    """Lanes picked by constant indices from the concatenation of `vectors`; one index gives a scalar."""

    vectors: tuple[PrimExpr, ...]
    indices: tuple[int, ...]
    dtype: DataType = derived()

    def __post_init__(self) -> None:
        self.set_derived("vectors", tuple(as_expr(vector) for vector in self.vectors))
        self.set_derived("indices", tuple(int(index) for index in self.indices))
        self.set_derived("dtype", self.vectors[0].dtype.with_lanes(len(self.indices)))


@node("prim.Call")
class Call(PrimExpr):
    """An intrinsic applied to arguments; `prim.intrinsics` lists them. String arguments are `StringImm`.

    Raises: IRTypeError K0108 where arguments or dtype are not those of the intrinsic's record.
    """

    dtype: DataType
    op: Op
    args: tuple[Expr, ...]

    def __post_init__(self) -> None:
        self.set_derived("dtype", DataType(self.dtype))
        if isinstance(self.op, str):
            self.set_derived("op", Op.get(self.op))
        self.set_derived("args", tuple(as_argument(arg) for arg in self.args))
        signature = getattr(self.op.record, "signature", None)
        if not isinstance(signature, Signature):
            raise IRTypeError(K0108, f"{self.op.name!r} is no intrinsic of loop functions", span=self.span)
        check_call(self.op.name, signature, self.dtype, self.args, self.span)


@node("prim.Range", init=False)
class Range(Expr):
    """The half-open interval [min, min + extent). `Range(n)` is [0, n); `Range(begin, end)` ends before
    `end`."""

    min: PrimExpr
    extent: PrimExpr

    def __init__(self, begin: Any, end: Any = None, *, span: Any = None) -> None:
        low = as_expr(0 if end is None else begin)
        high = as_expr(begin if end is None else end)
        if isinstance(low, IntImm) and low.value == 0:
            self._set(as_expr(0, high.dtype), high, span)
        elif isinstance(high, Add) and structural_equal(high.a, low):
            self._set(low, high.b, span)  # written as `begin + extent`
        else:
            self._set(low, high - low, span)

    def _set(self, low: PrimExpr, extent: PrimExpr, span: Any) -> None:
        self.set_derived("min", low)
        self.set_derived("extent", extent)
        self.set_derived("span", span)

    @classmethod
    def make(cls, *values: Any, span: Any) -> Range:
        made = object.__new__(cls)
        low, extent = as_expr(values[0]), as_expr(values[1])
        if low.dtype != extent.dtype and isinstance(low, IntImm):
            low = constant(low.value, extent.dtype)
        elif low.dtype != extent.dtype and isinstance(extent, IntImm):
            extent = constant(extent.value, low.dtype)
        made._set(low, extent, span)
        return made

    @staticmethod
    def from_min_extent(low: Any, extent: Any) -> Range:
        """The numbers from `low` to below `low + extent`."""
        return Range.make(low, extent, span=None)

    @property
    def end(self) -> PrimExpr:
        """The first number behind it: min + extent."""
        result: PrimExpr = self.min + self.extent
        return result

    @property
    def ty(self) -> None:
        """None: a range has no type."""
        return None


def constant(value: Any, dtype: str | None = None) -> PrimExpr:
    """A constant of a dtype; by default bool, int32 (int64 where it does not fit) or float32 (float64 where
    it does not fit), as the value is.

    Raises: IRTypeError K0106 for an integer outside the dtype's range.
    """
    chosen = DataType(dtype or _default_dtype(value))
    if chosen.lanes > 1:
        return Broadcast(constant(value, chosen.element), chosen.lanes)
    if chosen.is_float:
        return FloatImm(chosen, float(value))
    return IntImm(chosen, int(value != 0) if chosen.is_bool else int(value))


def _default_dtype(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int32" if -(2**31) <= value < 2**31 else "int64"
    return "float64" if MAX_FLOAT32 < abs(value) < math.inf else "float32"


def as_expr(value: Any, dtype: str | None = None) -> PrimExpr:
    """A scalar expression from an expression or a Python or numpy scalar.

    Raises: IRTypeError K0102 for anything else.
    """
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, (bool, int, float)):
        return constant(value, dtype)
    if hasattr(value, "asexpr"):
        result: PrimExpr = value.asexpr()
        return result
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return constant(value.item(), dtype or str(value.dtype))
    raise IRTypeError(K0102, f"expected a scalar expression, got {type(value).__name__}")


def as_argument(value: Any) -> Expr:
    """An argument of an intrinsic: a scalar expression, a string, or a node such as a buffer region."""
    if isinstance(value, str):
        return StringImm(value)
    return value if isinstance(value, Expr) else as_expr(value)


def is_const_int(expr: object, value: int | None = None) -> bool:
    """Whether an expression is an integer constant (of this value)."""
    return isinstance(expr, IntImm) and (value is None or expr.value == value)
