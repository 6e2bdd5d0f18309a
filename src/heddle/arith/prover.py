"""Proofs that a linear form is never negative: constant bounds, then symbolic bounds, constraints and
atoms' own laws.

    0 <= i < m, 0 <= j < n:   m*n - i*n - j - 1
        >= m*n - i*n - n      (j <= n - 1, its coefficient is negative)
        >= m*n - (m-1)*n - n  (i <= m - 1, its coefficient -n is not positive)
        =  0
Each step replaces an expression by a bound of it, point by point, so a success is a proof; a failure
says nothing. What is negative at a point is not searched for, and a search ends after so much work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heddle.arith.const_int_bound import bound_of, form_bound
from heddle.arith.counterexample import is_refuted
from heddle.arith.facts import LIMIT, Knowledge
from heddle.arith.linear import LinearForm, Mono
from heddle.prim.nodes import FloorDiv, FloorMod, IntImm, Max, Min, Var

DEFAULT_DEPTH = 5
MAX_TERMS = 24
MAX_WORK = 320
"""How many terms of forms one proof looks at. In the networks of `benchmarks/zoo` a proof that is found takes
128 at most; a search that fails would look at thousands."""


def is_nonneg(know: Knowledge, form: LinearForm, depth: int = DEFAULT_DEPTH) -> bool:
    """Whether `form >= 0` could be proved for all values of its variables."""
    if not form.terms:
        return form.const >= 0
    if form_bound(know, form)[0] >= 0:
        return True
    if depth <= 0 or len(form.terms) > MAX_TERMS or is_refuted(know, form):
        return False
    found = know.caches.proofs.get((form.const, form.signature(), depth))
    if found is not None:
        return found
    if know.work_left is not None:
        return _step(know, form, depth)
    know.work_left = MAX_WORK
    try:
        return _step(know, form, depth)
    finally:
        know.work_left = None


def _step(know: Knowledge, form: LinearForm, depth: int) -> bool:
    """One search of a proof; what is cut short by that is not remembered."""
    assert know.work_left is not None
    know.work_left -= len(form.terms)
    if know.work_left < 0:
        return False
    proofs, key = know.caches.proofs, (form.const, form.signature(), depth)
    proofs[key] = False
    found = _search(know, form, depth)
    if found:
        proofs[key] = True
    elif know.work_left < 0:
        proofs.pop(key, None)
    return found


def is_below(know: Knowledge, a: LinearForm, b: LinearForm, depth: int = DEFAULT_DEPTH) -> bool:
    """Whether a < b could be proved."""
    return is_nonneg(know, b.plus(a, -1).plus_const(-1), depth)


def _search(know: Knowledge, form: LinearForm, depth: int) -> bool:
    flat = know.terms.flat(form)
    if flat is not form:
        return is_nonneg(know, flat, depth)
    if form_bound(know, form)[1] < 0:
        return False
    return any(is_nonneg(know, weaker, depth - 1) for weaker in _weaker_forms(know, form, depth))


def _weaker_forms(know: Knowledge, form: LinearForm, depth: int) -> Iterator[LinearForm]:
    """Forms whose being non-negative implies it of `form`, the most promising first."""
    quotient = _common_factor(know, form)
    if quotient is not None:
        yield quotient
    for atom in _variables(know, form):
        for low, high in _symbolic_bounds(know, atom):
            yield from _eliminate(know, form, atom, low, high, depth)
    yield from _use_constraints(know, form)
    for atom in _compound_atoms(form):
        for low, high in _atom_bounds(know, atom):
            yield from _eliminate(know, form, atom, low, high, depth)
    yield from _use_divisions(know, form)


def _common_factor(know: Knowledge, form: LinearForm) -> LinearForm | None:
    """f * g >= 0 if f >= 0 and g >= 0."""
    if form.const:
        return None
    terms = list(form.terms.values())
    for factor in terms[0][1]:
        bound = bound_of(know, factor)
        if bound[0] < 0 and bound[1] > 0:
            continue
        if all(factor in factors for _, factors in terms[1:]):
            sign = 1 if bound[0] >= 0 else -1
            made = LinearForm(form.dtype)
            for coef, factors in terms:
                _add_product(know, made, sign * coef, _drop(factors, factor))
            return made
    return None


def _drop(factors: tuple[Any, ...], factor: Any) -> tuple[Any, ...]:
    index = next(i for i, item in enumerate(factors) if item is factor)
    return factors[:index] + factors[index + 1 :]


def _add_product(know: Knowledge, into: LinearForm, coef: int, factors: tuple[Any, ...]) -> None:
    if factors:
        into.add_term(know.terms.mono(factors), coef, factors)
    else:
        into.const += coef


def _variables(know: Knowledge, form: LinearForm) -> list[Any]:
    """The atoms with symbolic bounds, later bound ones first, then variables in products with constant
    bounds."""
    present: dict[int, Any] = {}
    in_products: dict[int, Any] = {}
    for _, factors in form.terms.values():
        for factor in factors:
            present[id(factor)] = factor
            if len(factors) > 1 and type(factor) is Var:
                in_products[id(factor)] = factor
    ordered = [present[key] for key in reversed(know.facts.ranges) if key in present]
    return ordered + [factor for key, factor in in_products.items() if key not in know.facts.ranges]


def _symbolic_bounds(know: Knowledge, atom: Any) -> Iterator[tuple[LinearForm | None, LinearForm | None]]:
    entry = know.facts.ranges.get(id(atom))
    if entry is not None:
        yield entry[1], entry[2]
    low, high = bound_of(know, atom)
    if low >= -LIMIT or high <= LIMIT:
        yield (
            LinearForm(atom.dtype, low) if low >= -LIMIT else None,
            LinearForm(atom.dtype, high) if high <= LIMIT else None,
        )


def _eliminate(
    know: Knowledge, form: LinearForm, atom: Any, low: LinearForm | None, high: LinearForm | None, depth: int
) -> Iterator[LinearForm]:
    """A*x + B >= A*low + B if A >= 0, and >= A*high + B if A <= 0. Powers of x stay in A; that is
    sound, pointwise."""
    slope, rest = LinearForm(form.dtype), LinearForm(form.dtype, form.const)
    for key, (coef, factors) in form.terms.items():
        if any(factor is atom for factor in factors):
            _add_product(know, slope, coef, _drop(factors, atom))
        else:
            rest.add_term(key, coef, factors)
    if low is not None and is_nonneg(know, slope, depth - 2):
        yield rest.plus(know.terms.expanded(slope, low))
    elif high is not None and is_nonneg(know, slope.scaled(-1), depth - 2):
        yield rest.plus(know.terms.expanded(slope, high))


def _use_constraints(know: Knowledge, form: LinearForm) -> Iterator[LinearForm]:
    """form = k * fact + rest with fact >= 0 and k > 0, for each term that the two share with the same
    sign."""
    for fact in know.facts.linear:
        scale = _shared_scale(form, fact)
        if scale is not None:
            up, down = scale
            yield form.scaled(down).plus(fact, -up)


def _shared_scale(form: LinearForm, fact: LinearForm) -> tuple[int, int] | None:
    for key, (coef, _) in fact.terms.items():
        mine = form.terms.get(key)
        if mine is not None and (mine[0] > 0) == (coef > 0):
            return (abs(mine[0]), abs(coef)) if mine[0] % coef else (mine[0] // coef, 1)
    return None


def _compound_atoms(form: LinearForm) -> list[Any]:
    found: dict[int, Any] = {}
    for _, factors in form.terms.values():
        for factor in factors:
            if isinstance(factor, (Min, Max, FloorMod)):
                found[id(factor)] = factor
    return list(found.values())


def _atom_bounds(know: Knowledge, atom: Any) -> Iterator[tuple[LinearForm | None, LinearForm | None]]:
    """min(a, b) <= a, min(a, b) <= b;  max the other way;  x % n <= n - 1 for n > 0, and <= x for x >= 0."""
    if isinstance(atom, FloorMod):
        x, n = know.terms.form(atom.a), know.terms.form(atom.b)
        zero = LinearForm(atom.dtype)
        if bound_of(know, atom.b)[0] >= 0:
            yield zero, n.plus_const(-1)
            if bound_of(know, atom.a)[0] >= 0:
                yield zero, x
        return
    for side in (atom.a, atom.b):
        form = know.terms.form(side)
        yield (form, None) if isinstance(atom, Max) else (None, form)


def _use_divisions(know: Knowledge, form: LinearForm) -> Iterator[LinearForm]:
    """For q = x // c with c > 0: c*q <= x and c*q >= x - c + 1. With a slope A, c*form is bounded; a symbolic
    c needs a term with the factor c beside q."""
    for key, (coef, factors) in form.terms.items():
        for factor in factors:
            if not isinstance(factor, FloorDiv):
                continue
            x, c = know.terms.form(factor.a), know.terms.form(factor.b)
            bound = x if coef < 0 else x.plus(c, -1).plus_const(1)
            others = _drop(factors, factor)
            if isinstance(factor.b, IntImm) and factor.b.value > 0:
                rest = _without(form, key).scaled(factor.b.value)
            elif any(other is factor.b for other in others) and bound_of(know, factor.b)[0] >= 0:
                rest, others = _without(form, key), _drop(others, factor.b)
            else:
                continue
            if all(bound_of(know, other)[0] >= 0 for other in others):
                slope = LinearForm(form.dtype)
                _add_product(know, slope, coef, others)
                yield rest.plus(know.terms.expanded(slope, bound))


def _without(form: LinearForm, key: Mono) -> LinearForm:
    return LinearForm(form.dtype, form.const, {k: term for k, term in form.terms.items() if k != key})
