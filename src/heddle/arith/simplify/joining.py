"""Simplifying a gathered linear form: quotients and remainders are joined, products multiplied out
where terms cancel.

x // 4 * 4 + x % 4  →  x                  x % 4 + x // 4 % 2 * 4  →  x % 8
x - x // 4 * 4      →  x % 4              (m + 1) * n - m * n     →  n
(m + x // n) * n + x % n  →  m * n + x
x + 1 - (x + 1) % 4       →  (x + 1) // 4 * 4
x // 2 - x // 4 * 2       →  x // 2 % 2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heddle.arith.const_int_bound import bound_of
from heddle.arith.facts import Knowledge
from heddle.arith.linear import LinearForm
from heddle.arith.simplify.division import floordiv_form, floormod_form
from heddle.arith.terms import has_sum_factor
from heddle.prim.nodes import FloorDiv, FloorMod, IntImm


def finish_form(know: Knowledge, form: LinearForm) -> LinearForm:
    """The form with everything joined; its atoms are simplified already."""
    if len(form.terms) < 2:
        return form
    if has_sum_factor(form):
        flat = know.terms.flat(form)
        if know.terms.num_leaves(flat) < know.terms.num_leaves(form):
            form = flat
        elif _has_free_remainder(form):
            joined = _joined(know, flat)
            if joined is not flat:  # even where it is longer: a division costs more than products
                return joined
    return _joined(know, form)


def _has_free_remainder(form: LinearForm) -> bool:
    """Whether a term is a remainder by a size: its quotient may stand inside a product."""
    return any(
        type(factor) is FloorMod and not isinstance(factor.b, IntImm)
        for _, factors in form.terms.values()
        for factor in factors
    )


def _joined(know: Knowledge, form: LinearForm) -> LinearForm:
    joined = _join_once(know, form)
    while joined is not None:
        form, joined = joined, _join_once(know, joined)
    return form


def _join_once(know: Knowledge, form: LinearForm) -> LinearForm | None:
    for coef, factors in form.terms.values():
        for index, factor in enumerate(factors):
            cls = type(factor)
            if cls is not FloorMod and cls is not FloorDiv:
                continue
            rest = factors[:index] + factors[index + 1 :]
            scale = LinearForm(form.dtype, coef)
            if rest:
                scale = LinearForm(form.dtype, 0, {know.terms.mono(rest): (coef, rest)})
            if cls is FloorMod:
                rules = (_join_mod, _join_mods, _join_whole)
                joined = next((made for rule in rules if (made := rule(know, form, scale, factor))), None)
            else:
                joined = _join_div(know, form, scale, factor)
            if joined is not None:
                return joined
    return None


def _join_mod(know: Knowledge, form: LinearForm, scale: LinearForm, mod: Any) -> LinearForm | None:
    """s*(x % k) + s*k*(x // k) = s*x, where k may be a sum that is multiplied out."""
    terms = know.terms
    x, k = terms.form(mod.a), terms.form(mod.b)
    is_sum = len(k.terms) > 1 or (len(k.terms) == 1 and k.const != 0)
    for quotient in _quotients(know, mod, x, k):
        if len(quotient.terms) != 1:
            continue
        product = terms.expanded(quotient, k) if is_sum else terms.product(quotient, k)
        needed = terms.expanded(product, scale) if is_sum else terms.product(product, scale)
        if _contains(form, needed):
            joined = form.plus(needed, -1)
            joined.add_form(terms.product(terms.atom(mod), scale), -1)
            joined.add_form(_scaled(know, x, scale))
            return joined
    return None


def _quotients(know: Knowledge, mod: Any, x: LinearForm, k: LinearForm) -> Iterator[LinearForm]:
    """x // k, which is y // (n * k) too where x is y // n for a size n."""
    yield floordiv_form(know, x, k)
    y = mod.a
    if isinstance(y, FloorDiv) and bound_of(know, y.b)[0] >= 0 and bound_of(know, mod.b)[0] >= 0:
        yield floordiv_form(know, know.terms.form(y.a), know.terms.product(know.terms.form(y.b), k))


def _join_mods(know: Knowledge, form: LinearForm, scale: LinearForm, mod: Any) -> LinearForm | None:
    """s*(x % a) + s*a*(x // a % b) = s*(x % (a*b)) for constants a, b."""
    if not isinstance(mod.b, IntImm) or scale.terms or mod.b.value <= 0:
        return None
    terms, size = know.terms, mod.b.value
    quotient = None
    for key, (coef, factors) in form.terms.items():
        other = factors[0]
        if len(factors) != 1 or coef != scale.const * size or not isinstance(other, FloorMod):
            continue
        if not isinstance(other.b, IntImm) or other.b.value <= 0:
            continue
        if quotient is None:
            quotient = floordiv_form(know, terms.form(mod.a), LinearForm(form.dtype, size))
        if not quotient.same(terms.form(other.a)):
            continue
        wide = terms.make(FloorMod, mod.a, terms.const(form.dtype, size * other.b.value))
        joined = form.copy()
        joined.add_term(key, -coef, factors)
        joined.add_form(terms.atom(mod), -scale.const)
        joined.add_form(terms.atom(wide), scale.const)
        return joined
    return None


def _join_whole(know: Knowledge, form: LinearForm, scale: LinearForm, mod: Any) -> LinearForm | None:
    """s*x - s*(x % k) = s*k*(x // k) for a constant k; the constant of x need not be there. `scale` is the
    factor of x % k, -s."""
    if not isinstance(mod.b, IntImm) or mod.b.value <= 0:
        return None
    terms, size = know.terms, mod.b.value
    x = terms.form(mod.a)
    needed = _scaled(know, x, scale.scaled(-1))
    if not needed.terms or not _contains(form, needed):
        return None
    joined = form.plus(needed, -1)
    joined.add_form(terms.product(terms.atom(mod), scale), -1)
    whole = floordiv_form(know, x, LinearForm(form.dtype, size)).scaled(size)
    joined.add_form(_scaled(know, whole, scale.scaled(-1)))
    return joined


def _join_div(know: Knowledge, form: LinearForm, scale: LinearForm, div: Any) -> LinearForm | None:
    """s*x - s*k*(x // k) = s*(x % k); the constant of x need not be there. `scale` is the factor of x
    // k, -s*k."""
    terms = know.terms
    for x, k in _dividends(know, form, scale, div):
        outer = _exact_quotient(know, scale.scaled(-1), k)
        if outer is None:
            continue
        needed = _scaled(know, x, outer)
        if not needed.terms or not _contains(form, needed):
            continue
        joined = form.plus(needed, -1)
        joined.add_form(terms.product(terms.atom(div), scale), -1)
        joined.add_form(_scaled(know, floormod_form(know, x, k), outer))
        return joined
    return None


def _dividends(
    know: Knowledge, form: LinearForm, scale: LinearForm, div: Any
) -> Iterator[tuple[LinearForm, LinearForm]]:
    """x and k with x // k the quotient: its own, and those of a quotient in the form with the factor -scale /
    k: y // (a*b) is (z // a + c) // b where y = z + a*c."""
    terms = know.terms
    y, size = terms.form(div.a), terms.form(div.b)
    yield y, size
    if size.terms or scale.terms:
        return
    for coef, factors in form.terms.values():
        inner = factors[0]
        if len(factors) != 1 or not isinstance(inner, FloorDiv) or not isinstance(inner.b, IntImm):
            continue
        part = inner.b.value
        if not 1 < part < size.const or size.const % part or coef * (size.const // part) != -scale.const:
            continue
        apart = y.plus(terms.form(inner.a), -1)
        if not apart.terms and apart.const % part == 0:
            x = terms.atom(inner).plus_const(apart.const // part)
            yield x, LinearForm(form.dtype, size.const // part)


def _exact_quotient(know: Knowledge, a: LinearForm, b: LinearForm) -> LinearForm | None:
    """a / b for a single term a and a constant or single factor b, where it divides."""
    if not b.terms:
        if b.const <= 0 or a.const % b.const or any(coef % b.const for coef, _ in a.terms.values()):
            return None
        return a.divided(b.const)
    divisor = b.single()
    if divisor is None or a.const:
        return None
    ((coef, factors),) = a.terms.values()
    left = [factor for factor in factors if factor is not divisor]
    if len(left) != len(factors) - 1:
        return None
    if not left:
        return LinearForm(a.dtype, coef)
    kept = tuple(left)
    return LinearForm(a.dtype, 0, {know.terms.mono(kept): (coef, kept)})


def _scaled(know: Knowledge, x: LinearForm, scale: LinearForm) -> LinearForm:
    return x.scaled(scale.const) if not scale.terms else know.terms.expanded(x, scale)


def _contains(form: LinearForm, part: LinearForm) -> bool:
    """Whether all terms of `part` occur in `form` with their coefficients."""
    for key, (coef, _) in part.terms.items():
        found = form.terms.get(key)
        if found is None or found[0] != coef:
            return False
    return True
