"""Patterns over scalar expressions, for tables of rewrite rules.

    Rule("min-of-sum", pmin(x + y, x + z), x + pmin(y, z), algebra="addition is monotonic")

`x, y, z, w` match anything, `c1 ... c4` integer constants, a Python number that constant, `lanes` a
lane count. A variable that occurs twice must match the same stored term. Patterns are compiled to
closures; a RuleIndex finds the rules that can apply by the classes of a node and its first two operands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from heddle.ir.op import Op
from heddle.prim.nodes import (
    BOOL,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    constant,
)
from heddle.prim.ops import fold_binary
from heddle.prim.values import wrap_int
from heddle.runtime.dtype import DataType

Slots = list[Any]
Matcher = Callable[[Any, Slots], bool]
Builder = Callable[[Slots, Any, DataType], Any]
NUM_SLOTS = 10


class Pattern(ABC):
    """The base of patterns; operators build bigger ones. `//` and `%` round down; `tdiv` and `tmod` to
    zero."""

    root: type | None = None

    def __add__(self, other: Any) -> Pattern:
        return Operation(Add, self, other)

    def __radd__(self, other: Any) -> Pattern:
        return Operation(Add, other, self)

    def __sub__(self, other: Any) -> Pattern:
        return Operation(Sub, self, other)

    def __rsub__(self, other: Any) -> Pattern:
        return Operation(Sub, other, self)

    def __mul__(self, other: Any) -> Pattern:
        return Operation(Mul, self, other)

    def __rmul__(self, other: Any) -> Pattern:
        return Operation(Mul, other, self)

    def __floordiv__(self, other: Any) -> Pattern:
        return Operation(FloorDiv, self, other)

    def __rfloordiv__(self, other: Any) -> Pattern:
        return Operation(FloorDiv, other, self)

    def __mod__(self, other: Any) -> Pattern:
        return Operation(FloorMod, self, other)

    def __rmod__(self, other: Any) -> Pattern:
        return Operation(FloorMod, other, self)

    def __lt__(self, other: Any) -> Pattern:
        return Operation(LT, self, other)

    def __le__(self, other: Any) -> Pattern:
        return Operation(LE, self, other)

    def __gt__(self, other: Any) -> Pattern:
        return Operation(GT, self, other)

    def __ge__(self, other: Any) -> Pattern:
        return Operation(GE, self, other)

    def __and__(self, other: Any) -> Pattern:
        return Operation(And, self, other)

    def __or__(self, other: Any) -> Pattern:
        return Operation(Or, self, other)

    def __invert__(self) -> Pattern:
        return Fields(Not, self)

    @abstractmethod
    def matcher(self) -> Matcher:
        """The closure that matches an expression."""

    @abstractmethod
    def builder(self) -> Builder:
        """The closure that builds the expression from what was matched."""

    def variables(self) -> Iterable[Variable]:
        """The variables of the pattern from left to right; one that occurs twice comes twice."""
        return ()


class Variable(Pattern):
    """Matches any expression, or with `constant` an integer constant; its slot keeps what it matched."""

    def __init__(self, name: str, slot: int, constant: bool = False) -> None:
        self.name, self.slot, self.constant = name, slot, constant
        self.root = IntImm if constant else None

    def matcher(self) -> Matcher:
        slot, wants_constant = self.slot, self.constant

        def match(node: Any, slots: Slots) -> bool:
            if wants_constant and type(node) is not IntImm:
                return False
            held = slots[slot]
            if held is None:
                slots[slot] = node
                return True
            return held is node or (type(node) is int and held == node)

        return match

    def builder(self) -> Builder:
        slot = self.slot
        return lambda slots, terms, dtype: slots[slot]

    def variables(self) -> Iterable[Variable]:
        return (self,)


class Literal(Pattern):
    """Matches and builds one constant: an int of any integer dtype, a bool, or a float by its bits."""

    def __init__(self, value: float | int | bool) -> None:
        self.value = value
        self.root = FloatImm if type(value) is float else IntImm

    def matcher(self) -> Matcher:
        value = self.value
        if type(value) is float:
            return lambda node, slots: type(node) is FloatImm and node.value.hex() == value.hex()
        return lambda node, slots: type(node) is IntImm and node.value == value

    def builder(self) -> Builder:
        value = self.value
        if type(value) is bool:
            return lambda slots, terms, dtype: terms.intern(constant(value, BOOL.with_lanes(dtype.lanes)))

        def build(slots: Slots, terms: Any, dtype: Any) -> Any:
            wrapped = wrap_int(int(value), dtype.element) if dtype.is_int else value
            return terms.intern(constant(wrapped, dtype))

        return build


def as_pattern(value: Any) -> Pattern:
    """A pattern itself, or the Literal of a number or bool."""
    return value if isinstance(value, Pattern) else Literal(value)


class Operation(Pattern):
    """A binary node."""

    def __init__(self, cls: Any, a: Any, b: Any) -> None:
        self.root = cls
        self.a, self.b = as_pattern(a), as_pattern(b)

    def matcher(self) -> Matcher:
        cls: Any = self.root
        match_a, match_b = self.a.matcher(), self.b.matcher()
        return lambda node, slots: type(node) is cls and match_a(node.a, slots) and match_b(node.b, slots)

    def builder(self) -> Builder:
        cls: Any = self.root
        build_a, build_b = self.a.builder(), self.b.builder()
        literal_first = isinstance(self.a, Literal)

        def build(slots: Slots, terms: Any, dtype: DataType) -> Any:
            if literal_first:
                b = build_b(slots, terms, dtype)
                a = build_a(slots, terms, b.dtype)
            else:
                a = build_a(slots, terms, dtype)
                b = build_b(slots, terms, a.dtype)
            folded = fold_binary(cls, a, b)
            return terms.make(cls, a, b) if folded is None else terms.intern(folded)

        return build

    def variables(self) -> Iterable[Variable]:
        return (*self.a.variables(), *self.b.variables())


class Fields(Pattern):
    """A node that is no binary one, by its fields in order; a field may be a pattern or a slot for a
    lane count."""

    def __init__(self, cls: Any, *fields: Any) -> None:
        self.root = cls
        self.fields = tuple(as_pattern(item) for item in fields)

    def matcher(self) -> Matcher:
        cls: Any = self.root
        parts = [(name, item.matcher()) for name, item in zip(cls.init_names, self.fields, strict=True)]
        return lambda node, slots: (
            type(node) is cls and all(match(getattr(node, name), slots) for name, match in parts)
        )

    def builder(self) -> Builder:
        cls: Any = self.root
        builders = [item.builder() for item in self.fields]

        def build(slots: Slots, terms: Any, dtype: DataType) -> Any:
            return terms.intern(cls(*[make(slots, terms, dtype) for make in builders]))

        return build

    def variables(self) -> Iterable[Variable]:
        return tuple(var for item in self.fields for var in item.variables())


class Choice(Pattern):
    """`if_then_else(c, t, f)`."""

    def __init__(self, *args: Any) -> None:
        self.root = Call
        self.args = tuple(as_pattern(item) for item in args)

    def matcher(self) -> Matcher:
        parts = [item.matcher() for item in self.args]
        return lambda node, slots: (
            type(node) is Call
            and node.op.name == "tir.if_then_else"
            and all(match(arg, slots) for match, arg in zip(parts, node.args, strict=True))
        )

    def builder(self) -> Builder:
        op = Op.get("tir.if_then_else")
        parts = [item.builder() for item in self.args]

        def build(slots: Slots, terms: Any, dtype: DataType) -> Any:
            args = tuple(make(slots, terms, dtype) for make in parts)
            return terms.intern(Call(args[1].dtype, op, args))

        return build

    def variables(self) -> Iterable[Variable]:
        return tuple(var for item in self.args for var in item.variables())


def pmin(a: Any, b: Any) -> Pattern:
    """The pattern of min(a, b)."""
    return Operation(Min, a, b)


def pmax(a: Any, b: Any) -> Pattern:
    """The pattern of max(a, b)."""
    return Operation(Max, a, b)


def tdiv(a: Any, b: Any) -> Pattern:
    """The pattern of a / b rounded to zero (`Div`)."""
    return Operation(Div, a, b)


def tmod(a: Any, b: Any) -> Pattern:
    """The pattern of what `tdiv` leaves (`Mod`): 0, or of the sign of a."""
    return Operation(Mod, a, b)


def eq(a: Any, b: Any) -> Pattern:
    """The pattern of a == b."""
    return Operation(EQ, a, b)


def ne(a: Any, b: Any) -> Pattern:
    """The pattern of a != b."""
    return Operation(NE, a, b)


def select(condition: Any, a: Any, b: Any) -> Pattern:
    """The pattern of `Select`: a where the condition holds, else b."""
    return Fields(Select, condition, a, b)


def ramp(base: Any, stride: Any, count: Any) -> Pattern:
    """The pattern of `Ramp`: base + i * stride in lane i; `count` is `lanes`."""
    return Fields(Ramp, base, stride, count)


def broadcast(value: Any, count: Any) -> Pattern:
    """The pattern of `Broadcast`: the same scalar in every lane; `count` is `lanes`."""
    return Fields(Broadcast, value, count)


x, y, z, w = (Variable(name, slot) for slot, name in enumerate("xyzw"))
c1, c2, c3, c4 = (Variable(f"c{i + 1}", 4 + i, constant=True) for i in range(4))
lanes = Variable("lanes", 8)
