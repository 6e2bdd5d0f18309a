"""Symbolic sizes as text that a program without the compiler can compute: see `heddle.runtime.size_text`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heddle.prim.nodes import (
    Add,
    BinaryExpr,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
)

_INFIX: dict[type[BinaryExpr], str] = {Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%"}
_CALLED: dict[type[BinaryExpr], str] = {Min: "min", Max: "max"}
_LOOSE = (Add, Sub)


def size_text(expr: PrimExpr, names: Mapping[Var, str] | Callable[[Var], str | None]) -> str | None:
    """`n * 16 + 4`; None where the expression uses anything but integer arithmetic over named sizes."""
    name_of = names.get if isinstance(names, Mapping) else names
    if isinstance(expr, Var):
        return name_of(expr)
    if isinstance(expr, IntImm):
        return str(expr.value)
    if isinstance(expr, Cast) and expr.dtype.is_int and expr.value.dtype.is_int:
        return size_text(expr.value, names)
    if not isinstance(expr, BinaryExpr) or not expr.dtype.is_int:
        return None
    left, right = size_text(expr.a, names), size_text(expr.b, names)
    if left is None or right is None:
        return None
    if type(expr) in _CALLED:
        return f"{_CALLED[type(expr)]}({left}, {right})"
    sign = _INFIX.get(type(expr))
    if sign is None:
        return None
    if not isinstance(expr, _LOOSE):
        left = f"({left})" if isinstance(expr.a, _LOOSE) else left
    if (
        isinstance(expr.b, BinaryExpr)
        and type(expr.b) in _INFIX
        and not (isinstance(expr, Add) or (isinstance(expr, Sub) and not isinstance(expr.b, _LOOSE)))
    ):
        right = f"({right})"
    return f"{left} {sign} {right}"
