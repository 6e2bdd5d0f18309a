"""The typed tree of a function: what the reader makes, and the translator and the interpreter take.

    function = name, params, result, body
    stmt     = Assign(name, expr) | Unpack(names, expr) | Evaluate(expr)
             | Store(pointer, expr) | Update(pointer, op, expr)
             | If(test, then, other) | While(test, body) | Break | Continue | Return(expr or None)
    expr     = Const | Null | Local | GlobalAddress | TextAddress | FunctionAddress | PlatformConst
             | Load(pointer) | FieldAddress(base, field) | ElementAddress(base, index)
             | Binary | Compare | Logic | Not | Select | Convert | MinMax | Magnitude | LeadingZeros
             | Call | CallAddress | AtomicOp | Copy | Fill | Room | CycleCounter | MakeTuple

Semantics: operands are evaluated from left to right. Integers wrap around. A division by zero and a shift by
the width or more are undefined; the interpreter reports them. `Logic` and `Select` evaluate no operand that
is not needed. Every expression has its type and the line it stands on.
"""

from __future__ import annotations

from dataclasses import field

from heddle.support.frozen import frozen
from heddle.systems.types import Field, FunctionType, Sized, Type
from heddle.systems.words import Global, NativeFunction, Order, PlatformValue, Text


@frozen(kw_only=True)
class Expr:
    type: Type
    line: int


@frozen(kw_only=True)
class Const(Expr):
    value: int


@frozen(kw_only=True)
class Null(Expr):
    pass


@frozen(kw_only=True)
class Local(Expr):
    name: str


@frozen(kw_only=True)
class GlobalAddress(Expr):
    name: str
    of: Global


@frozen(kw_only=True)
class TextAddress(Expr):
    name: str
    of: Text


@frozen(kw_only=True)
class FunctionAddress(Expr):
    of: NativeFunction


@frozen(kw_only=True)
class PlatformConst(Expr):
    of: PlatformValue


@frozen(kw_only=True)
class Load(Expr):
    pointer: Expr


@frozen(kw_only=True)
class FieldAddress(Expr):
    base: Expr
    struct: str
    field: Field


@frozen(kw_only=True)
class ElementAddress(Expr):
    """`count` is the array's where it is known."""

    base: Expr
    index: Expr
    element: Sized
    count: int | None


@frozen(kw_only=True)
class Binary(Expr):
    """`op` is one of + - * // % & | ^ << >>."""

    op: str
    left: Expr
    right: Expr


@frozen(kw_only=True)
class Compare(Expr):
    """`op` is one of == != < <= > >=."""

    op: str
    left: Expr
    right: Expr


@frozen(kw_only=True)
class Logic(Expr):
    """`op` is `and` or `or`."""

    op: str
    left: Expr
    right: Expr


@frozen(kw_only=True)
class Not(Expr):
    operand: Expr


@frozen(kw_only=True)
class Select(Expr):
    test: Expr
    then: Expr
    other: Expr


@frozen(kw_only=True)
class Convert(Expr):
    """Between integers, from bool to an integer, and between a pointer and u64 or another pointer."""

    operand: Expr


@frozen(kw_only=True)
class MinMax(Expr):
    """`op` is `min` or `max`."""

    op: str
    left: Expr
    right: Expr


@frozen(kw_only=True)
class Magnitude(Expr):
    """abs of a signed integer, as the unsigned one of its width."""

    operand: Expr


@frozen(kw_only=True)
class LeadingZeros(Expr):
    operand: Expr


@frozen(kw_only=True)
class Call(Expr):
    """The type of a call that gives nothing is an empty tuple."""

    callee: NativeFunction
    args: tuple[Expr, ...]


@frozen(kw_only=True)
class CallAddress(Expr):
    callee: Expr
    signature: FunctionType
    args: tuple[Expr, ...]


@frozen(kw_only=True)
class AtomicOp(Expr):
    """`op` is load, store, exchange, add, sub or compare_exchange; the last one gives whether it did."""

    op: str
    pointer: Expr
    element: Sized
    args: tuple[Expr, ...]
    orders: tuple[Order, ...]


@frozen(kw_only=True)
class Copy(Expr):
    """`count` elements of `size_bytes`, or one."""

    to: Expr
    source: Expr
    size_bytes: int
    count: Expr | None


@frozen(kw_only=True)
class Fill(Expr):
    to: Expr
    byte: Expr
    count: Expr


@frozen(kw_only=True)
class Room(Expr):
    """The address of memory of this call's: of `count` elements, or of one."""

    of: Sized
    count: Expr | None


@frozen(kw_only=True)
class CycleCounter(Expr):
    pass


@frozen(kw_only=True)
class MakeTuple(Expr):
    items: tuple[Expr, ...]


@frozen(kw_only=True)
class Stmt:
    line: int


@frozen(kw_only=True)
class Assign(Stmt):
    name: str
    value: Expr


@frozen(kw_only=True)
class Unpack(Stmt):
    names: tuple[str, ...]
    value: Expr


@frozen(kw_only=True)
class Store(Stmt):
    pointer: Expr
    value: Expr


@frozen(kw_only=True)
class Update(Stmt):
    """Load, compute as `Binary` does, and store; the address is computed once."""

    pointer: Expr
    op: str
    value: Expr


@frozen(kw_only=True)
class Evaluate(Stmt):
    value: Expr


@frozen(kw_only=True)
class If(Stmt):
    test: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...]


@frozen(kw_only=True)
class While(Stmt):
    """`assigned` are the locals that the body assigns to."""

    test: Expr
    body: tuple[Stmt, ...]
    assigned: frozenset[str]


@frozen(kw_only=True)
class Break(Stmt):
    pass


@frozen(kw_only=True)
class Continue(Stmt):
    pass


@frozen(kw_only=True)
class Return(Stmt):
    value: Expr | None


@frozen(kw_only=True)
class FunctionTree:
    """`body` is empty for a function that is declared only."""

    declared: NativeFunction
    params: tuple[tuple[str, Type], ...]
    result: Type | None
    body: tuple[Stmt, ...]
    file: str
    line: int
    doc: str = field(default="")

    @property
    def name(self) -> str:
        """The function's name in its source and in the text."""
        return self.declared.name

    @property
    def signature(self) -> FunctionType:
        """The types of its parameters and of its result."""
        return FunctionType(tuple(kind for _, kind in self.params), self.result)
