"""Scalar expressions as script text.

Integer and float literals are written plainly where the other operand fixes their dtype, and int32 ones
everywhere;
others carry it: `T.int64(4)`. Parentheses are written where re-reading would otherwise give another tree.

An expression whose text would be long because parts of it are used several times names them at their first
use: `(t1 := (t := n + n) + t) + t1`. So text is linear in the nodes, and it is read back with the same parts
shared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from heddle.ir.expr import Expr, StringImm
from heddle.ir.node import Node, children
from heddle.ir.types import PointerType, PrimType, Type
from heddle.ir.visitor import Dispatch
from heddle.prim.nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Broadcast,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Range,
    Select,
    Shuffle,
    Sub,
    Var,
)
from heddle.runtime.dtype import DataType
from heddle.support.names import NameSupply, identifier, spelled
from heddle.tir.nodes import Buffer, BufferLoad, BufferRegion

_PRECEDENCE: dict[type, int] = {
    Or: 1,
    And: 2,
    Not: 3,
    EQ: 4,
    NE: 4,
    LT: 4,
    LE: 4,
    GT: 4,
    GE: 4,
    Add: 9,
    Sub: 9,
    Mul: 10,
    FloorDiv: 10,
    FloorMod: 10,
    Div: 10,
}
_ATOM = 12


_LONG_NODES = 1000
"""From here on parts that are used several times are looked for."""
_UNBOUNDED = 1 << 62


class _Long(Exception):
    """An expression has more than `_LONG_NODES` nodes, those of parts counted at each use."""


def _used_often(root: Node) -> dict[int, str]:
    """The parts of an expression that are used more than once, leaves apart, by identity."""
    seen, often, left = {id(root)}, dict[int, str](), [root]
    while left:
        for child in children(left.pop()):
            if id(child) not in seen:
                seen.add(id(child))
                left.append(child)
            elif _has_parts(child):
                often[id(child)] = ""
    return often


def _has_parts(node: Node) -> bool:
    """Whether naming an expression saves text."""
    return isinstance(node, Expr) and next(iter(children(node)), None) is not None


class Names:
    """The text names of variables and buffers: the hint where it is free, else with a number."""

    def __init__(self) -> None:
        self.supply = NameSupply(("T", "R", "I", "cls"))
        self._names: dict[Node, str] = {}
        self.pointers: dict[Var, str] = {}

    def define(self, thing: Node, hint: str) -> str:
        """The name of a variable or buffer: at its first use one that nothing else has, as near to the hint
        as can be.
        """
        if thing not in self._names:
            self._names[thing] = self.supply.fresh(identifier(hint))
        return self._names[thing]

    def of(self, thing: Node, hint: str) -> str:
        """The name; something not defined yet (free) is named at its first use."""
        return self._names.get(thing) or self.define(thing, hint)

    def __contains__(self, thing: Node) -> bool:
        return thing in self._names

    @contextmanager
    def scope(self, kind: type[Node]) -> Iterator[None]:
        """Things of a kind that are named inside have no name after it: their text ends."""
        before = len(self._names)
        yield
        for thing in list(self._names)[before:]:
            if isinstance(thing, kind):
                del self._names[thing]


class ExprPrinter(Dispatch):
    """Text of expressions; statement and graph printers build on it."""

    def __init__(self, names: Names | None = None) -> None:
        self.names = names or Names()
        self._left = -1  # nodes that may still be printed before their text is called long
        self._shared: dict[int, str] = {}  # by identity: parts that get a name, and it once they have it

    def expr(self, node: Any) -> str:
        """The text of an expression. Long ones are written with names for what occurs twice."""
        if self._left < 0:
            return self._whole(node)
        self._left -= 1
        if self._left < 0:
            raise _Long
        if self._shared and id(node) in self._shared:
            return self._shared_text(node)
        text: str = self._method(type(node))(self, node)
        return text

    def _whole(self, node: Any) -> str:
        """The text of an expression that is no part of another one."""
        mark = self._mark()
        try:
            with suppress(_Long):
                self._left = _LONG_NODES
                return self.expr(node)
            self._reset(mark)
            self._shared, self._left = _used_often(node), _UNBOUNDED
            return self.expr(node)
        finally:
            self._shared, self._left = {}, -1

    def _shared_text(self, node: Any) -> str:
        """Its name, given where it is used first."""
        name = self._shared[id(node)]
        if name:
            return name
        text: str = self._method(type(node))(self, node)
        self._shared[id(node)] = name = self.names.supply.fresh("t")
        return f"({name} := {text})"

    def _mark(self) -> Any:
        """What `_reset` needs to undo what printing leaves behind, apart from names."""

    def _reset(self, mark: Any) -> None:
        """Forget what was printed since."""

    def default(self, node: Any) -> str:
        """The text of a node that has no form of its own: its kind and its fields."""
        fields = ", ".join(f"{name}={self.value(getattr(node, name))}" for name in node.init_names)
        return f"{node.node_kind}({fields})"

    def _inside(self, node: Any, level: int, sibling: Any = None) -> str:
        """An operand under an operator of precedence `level`."""
        plain = self._literal_beside(node, sibling)
        if plain is not None:
            return plain
        text = self.expr(node)
        return f"({text})" if self._level(node) < level and id(node) not in self._shared else text

    def _level(self, node: Any) -> int:
        if isinstance(node, Div) and not node.dtype.is_float:
            return _ATOM
        return _PRECEDENCE.get(type(node), _ATOM)

    def _literal_beside(self, node: Any, sibling: Any) -> str | None:
        """A literal without its dtype, where the sibling operand tells it."""
        if (
            sibling is None
            or isinstance(sibling, (IntImm, FloatImm))
            or getattr(sibling, "dtype", None) != node.dtype
        ):
            return None
        if isinstance(node, IntImm) and node.dtype.is_int:
            return str(node.value)
        if isinstance(node, FloatImm) and math.isfinite(node.value):
            return repr(node.value)
        return None

    def visit_Var(self, node: Any) -> str:
        if isinstance(node, Var) and node in self.names.pointers:
            return f"{self.names.pointers[node]}.data"
        return self.names.of(node, node.name_hint)

    def visit_GlobalVar(self, node: Any) -> str:
        return f"cls.{spelled(node.name_hint)}"

    def visit_IntImm(self, node: IntImm) -> str:
        if node.dtype == "int32":
            return str(node.value)
        return f"T.{node.dtype}({bool(node.value) if node.dtype.is_bool else node.value})"

    def visit_FloatImm(self, node: FloatImm) -> str:
        value = repr(node.value) if math.isfinite(node.value) else f'"{node.value}"'
        return f"T.{node.dtype}({value})"

    def visit_StringImm(self, node: StringImm) -> str:
        return quote(node.value)

    def visit_Cast(self, node: Cast) -> str:
        return f"T.Cast({quote(node.dtype)}, {self.expr(node.value)})"

    def visit_BinaryExpr(self, node: BinaryExpr) -> str:
        level = _PRECEDENCE[type(node)]
        chains = level == 4  # Python would read `a < b < c` as a chain
        left, right = self._inside(node.a, level + chains, node.b), self._inside(node.b, level + 1, node.a)
        return f"{left} {node.symbol} {right}"

    def _function(self, name: str, a: PrimExpr, b: PrimExpr) -> str:
        return f"T.{name}({self._inside(a, 0, b)}, {self._inside(b, 0, a)})"

    def visit_Min(self, node: Min) -> str:
        return self._function("min", node.a, node.b)

    def visit_Max(self, node: Max) -> str:
        return self._function("max", node.a, node.b)

    def visit_Mod(self, node: Mod) -> str:
        return self._function("truncmod", node.a, node.b)

    def visit_Div(self, node: Div) -> str:
        return (
            self.visit_BinaryExpr(node) if node.dtype.is_float else self._function("truncdiv", node.a, node.b)
        )

    def visit_Not(self, node: Not) -> str:
        return f"not {self._inside(node.a, 4)}"

    def visit_Select(self, node: Select) -> str:
        return f"T.Select({self.list(node.condition, node.true_value, node.false_value)})"

    def visit_Let(self, node: Let) -> str:
        value = self.expr(node.value)
        name = self.names.define(node.var, node.var.name)
        return (
            f"T.Let({self.expr(node.body)}, where={{T.Var({quote(name)}, {quote(node.var.dtype)}): {value}}})"
        )

    def visit_Ramp(self, node: Ramp) -> str:
        return f"T.Ramp({self.expr(node.base)}, {self._inside(node.stride, 0, node.base)}, {node.lanes})"

    def visit_Broadcast(self, node: Broadcast) -> str:
        return f"T.Broadcast({self.expr(node.value)}, {node.lanes})"

    def visit_Shuffle(self, node: Shuffle) -> str:
        return f"T.Shuffle([{self.list(*node.vectors)}], {list(node.indices)})"

    def visit_Call(self, node: Any) -> str:
        if not isinstance(node, Call):
            return self.default(node)
        name = node.op.name.removeprefix("tir.")
        args = ", ".join(self.expr(arg) for arg in node.args)
        if name in SELF_TYPED:
            return f"T.{name}({args})"
        return f"T.call_intrin({quote(node.dtype)}, {quote(name)}{', ' if args else ''}{args})"

    def visit_BufferLoad(self, node: BufferLoad) -> str:
        name = self.names.of(node.buffer, node.buffer.name)
        if node.predicate is not None:
            return f"{name}.vload([{self.list(*node.indices)}], predicate={self.expr(node.predicate)})"
        return f"{name}[{self.list(*node.indices) or '()'}]"

    def visit_BufferRegion(self, node: BufferRegion) -> str:
        name = self.names.of(node.buffer, node.buffer.name)
        return f"{name}[{', '.join(self.range_slice(r) for r in node.region) or '()'}]"

    def visit_Buffer(self, node: Buffer) -> str:
        return self.names.of(node, node.name)

    def visit_Range(self, node: Range) -> str:
        return f"I.Range({self.expr(node.min)}, {self.expr(node.end)})"

    def range_slice(self, node: Range) -> str:
        """`min:min + extent`, or the index alone where the extent is 1."""
        if isinstance(node.extent, IntImm) and node.extent.value == 1 and node.extent.dtype == node.min.dtype:
            return self.expr(node.min)
        if isinstance(node.min, IntImm) and (node.min.value == 0 or isinstance(node.extent, IntImm)):
            return f"{self.expr(node.min)}:{self.expr(node.end)}"
        return f"{self.expr(node.min)}:{self.expr(Add(node.min, node.extent))}"

    def list(self, *nodes: Any) -> str:
        """Expressions with commas between them."""
        return ", ".join(self.expr(node) for node in nodes)

    def tuple(self, nodes: Any) -> str:
        """Expressions as a tuple of Python; one alone has its comma."""
        items = [self.expr(node) for node in nodes]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"

    def type(self, ty: Type | None) -> str:
        """A scalar or pointer type as an annotation."""
        if isinstance(ty, PrimType):
            return f"T.{ty.dtype}"
        if isinstance(ty, PointerType) and isinstance(ty.element_type, PrimType):
            return f"T.handle({quote(ty.element_type.dtype)}, {quote(ty.storage_scope)})"
        return "T.handle"

    def value(self, value: Any) -> str:
        """An attribute's value."""
        if isinstance(value, Node):
            return self.expr(value)
        if isinstance(value, DataType):
            return f"T.dtype({quote(value)})"
        if isinstance(value, str):
            return quote(value)
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(self.value(item) for item in value)}]"
        if hasattr(value, "items"):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(v)}" for k, v in value.items()) + "}"
        return repr(value)


def quote(text: str) -> str:
    """A Python string literal in double quotes."""
    body = repr(str(text))
    if body[0] == "'" and '"' not in body:
        return f'"{body[1:-1]}"'
    return body


SELF_TYPED = frozenset(
    (
        "exp",
        "exp2",
        "exp10",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "sigmoid",
        "erf",
        "fabs",
        "floor",
        "ceil",
        "trunc",
        "round",
        "nearbyint",
        "pow",
        "atan2",
        "fmod",
        "fmaximum",
        "fminimum",
        "copysign",
        "hypot",
        "nextafter",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "shift_left",
        "shift_right",
        "bitwise_not",
        "isnan",
        "isinf",
        "isfinite",
        "popcount",
        "fma",
        "if_then_else",
        "likely",
    )
)
"""Intrinsics whose result dtype follows from their arguments, so that text need not say it."""
