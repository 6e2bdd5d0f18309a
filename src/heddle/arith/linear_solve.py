"""Linear shape of expressions, and solving an inequality for a variable.

detect_linear_equation(a*4 + b + 3, [a, b]) = [4, 1, 3]       detect_clip_bound(a >= 2 and a < 9, [a]) =
[2, 8] deduce_bound(a, a*4 + b <= 20, {b: [0, 3]}, {a: ...}) = a in (-inf, 4]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heddle.arith.analyzer import Analyzer
from heddle.arith.int_set import IntervalSet, IntSet
from heddle.arith.linear import LinearForm
from heddle.arith.set_ops import eval_set
from heddle.arith.terms import TermTable, is_index_dtype
from heddle.prim.nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    BinaryExpr,
    Call,
    IntImm,
    PrimExpr,
    Var,
    as_expr,
    constant,
)
from heddle.prim.ops import conjuncts, floordiv, maximum, minimum, multiply, negative, subtract


def detect_linear_equation(expr: Any, variables: Sequence[Var]) -> list[PrimExpr]:
    """Coefficients of the variables and the rest; empty where the expression is not linear in them."""
    terms = TermTable()
    node = terms.intern(as_expr(expr))
    if not is_index_dtype(node.dtype):
        return []
    form = terms.flat(terms.form(node))
    result: list[PrimExpr] = []
    for var in variables:
        split = _slope(terms, form, var)
        if split is None:
            return []
        slope, form = split
        if any(id(other) in terms.variables(terms.build(slope)) for other in variables):
            return []
        result.append(terms.build(slope))
    result.append(terms.build(form))
    return result


def _slope(terms: TermTable, form: LinearForm, var: Var) -> tuple[LinearForm, LinearForm] | None:
    """form = slope * var + rest with neither using var; None where there is no such form."""
    slope, rest = LinearForm(form.dtype), LinearForm(form.dtype, form.const)
    for key, (coef, factors) in form.terms.items():
        others = tuple(factor for factor in factors if factor is not var)
        if any(id(var) in terms.variables(factor) for factor in others) or len(factors) - len(others) > 1:
            return None
        if len(others) == len(factors):
            rest.add_term(key, coef, factors)
        elif others:
            slope.add_term(terms.mono(others), coef, others)
        else:
            slope.const += coef
    return slope, rest


def detect_clip_bound(condition: Any, variables: Sequence[Var]) -> list[PrimExpr | None]:
    """For each variable the least and greatest value that a conjunction allows, None for no end; empty
    where some condition is not linear in the variables with coefficient 1 or -1."""
    known = Analyzer()
    bounds: dict[Var, list[PrimExpr | None]] = {var: [None, None] for var in variables}
    for part in _conjuncts(as_expr(condition)):
        clip = _clip_of(known, part, variables)
        if clip is None:
            return []
        var, is_lower, value = clip
        slot = 0 if is_lower else 1
        old = bounds[var][slot]
        if old is not None:
            value = maximum(old, value) if is_lower else minimum(old, value)
        bounds[var][slot] = known.simplify(value)
    return [end for var in variables for end in bounds[var]]


def _conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """As `conjuncts`, through hints that a condition is likely."""
    found: list[PrimExpr] = []
    for part in conjuncts(condition):
        is_hint = isinstance(part, Call) and part.op.name == "tir.likely"
        found += _conjuncts(part.args[0]) if is_hint else [part]  # type: ignore[attr-defined]
    return found


def _gap(condition: PrimExpr) -> PrimExpr | None:
    """An expression that is at least zero exactly where an inequality holds."""
    if not isinstance(condition, BinaryExpr) or not is_index_dtype(condition.a.dtype):
        return None
    a, b = condition.a, condition.b
    if isinstance(condition, (LT, LE)):
        a, b = b, a
    elif not isinstance(condition, (GT, GE)):
        return None
    return subtract(subtract(a, b), 1 if isinstance(condition, (LT, GT)) else 0)


def _clip_of(
    known: Analyzer, condition: PrimExpr, variables: Sequence[Var]
) -> tuple[Var, bool, PrimExpr] | None:
    gap = _gap(condition)
    if gap is None:
        return None
    linear = detect_linear_equation(known.simplify(gap), variables)
    used = [
        index for index, coef in enumerate(linear[:-1]) if not (isinstance(coef, IntImm) and coef.value == 0)
    ]
    if len(used) != 1:
        return None
    coef, rest = linear[used[0]], linear[-1]
    if not isinstance(coef, IntImm) or abs(coef.value) != 1:
        return None
    return variables[used[0]], coef.value > 0, negative(rest) if coef.value > 0 else rest


def deduce_bound(
    var: Var, condition: Any, hint_map: Mapping[Var, Any], relax_map: Mapping[Var, Any]
) -> IntSet:
    """The values of `var` for which the condition holds for every value of the relaxed variables.

    `hint_map` says where variables lie, to find signs. Everything where nothing could be deduced,
    nothing where the condition cannot hold.
    """
    known = Analyzer()
    for other, dom in {**hint_map, **relax_map}.items():
        _hint(known, other, dom)
    simplified = known.simplify(as_expr(condition))
    if isinstance(condition, EQ) and isinstance(simplified, EQ):
        gap = subtract(simplified.a, simplified.b)
        lower, upper = (_deduce(known, var, side, relax_map) for side in (gap, negative(gap)))
        ends = [lower, upper]
    else:
        if isinstance(simplified, IntImm):
            return IntSet.everything() if simplified.value else IntSet.nothing()
        inequality = _gap(simplified)
        if inequality is None:
            return IntSet.everything()
        ends = [_deduce(known, var, inequality, relax_map)]
    low = next((value for is_low, value in ends if is_low is True), None)
    high = next((value for is_low, value in ends if is_low is False), None)
    if low is not None and high is not None and known.can_prove(high < low):
        return IntSet.nothing()
    return IntervalSet(
        float("-inf") if low is None else low,  # type: ignore[arg-type]
        float("inf") if high is None else high,  # type: ignore[arg-type]
    )


def _hint(known: Analyzer, var: Var, dom: Any) -> None:
    interval = dom if isinstance(dom, IntervalSet) else IntSet.from_range(dom)
    for end, is_low in ((interval.min_value, True), (interval.max_value, False)):
        if not end.dtype.is_handle:
            known.assume(var >= end if is_low else var <= end)


def _deduce(
    known: Analyzer, var: Var, gap: PrimExpr, relax_map: Mapping[Var, Any]
) -> tuple[bool | None, PrimExpr | None]:
    """Solve coef * var + rest >= 0, whatever the relaxed variables are: (is it a lower bound, the bound)."""
    linear = detect_linear_equation(known.simplify(gap), [var])
    if not linear:
        return None, None
    coef, rest = linear
    least = eval_set(rest, relax_map, known).min_value if relax_map else rest
    if least.dtype.is_handle:
        return None, None
    if known.can_prove(coef > 0):
        rounded = floordiv(least, coef)
        return True, known.simplify(multiply(rounded, constant(-1, rounded.dtype)))
    if known.can_prove(coef < 0):
        return False, known.simplify(floordiv(least, negative(coef)))
    return None, None
