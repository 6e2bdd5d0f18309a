"""Checks in front of what a program computes from sizes at run time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heddle.ir.node import children
from heddle.ir.visitor import post_order, walk_distinct
from heddle.prim.nodes import (
    Call,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    PrimExpr,
    Select,
    Var,
)
from heddle.prim.ops import all as all_of
from heddle.prim.ops import any as any_of
from heddle.prim.ops import cast, less, logical_not, not_equal
from heddle.prim.substitute import free_vars, substitute
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import AssertStmt, Stmt

_BEYOND = FloatImm(DataType("float64"), 2.0**63 - 2**13)
"""Products of float64 below it are below 2**63 without their rounding too."""


def divisors_are_not_zero(expr: PrimExpr, loads: Mapping[Var, PrimExpr]) -> list[Stmt]:
    """Checks in front of an expression that divides by sizes, which are read as `loads` says. What is divided
    in a branch that is not taken is divided all the same."""
    divisors = [
        node.b
        for node in walk_distinct(expr)
        if isinstance(node, (FloorDiv, FloorMod, Div, Mod)) and not isinstance(node.b, IntImm)
    ]
    return [
        AssertStmt(
            not_equal(substitute(divisor, loads), 0),
            f"the size {expr} divides by {divisor}, which is 0",
            "ValueError",
        )
        for divisor in reversed(divisors)  # inner ones first
    ]


def products_fit(expr: PrimExpr, loads: Mapping[Var, PrimExpr]) -> list[Stmt]:
    """Checks in front of an expression that multiplies sizes: a product that wraps could look like a size. It
    may wrap in a branch that is not taken."""
    found: list[Stmt] = []
    for node, needed in _conditions(expr):
        if isinstance(node, Mul) and node.dtype == "int64" and free_vars(node):
            product = substitute(cast("float64", node.a) * cast("float64", node.b), loads)
            fits = all_of(less(product, _BEYOND), less(-_BEYOND, product))
            if needed is not None:
                fits = any_of(logical_not(substitute(needed, loads)), fits)
            found.append(AssertStmt(fits, f"the size {expr} is more than 64 bits hold", "ValueError"))
    return found[::-1]  # inner ones first


def _conditions(expr: PrimExpr) -> Iterator[tuple[Any, PrimExpr | None]]:
    """The distinct nodes at or below, users before what they use, and when a node's value is used; None:
    always."""
    uses: dict[int, list[PrimExpr] | None] = {id(expr): None}
    for node in reversed(post_order(expr, children)):
        known = uses.get(id(node))
        here = None if known is None else any_of(*known)
        yield node, here
        for below, choice in _below(node):
            when = [condition for condition in (here, choice) if condition is not None]
            others = uses.get(id(below), [])
            uses[id(below)] = None if not when or others is None else [*others, all_of(*when)]


def _below(node: Any) -> list[tuple[Any, PrimExpr | None]]:
    """The nodes directly below, and what chooses each; None where nothing does."""
    is_lazy = isinstance(node, Call) and node.op.name == "tir.if_then_else"
    if not is_lazy and not isinstance(node, Select):
        return [(child, None) for child in children(node)]
    condition, chosen, other = node.args if is_lazy else (node.condition, node.true_value, node.false_value)
    return [(condition, None), (chosen, condition), (other, logical_not(condition))]
