"""Random index expressions over bounded variables, their domains, and a compact way to show them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from heddle.arith import Analyzer
from heddle.prim import ops
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import (
    BinaryExpr,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Not,
    PrimExpr,
    Range,
    Select,
    Var,
)
from heddle.prim.values import wrap_int

Domain = dict[Var, range]

DIVISORS = (1, 2, 3, 4, 8, -2, -3)
ARITHMETIC = (
    "add",
    "sub",
    "mulc",
    "mul",
    "floordiv",
    "floormod",
    "truncdiv",
    "truncmod",
    "min",
    "max",
    "select",
)
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


@st.composite
def domains(draw: Any, max_vars: int = 3, dtype: str = "int64") -> Domain:
    """One to `max_vars` variables, each with a small range that may be negative (unsigned ones never are)."""
    domain = {}
    for index in range(draw(st.integers(1, max_vars))):
        low = draw(st.sampled_from((0, 0, 0, -3, -1, 2)))
        if dtype.startswith("uint"):
            low = abs(low)
        size = draw(st.sampled_from((2, 4, 5, 8)))
        domain[Var("xyzw"[index], dtype)] = range(low, low + size)
    return domain


@st.composite
def index_exprs(draw: Any, domain: Domain, depth: int = 3) -> PrimExpr:
    """An expression over the variables of a domain, of their dtype."""
    dtype = next(iter(domain)).dtype
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        if draw(st.booleans()):
            return draw(st.sampled_from(list(domain)))
        return IntImm(dtype, wrap_int(draw(st.integers(-4, 9)), dtype))
    kind = draw(st.sampled_from(ARITHMETIC))
    a = draw(index_exprs(domain, depth - 1))
    if kind in ("mulc", "floordiv", "floormod", "truncdiv", "truncmod"):
        b: Any = IntImm(dtype, wrap_int(draw(st.sampled_from(DIVISORS)), dtype))
    else:
        b = draw(index_exprs(domain, depth - 1))
    if kind == "select":
        return ops.select(draw(conditions(domain, depth - 1)), a, b)
    builders = {
        "add": ops.add,
        "sub": ops.subtract,
        "mul": ops.multiply,
        "mulc": ops.multiply,
        "floordiv": ops.floordiv,
        "floormod": ops.floormod,
        "truncdiv": ops.truncdiv,
        "truncmod": ops.truncmod,
        "min": ops.minimum,
        "max": ops.maximum,
    }
    return builders[kind](a, b)


@st.composite
def conditions(draw: Any, domain: Domain, depth: int = 2) -> PrimExpr:
    """A bool expression over the variables of a domain."""
    if depth > 0 and draw(st.integers(0, 3)) == 0:
        kind = draw(st.sampled_from(("and", "or", "not")))
        a = draw(conditions(domain, depth - 1))
        if kind == "not":
            return ops.logical_not(a)
        b = draw(conditions(domain, depth - 1))
        return ops.logical_and(a, b) if kind == "and" else ops.logical_or(a, b)
    name = draw(st.sampled_from(COMPARISONS))
    inner = max(depth - 1, 0)
    a = draw(index_exprs(domain, inner + 1))
    return getattr(ops, name)(a, draw(index_exprs(domain, inner)))


def points(domain: Domain) -> Iterator[dict[Var, int]]:
    for values in itertools.product(*domain.values()):
        yield dict(zip(domain, values, strict=True))


def analyzer_for(domain: Domain) -> Analyzer:
    analyzer = Analyzer()
    for var, values in domain.items():
        low = IntImm(var.dtype, values.start)
        analyzer.bind(var, Range.from_min_extent(low, IntImm(var.dtype, len(values))))
    return analyzer


def values_of(expr: PrimExpr, domain: Domain) -> list[Any]:
    return [evaluate(expr, point) for point in points(domain)]


def show(expr: Any) -> str:
    """A one-line form for messages of failing tests."""
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, (IntImm, FloatImm)):
        return str(expr.value)
    if isinstance(expr, BinaryExpr):
        return f"({show(expr.a)} {expr.symbol or type(expr).__name__} {show(expr.b)})"
    if isinstance(expr, Not):
        return f"!{show(expr.a)}"
    if isinstance(expr, Select):
        return f"select({show(expr.condition)}, {show(expr.true_value)}, {show(expr.false_value)})"
    if isinstance(expr, Cast):
        return f"{expr.dtype}({show(expr.value)})"
    if isinstance(expr, Call):
        return f"{expr.op.name}({', '.join(map(show, expr.args))})"
    return str(expr)
