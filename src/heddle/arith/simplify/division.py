"""Floor division and remainder of linear forms.

    (8*x + y) // 8 = x + y // 8        (8*x + y) % 8 = y % 8        (4*x + 2) // 6 = (2*x + 1) // 3
    (8*x + y) // 16 = x // 2           (8*x + y) % 16 = x % 2 * 8 + y            if 0 <= y < 8
    (x // a) // b = x // (a*b)         (x % a) // b = (x // b) % (a / b)         (x % a) % b = x % b  if
    b divides a (m*n + y) // n = m                 (m*n + y) % n = y                         if 0 <= y < n
Both functions keep the same residue of the dividend, so that x // c * c + x % c joins to x again.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from heddle.arith.const_int_bound import form_bound
from heddle.arith.facts import LIMIT, Knowledge
from heddle.arith.linear import LinearForm, Term
from heddle.arith.prover import is_nonneg
from heddle.prim.nodes import FloorDiv, FloorMod, IntImm
from heddle.prim.values import int_range

PROOF_DEPTH = 3


def floordiv_form(know: Knowledge, a: LinearForm, b: LinearForm) -> LinearForm:
    """a // b. The divisor is taken not to be zero; a constant zero divisor is left as written."""
    if b.terms:
        return _symbolic(know, a, b)[0]
    if b.const == 0 or _cannot_be_turned(a, b):
        return _atom(know, FloorDiv, a, b)
    return _div_const(know, a, b.const) if b.const > 0 else _div_const(know, a.scaled(-1), -b.const)


def floormod_form(know: Knowledge, a: LinearForm, b: LinearForm) -> LinearForm:
    """a % b, with the divisor's sign."""
    if b.terms:
        return _symbolic(know, a, b)[1]
    if b.const == 0 or _cannot_be_turned(a, b):
        return _atom(know, FloorMod, a, b)
    return (
        _mod_const(know, a, b.const) if b.const > 0 else _mod_const(know, a.scaled(-1), -b.const).scaled(-1)
    )


def _cannot_be_turned(a: LinearForm, b: LinearForm) -> bool:
    """Whether a negative divisor has to stay: -a // -b could overflow where a // b does not, or -b does."""
    half = int_range(a.dtype)[1] // 2
    return b.const < 0 and max(abs(a.const), -b.const) > half


def _atom(know: Knowledge, cls: Any, a: LinearForm, b: LinearForm) -> LinearForm:
    terms = know.terms
    return terms.atom(terms.make(cls, terms.build(a), terms.build(b)))


def _divide(form: LinearForm, c: int) -> tuple[LinearForm, LinearForm]:
    """form = c * quotient + rest, |coefficients of rest| < c with their old sign, 0 <= its constant < c."""
    quotient = LinearForm(form.dtype, form.const // c)
    rest = LinearForm(form.dtype, form.const % c)
    for key, (coef, factors) in form.terms.items():
        whole = abs(coef) // c * (1 if coef > 0 else -1)
        if whole:
            quotient.terms[key] = (whole, factors)
        if coef - whole * c:
            rest.terms[key] = (coef - whole * c, factors)
    return quotient, rest


def _constant_quotient(know: Knowledge, rest: LinearForm, c: int) -> int | None:
    """rest // c where bounds say that it is one number."""
    low, high = form_bound(know, rest)
    if low < -LIMIT or high > LIMIT or low // c != high // c:
        return None
    return low // c


def _low_part(know: Knowledge, rest: LinearForm, c: int) -> tuple[int, LinearForm, LinearForm] | None:
    """d, high, low with rest = d * high + low, d a divisor of c above 1, and 0 <= low < d; the largest
    such d."""
    candidates = sorted({gcd(c, coef) for coef, _ in rest.terms.values()} - {1}, reverse=True)
    for d in candidates:
        high, low = LinearForm(rest.dtype, rest.const // d), LinearForm(rest.dtype, rest.const % d)
        for key, (coef, factors) in rest.terms.items():
            if coef % d:
                low.terms[key] = (coef, factors)
            else:
                high.terms[key] = (coef // d, factors)
        if _constant_quotient(know, low, d) == 0:
            return d, high, low
    return None


def _div_const(know: Knowledge, a: LinearForm, c: int) -> LinearForm:
    quotient, rest = _divide(a, c)
    if rest.is_zero:
        return quotient
    known = _constant_quotient(know, rest, c)
    if known is not None:
        return quotient.plus_const(known)
    split = _low_part(know, rest, c)
    if split is not None:
        return quotient.plus(_div_const(know, split[1], c // split[0]))
    nested = _nested_division(know, rest)
    if nested is not None:
        inner, divisor = nested
        return quotient.plus(_div_const(know, inner, divisor * c))
    atom = rest.single()
    if (
        isinstance(atom, FloorMod)
        and isinstance(atom.b, IntImm)
        and atom.b.value > c
        and atom.b.value % c == 0
    ):
        inner = _div_const(know, know.terms.form(atom.a), c)
        return quotient.plus(_mod_const(know, inner, atom.b.value // c))
    return quotient.plus(_atom(know, FloorDiv, rest, LinearForm(a.dtype, c)))


def _nested_division(know: Knowledge, rest: LinearForm) -> tuple[LinearForm, int] | None:
    """y, a where rest = y' // a + k for a constant a > 0, and y = y' + a*k: (y' // a + k) // c = (y' +
    a*k) // (a*c)."""
    if len(rest.terms) != 1:
        return None
    ((coef, factors),) = rest.terms.values()
    atom = factors[0]
    if coef != 1 or len(factors) != 1 or not isinstance(atom, FloorDiv):
        return None
    if not isinstance(atom.b, IntImm) or atom.b.value <= 0:
        return None
    return know.terms.form(atom.a).plus_const(atom.b.value * rest.const), atom.b.value


def _mod_const(know: Knowledge, a: LinearForm, c: int) -> LinearForm:
    rest = _divide(_open_mods(know, a, c), c)[1]
    if rest.is_zero:
        return rest
    known = _constant_quotient(know, rest, c)
    if known is not None:
        return rest.plus_const(-known * c)
    split = _low_part(know, rest, c)
    if split is not None:
        d, high, low = split
        return _mod_const(know, high, c // d).scaled(d).plus(low)
    return _atom(know, FloorMod, rest, LinearForm(a.dtype, c))


def _open_mods(know: Knowledge, form: LinearForm, c: int) -> LinearForm:
    """(y % a) % c = y % c where c divides a. Only where nothing is added to y % a: x // c keeps its x
    as it is."""
    atom = form.single()
    if isinstance(atom, FloorMod) and isinstance(atom.b, IntImm) and atom.b.value % c == 0:
        return _open_mods(know, know.terms.form(atom.a), c)
    return form


def _symbolic(know: Knowledge, a: LinearForm, b: LinearForm) -> tuple[LinearForm, LinearForm]:
    """(a // b, a % b) for a divisor that is no constant."""
    quotient, rest = _extract_multiples(know, a, b)
    if rest.is_zero or _is_remainder(know, rest, b):
        return quotient, rest
    stepped = _in_two_steps(know, rest, b)
    if stepped is not None:
        return quotient.plus(stepped[0]), stepped[1]
    common = _common_monomial(know, rest, b)
    if common is not None:
        scale, low_rest, low_b = common
        inner_quotient, inner_rest = _either(know, low_rest, low_b)
        return quotient.plus(inner_quotient), know.terms.product(scale, inner_rest)
    return quotient.plus(_atom(know, FloorDiv, rest, b)), _atom(know, FloorMod, rest, b)


def _is_remainder(know: Knowledge, rest: LinearForm, b: LinearForm) -> bool:
    """Whether 0 <= rest < b."""
    below = b.plus(rest, -1).plus_const(-1)
    return is_nonneg(know, rest, PROOF_DEPTH) and is_nonneg(know, below, PROOF_DEPTH)


def _in_two_steps(know: Knowledge, a: LinearForm, b: LinearForm) -> tuple[LinearForm, LinearForm] | None:
    """b = c * d for a constant c > 1: a // b = (a // d) // c, a % b = (a // d) % c * d + a % d. Where a // d
    needs no division."""
    c = gcd(b.const, b.coef_gcd())
    if c <= 1:
        return None
    d = b.divided(c)
    quotient, rest = _extract_multiples(know, a, d)
    if quotient.is_zero or not (rest.is_zero or _is_remainder(know, rest, d)):
        return None
    high = know.terms.product(_mod_const(know, quotient, c), d)
    return _div_const(know, quotient, c), high.plus(rest)


def _either(know: Knowledge, a: LinearForm, b: LinearForm) -> tuple[LinearForm, LinearForm]:
    return floordiv_form(know, a, b), floormod_form(know, a, b)


def _extract_multiples(know: Knowledge, a: LinearForm, b: LinearForm) -> tuple[LinearForm, LinearForm]:
    """quotient, rest with a = b * quotient + rest, by matching terms; either may be zero."""
    if len(b.terms) == 1 and not b.const:
        return _extract_monomial(know, a, next(iter(b.terms.values())))
    quotient = LinearForm(a.dtype)
    key, (coef, _) = next(iter(b.terms.items()))
    found = a.terms.get(key)
    if found is not None and abs(found[0]) >= abs(coef):
        times = abs(found[0]) // abs(coef) * (1 if (found[0] > 0) == (coef > 0) else -1)
        less = a.plus(b, -times)
        if len(less.terms) < len(a.terms):
            quotient.const, a = times, less
    atom = know.terms.build(b)
    multiples, rest = _extract_monomial(know, a, (1, (atom,)))
    return quotient.plus(multiples), rest


def _extract_monomial(know: Knowledge, a: LinearForm, divisor: Term) -> tuple[LinearForm, LinearForm]:
    quotient, rest = LinearForm(a.dtype), LinearForm(a.dtype, a.const)
    for key, (coef, factors) in a.terms.items():
        left = _factors_without(factors, divisor[1])
        if left is None or coef % divisor[0]:
            rest.terms[key] = (coef, factors)
        elif left:
            quotient.add_term(know.terms.mono(left), coef // divisor[0], left)
        else:
            quotient.const += coef // divisor[0]
    return quotient, rest


def _factors_without(factors: tuple[Any, ...], taken: tuple[Any, ...]) -> tuple[Any, ...] | None:
    left = list(factors)
    for item in taken:
        index = next((i for i, factor in enumerate(left) if factor is item), None)
        if index is None:
            return None
        del left[index]
    return tuple(left)


def _common_monomial(
    know: Knowledge, a: LinearForm, b: LinearForm
) -> tuple[LinearForm, LinearForm, LinearForm] | None:
    """g, a/g, b/g for the greatest monomial g that divides all terms of both; None if that is 1."""
    if a.const or b.const:
        coef, shared = gcd(a.const, b.const, a.coef_gcd(), b.coef_gcd()), ()
    else:
        coef, shared = gcd(a.coef_gcd(), b.coef_gcd()), _shared_factors(a, b)
    if coef == 1 and not shared:
        return None
    scale = LinearForm(a.dtype, coef)
    if shared:
        scale = LinearForm(a.dtype, 0, {know.terms.mono(shared): (coef, shared)})
    low_a, rest_a = _extract_monomial(know, a, (coef, shared))
    low_b, rest_b = _extract_monomial(know, b, (coef, shared))
    low_a.const += rest_a.const // coef
    low_b.const += rest_b.const // coef
    return scale, low_a, low_b


def _shared_factors(a: LinearForm, b: LinearForm) -> tuple[Any, ...]:
    terms = [list(factors) for _, factors in (*a.terms.values(), *b.terms.values())]
    shared = []
    for factor in terms[0]:
        if all(any(item is factor for item in factors) for factors in terms):
            shared.append(factor)
            for factors in terms[1:]:
                factors.remove(next(item for item in factors if item is factor))
    return tuple(shared)
