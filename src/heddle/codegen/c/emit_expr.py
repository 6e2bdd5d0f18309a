"""Scalar and vector expressions as C. `emit` gives an expression of C; what needs statements, such as a value
that is bound and used twice, or a condition over operations that may do harm, goes before it as statements.

Of a vector, `emit` gives one lane: the one that `lane` names while a statement's lanes run in a loop, or a
number while they are written out, as shuffles ask. No compiler's vector type is needed.

Semantics are those of docs/semantics.md, without C's undefined behaviour: integers of values wrap through
unsigned ones, quotients and shifts go through functions of `heddle_c.h`. Index arithmetic does not overflow.
A product that rounds with the sum it stands in is `heddle_muladd`: C's `fma` where the processor has it as an
instruction, else a product and a sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from heddle.codegen.c.types import element_type, float_literal, int_literal, suffix
from heddle.codegen.c.writer import FunctionWriter, bare
from heddle.codegen.codes import G0101
from heddle.codegen.expressions import does_not_overflow, is_speculatable, plain_int, product_in_sum
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
    ArithExpr,
    BinaryExpr,
    Broadcast,
    Call,
    Cast,
    CompareExpr,
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
    Select,
    Shuffle,
    Sub,
    Var,
)
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError

Lane = str | int | None
_SIGNS: dict[type, str] = {Add: "+", Sub: "-", Mul: "*", Div: "/"}
_NAMES: dict[type, str] = {Add: "add", Sub: "sub", Mul: "mul"}
_DIVISIONS: dict[type, str] = {Div: "div", Mod: "mod", FloorDiv: "floordiv", FloorMod: "floormod"}
_COMPARES: dict[type, str] = {EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}
_FLOAT32 = DataType("float32")


@dataclass(slots=True)
class Lanes:
    """A vector that lies in an array, an element a lane."""

    array: str


class ExprEmitter(Dispatch):
    """Emits into `out`. `env` maps variables to C expressions, or to the array of their lanes."""

    def __init__(self, out: FunctionWriter) -> None:
        self.out = out
        self.env: dict[Any, str | Lanes] = {}
        self.lane: Lane = None
        self._by_lane: dict[Var, tuple[PrimExpr, Lane, str]] = {}
        self._in_index = False

    def emit(self, expr: Any) -> str:
        """A value as an expression of C. Raises: UsageError G0101 for a call that has none."""
        result = self.emit_effect(expr)
        if not result:
            raise UsageError(G0101, f"{expr} has no value: it stands alone, as a statement", span=expr.span)
        return result

    def emit_effect(self, expr: Any) -> str:
        """The same for what stands alone; empty for a call that has no value."""
        result: str = self._method(type(expr))(self, expr)
        return result

    def emit_lane(self, expr: PrimExpr, lane: Lane) -> str:
        """One lane of a vector; a scalar is the same in all."""
        with self.in_lane(lane):
            return self.emit(expr)

    @contextmanager
    def in_lane(self, lane: Lane) -> Iterator[None]:
        """Inside the block, vectors are emitted as their lane `lane`: a number, a C expression, or None for
        scalars."""
        before, self.lane = self.lane, lane
        try:
            yield
        finally:
            self.lane = before

    def emit_index(self, expr: PrimExpr) -> str:
        """An index or bound, whose arithmetic does not overflow."""
        with self.arithmetic(in_index=True):
            return self.emit(expr)

    @contextmanager
    def arithmetic(self, in_index: bool) -> Iterator[None]:
        """Inside the block, signed integers of at least 32 bits do not overflow (`in_index`), or wrap."""
        before, self._in_index = self._in_index, in_index
        try:
            yield
        finally:
            self._in_index = before

    def default(self, node: Any) -> str:
        """Raises: UsageError G0101 for a node that has no form in C."""
        raise UsageError(G0101, f"{type(node).__name__} has no form in C: {node}", span=node.span)

    # ---- leaves, and lanes

    def visit_Var(self, node: Var) -> str:
        if node in self._by_lane:
            value, lane, made = self._by_lane[node]
            return made if lane == self.lane else self.emit(value)
        found = self.env.get(node)
        if found is None:
            raise UsageError(G0101, f"variable {node.name!r} has no value here", span=node.span)
        return f"{found.array}[{self.lane}]" if isinstance(found, Lanes) else found

    def visit_IntImm(self, node: IntImm) -> str:
        if node.dtype.is_handle:
            return "NULL" if node.value == 0 else f"(void *)(uintptr_t)UINT64_C({node.value})"
        return int_literal(node.value, node.dtype)

    def visit_FloatImm(self, node: FloatImm) -> str:
        return float_literal(node.value, node.dtype)

    def visit_Broadcast(self, node: Broadcast) -> str:
        return self.emit_lane(node.value, None)

    def visit_Ramp(self, node: Ramp) -> str:
        lane = self.lane
        base, stride = self.emit_lane(node.base, None), self.emit_lane(node.stride, None)
        dtype = node.base.dtype
        steps = (
            f"{lane}"
            if stride == "1"
            else self._integer(Mul, stride, f"({element_type(dtype)}){lane}", dtype)
        )
        return self._integer(Add, base, steps, dtype)

    def visit_Shuffle(self, node: Shuffle) -> str:
        if node.dtype.lanes == 1:
            wanted = node.indices[0]
        elif isinstance(self.lane, int):
            wanted = node.indices[self.lane]
        else:
            raise UsageError(G0101, f"a shuffle in C needs its lanes written out: {node}", span=node.span)
        for vector in node.vectors:
            lanes = vector.dtype.lanes
            if wanted < lanes:
                return self.emit_lane(vector, wanted if lanes > 1 else None)
            wanted -= lanes
        raise AssertionError("a shuffle picks a lane of its operands")

    def visit_Let(self, node: Let) -> str:
        if node.var.dtype.lanes > 1:
            made = self.out.value(element_type(node.var.dtype), self.emit(node.value), node.var.name)
            self._by_lane[node.var] = node.value, self.lane, made
        else:
            with self.in_lane(None):
                value = self.emit(node.value)
                self.env[node.var] = self.out.value(element_type(node.var.dtype), value, node.var.name)
        return self.emit(node.body)

    # ---- arithmetic

    def visit_ArithExpr(self, node: ArithExpr) -> str:
        if (parts := product_in_sum(node)) is not None:
            return self._multiply_add(node, *parts)
        a, b = self.emit(node.a), self.emit(node.b)
        kind, dtype = type(node), node.dtype
        if kind in (Min, Max):
            return f"heddle_{'min' if kind is Min else 'max'}_{suffix(dtype)}({a}, {b})"
        if dtype.code == "float" and dtype.bits > 16 and kind in _SIGNS:
            return f"({a} {_SIGNS[kind]} {b})"
        if not (dtype.is_int or dtype.is_bool):
            return self.default(node)
        if kind in _NAMES:
            return self._integer(kind, a, b, dtype)
        return self._divide(node, a, b)

    def _integer(self, kind: type, a: str, b: str, dtype: DataType) -> str:
        """A sum, difference or product of integers."""
        plain = f"({a} {_SIGNS[kind]} {b})"
        if does_not_overflow(dtype, self._in_index):
            return plain
        return self.wrapped(f"heddle_{_NAMES[kind]}_{suffix(dtype)}({a}, {b})", dtype)

    def wrapped(self, text: str, dtype: DataType) -> str:
        """An integer of whole bytes as one of the dtype's 1, 2 or 4 bits."""
        if dtype.bits >= 8:
            return text
        if dtype.is_bool:
            return f"(({text} & 1) != 0)"
        return f"heddle_wrap_{suffix(dtype)}({text}, {dtype.bits})"

    def _multiply_add(self, node: ArithExpr, product: Mul, other: PrimExpr) -> str:
        """product + other, product - other or other - product."""
        c, a, b = self.emit(other), self.emit(product.a), self.emit(product.b)
        if isinstance(node, Sub):
            if product is node.a:
                c = f"(-{c})"
            else:
                a = f"(-{a})"
        return f"heddle_muladd_{suffix(node.dtype)}({a}, {b}, {c})"

    def _divide(self, node: ArithExpr, a: str, b: str) -> str:
        kind, divisor = type(node), plain_int(node.b)
        if divisor is not None and divisor.value > 0 and (kind in (Div, Mod) or node.dtype.is_unsigned):
            sign = "/" if kind in (Div, FloorDiv) else "%"
            return self.wrapped(f"({element_type(node.dtype)})({a} {sign} {b})", node.dtype)
        return self.wrapped(f"heddle_{_DIVISIONS[kind]}_{suffix(node.dtype)}({a}, {b})", node.dtype)

    # ---- comparison and logic

    def visit_CompareExpr(self, node: CompareExpr) -> str:
        return self.compare(type(node), self.emit(node.a), self.emit(node.b), node.a.dtype)

    def compare(self, kind: type, a: str, b: str, dtype: DataType) -> str:
        """A comparison of two lanes by EQ, NE, LT, LE, GT or GE; `dtype` is that of both."""
        if dtype.is_unsigned or dtype.is_bool:  # a comparison that always holds is a warning where it is seen
            if kind in (LT, GE):
                return f"{'!' if kind is GE else ''}heddle_less({a}, {b})"
            if kind in (GT, LE):
                return f"{'!' if kind is LE else ''}heddle_less({b}, {a})"
        return f"({a} {_COMPARES[kind]} {b})"

    def visit_Not(self, node: Not) -> str:
        return f"(!{self.emit(node.a)})"

    def visit_And(self, node: And) -> str:
        return self._logic(node, "&&")

    def visit_Or(self, node: Or) -> str:
        return self._logic(node, "||")

    def _logic(self, node: BinaryExpr, sign: str) -> str:
        """C's own operators, which evaluate the second side only where the first leaves it open."""
        a = self.emit(node.a)
        if is_speculatable(node.b):
            return f"({a} {sign} {self.emit(node.b)})"
        made = self.out.declare("test", f"bool {{}} = {a};")
        with self.out.block(f"if ({made if sign == '&&' else f'!{made}'})"):
            self.out.line(f"{made} = {self.emit(node.b)};")
        return made

    def visit_Select(self, node: Select) -> str:
        condition, one, other = map(self.emit, (node.condition, node.true_value, node.false_value))
        return self.chosen(condition, one, other, node.dtype)

    def chosen(self, condition: str, one: str, other: str, dtype: DataType) -> str:
        """C's `?:` over two values that are both safe to evaluate, as a lane of the dtype."""
        ty = element_type(dtype)
        return (
            f"({ty})({condition} ? {one} : {other})" if dtype.is_int else f"({condition} ? {one} : {other})"
        )

    def if_then_else(self, node: Call) -> str:
        """One of two values, of which only that one is evaluated where that matters."""
        condition, one, other = (arg for arg in node.args if isinstance(arg, PrimExpr))
        test = self.emit(condition)
        if is_speculatable(one) and is_speculatable(other):
            return self.chosen(test, self.emit(one), self.emit(other), node.dtype)
        made = self.out.declare("chosen", f"{element_type(node.dtype)} {{}};")
        with self.out.block(f"if ({bare(test)})", tail="} else {"):
            self.out.line(f"{made} = {self.emit(one)};")
        with self.out.rest():
            self.out.line(f"{made} = {self.emit(other)};")
        return made

    # ---- conversion

    def visit_Cast(self, node: Cast) -> str:
        return self.convert(self.emit(node.value), node.value.dtype.element, node.dtype.element)

    def convert(self, value: str, source: DataType, target: DataType) -> str:
        """A lane as another dtype, by the rules of `prim.values.convert`."""
        if source == target:
            return value
        if source.is_handle or target.is_handle:
            return self._convert_handle(value, source, target)
        if source.is_small_float or target.is_small_float:
            raise UsageError(G0101, f"conversion from {source} to {target} was not lowered")
        if source.is_float and source.bits == 16:
            value, source = f"heddle_from_{_half(source)}({value})", _FLOAT32
            return self.convert(value, source, target)
        if target.is_bool:
            return f"({value} != 0)"
        if target.is_float and target.bits == 16:
            return f"heddle_to_{_half(target)}({value})"
        if source.is_float and target.is_int:
            whole = f"heddle_{suffix(target)}_from_{suffix(source)}({value})"
            return whole if target.bits >= 8 else self._saturated(whole, target)
        if target.is_float:
            return f"({element_type(target)}){value}"
        if target.bits >= source.bits and target.is_signed == source.is_signed and not source.is_bool:
            return f"({element_type(target)}){value}"
        return self.wrapped(f"({element_type(target)}){value}", target)

    def _saturated(self, whole: str, target: DataType) -> str:
        least, most = (
            (-(1 << (target.bits - 1)) if target.is_signed else 0),
            1 << (target.bits - target.is_signed),
        )
        name = suffix(target)
        return f"heddle_min_{name}(heddle_max_{name}({whole}, {int_literal(least, target)}), {most - 1})"

    def _convert_handle(self, value: str, source: DataType, target: DataType) -> str:
        if target.is_bool:
            return f"({value} != NULL)"
        if source.is_handle:
            return f"({element_type(target)})(uintptr_t){value}"
        return f"(void *)(uintptr_t){value}"


def _half(dtype: DataType) -> str:
    return "bf16" if dtype.code == "bfloat" else "f16"
