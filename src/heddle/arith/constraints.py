"""Turning a condition that holds into facts: bounds of atoms and sums, linear inequalities, residues,
truths."""

from __future__ import annotations

from typing import Any

from heddle.arith.const_int_bound import bound_of, product_bound
from heddle.arith.facts import INF, LIMIT, Bound, Knowledge, clamp, intersect
from heddle.arith.linear import LinearForm
from heddle.arith.modular_set import residue
from heddle.arith.terms import is_index_dtype
from heddle.prim.nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    BinaryExpr,
    Call,
    FloorMod,
    IntImm,
    Not,
    Or,
)

_NEGATION: dict[type, type] = {LT: GE, GE: LT, LE: GT, GT: LE, EQ: NE, NE: EQ}


def assume(know: Knowledge, condition: Any, holds: bool = True) -> None:
    """Add to the facts that a stored, simplified condition holds (or does not), and drop the caches."""
    know.forget()
    if isinstance(condition, IntImm):
        return
    if isinstance(condition, Call) and condition.op.name == "tir.likely":
        assume(know, condition.args[0], holds)
        return
    know.facts.truths[know.terms.key(condition)] = holds
    if isinstance(condition, Not):
        assume(know, condition.a, not holds)
    elif isinstance(condition, (And, Or)):
        if isinstance(condition, And) is holds:
            assume(know, condition.a, holds)
            assume(know, condition.b, holds)
    elif isinstance(condition, BinaryExpr) and condition.a.dtype.lanes == 1:
        cls = type(condition)
        if is_index_dtype(condition.a.dtype):
            _assume_comparison(know, cls if holds else _NEGATION[cls], condition.a, condition.b)


def _assume_comparison(know: Knowledge, cls: type, a: Any, b: Any) -> None:
    """Record what the comparison says, and what its negation being false says."""
    form_a, form_b = know.terms.form(a), know.terms.form(b)
    difference = form_a.plus(form_b, -1)
    if cls in (GT, GE):
        difference = difference.scaled(-1)
    if cls in (LT, GT):
        add_nonneg(know, difference.scaled(-1).plus_const(-1))
    elif cls in (LE, GE):
        add_nonneg(know, difference.scaled(-1))
    elif cls is EQ:
        add_nonneg(know, difference)
        add_nonneg(know, difference.scaled(-1))
        _assume_residue(know, a, b)
    else:
        _assume_unequal(know, difference)


def _assume_residue(know: Knowledge, a: Any, b: Any) -> None:
    if isinstance(a, FloorMod) and isinstance(a.b, IntImm) and isinstance(b, IntImm) and a.b.value > 0:
        know.facts.moduli[know.terms.key(a.a)] = residue(a.b.value, b.value)


def _assume_unequal(know: Knowledge, difference: LinearForm) -> None:
    """x != c shrinks a bound of x that ends at c."""
    if len(difference.terms) != 1:
        return
    ((coef, factors),) = difference.terms.values()
    if len(factors) != 1 or difference.const % coef:
        return
    value = -difference.const // coef
    low, high = bound_of(know, factors[0])
    if value == low:
        _meet_atom(know, factors[0], (low + 1, INF))
    if value == high:
        _meet_atom(know, factors[0], (-INF, high - 1))


def add_nonneg(know: Knowledge, form: LinearForm) -> None:
    """Record form >= 0."""
    content = form.coef_gcd()
    if not content:
        return
    form = form.divided(content)
    know.facts.linear.append(form)
    signature = form.signature()
    known = know.facts.sums.get(signature, (-INF, INF))
    know.facts.sums[signature] = intersect(known, (-form.const, INF))
    _bound_atoms(know, form)
    know.forget()


def _bound_atoms(know: Knowledge, form: LinearForm) -> None:
    """From c*x + rest >= 0: c*x >= -(the greatest value of rest), where that is finite."""
    bounds = {}
    for key, (coef, factors) in form.terms.items():
        low, high = product_bound(know, factors)
        bounds[key] = coef * high if coef > 0 else coef * low
    top = sum(bounds.values()) + form.const
    for key, (coef, factors) in form.terms.items():
        rest = top - bounds[key]
        if len(factors) == 1 and abs(rest) <= LIMIT:
            _meet_atom(know, factors[0], (-(rest // coef), INF) if coef > 0 else (-INF, rest // -coef))


def _meet_atom(know: Knowledge, atom: Any, bound: Bound) -> None:
    key = know.terms.key(atom)
    known = know.facts.bounds.get(key, (-INF, INF))
    know.facts.bounds[key] = clamp(*intersect(known, bound))
    know.forget()
