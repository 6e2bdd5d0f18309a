"""Comparisons of linear forms, and minimum and maximum.

    x + 1 < 3 → x < 2            4*x < 4*y + 8 → x < y + 2       8*x + y < 64 → x < 8      if 0 <= y < 8
    x // 4 < 2 → x < 8           x + 1 <= y → x < y              4*x + 2*y == 5 → false
    min(x + 1, x + 3) → x + 1    min(4*x, 8) → min(x, 2) * 4     min(x + z, y + z) → min(x, y) + z
A comparison has its positive terms left and its negative ones right; `c <= x` is the form of a lower bound.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from heddle.arith.const_int_bound import form_bound
from heddle.arith.facts import Knowledge
from heddle.arith.linear import LinearForm
from heddle.arith.modular_set import form_modulus
from heddle.arith.prover import is_nonneg
from heddle.prim.nodes import BOOL, EQ, GE, LE, LT, NE, FloorDiv, IntImm, Max, Min

PROOF_DEPTH = 2


def truth(know: Knowledge, value: bool) -> Any:
    """The stored bool constant of one lane."""
    return know.terms.const(BOOL, int(value))


def is_symbolic(know: Knowledge, form: LinearForm) -> bool:
    """Whether a search may prove more of the form than its constant bounds do."""
    return len(form.terms) > 1 and bool(know.facts.ranges or know.facts.linear)


def less_than(know: Knowledge, form: LinearForm, limit: int) -> Any:
    """The simplest expression for form < limit. `form` has no constant."""
    if not form.terms:
        return truth(know, limit > 0)
    content = form.coef_gcd()
    if content > 1:
        form, limit = form.divided(content), -(-limit // content)
    low, high = form_bound(know, form)
    if high < limit or low >= limit:
        return truth(know, high < limit)
    if is_symbolic(know, form):
        if is_nonneg(know, form.scaled(-1).plus_const(limit - 1), PROOF_DEPTH):
            return truth(know, True)
        if is_nonneg(know, form.plus_const(-limit), PROOF_DEPTH):
            return truth(know, False)
    reduced = _drop_low_part(know, form, limit) or _undo_division(know, form, limit)
    if reduced is not None:
        inner, bound = reduced
        return less_than(know, inner.without_const(), bound - inner.const)
    return _emit_less(know, form, limit)


def _drop_low_part(know: Knowledge, form: LinearForm, limit: int) -> tuple[LinearForm, int] | None:
    """d*high + low < d*k + r with 0 <= low < d: high < k if low >= r, high < k + 1 if low < r."""
    if len(form.terms) < 2:
        return None
    for d in sorted({abs(coef) for coef, _ in form.terms.values()} - {1}, reverse=True):
        high, low = LinearForm(form.dtype), LinearForm(form.dtype)
        for key, (coef, factors) in form.terms.items():
            part, value = (low, coef) if coef % d else (high, coef // d)
            part.terms[key] = (value, factors)
        bound = form_bound(know, low)
        if bound[0] < 0 or bound[1] >= d:
            continue
        k, r = limit // d, limit % d
        if bound[0] >= r:
            return high, k
        if bound[1] < r:
            return high, k + 1
    return None


def _undo_division(know: Knowledge, form: LinearForm, limit: int) -> tuple[LinearForm, int] | None:
    """x // c < k is x < c*k, and -(x // c) < k is -x < c*(k - 1) + 1, for constants c > 0."""
    if len(form.terms) != 1:
        return None
    ((coef, factors),) = form.terms.values()
    atom = factors[0]
    if len(factors) != 1 or not isinstance(atom, FloorDiv) or not isinstance(atom.b, IntImm):
        return None
    c = atom.b.value
    if c <= 0 or abs(coef) != 1:
        return None
    x = know.terms.form(atom.a)
    return (x, c * limit) if coef > 0 else (x.scaled(-1), c * (limit - 1) + 1)


def _by_sign(form: LinearForm) -> tuple[LinearForm, LinearForm]:
    positive, negative = LinearForm(form.dtype), LinearForm(form.dtype)
    for key, (coef, factors) in form.terms.items():
        (positive if coef > 0 else negative).terms[key] = (abs(coef), factors)
    return positive, negative


def _emit_less(know: Knowledge, form: LinearForm, limit: int) -> Any:
    terms = know.terms
    left, right = _by_sign(form)
    if not right.terms:
        return terms.make(LT, terms.build(left), terms.const(form.dtype, limit))
    if not left.terms:
        return terms.make(LE, terms.const(form.dtype, 1 - limit), terms.build(right))
    if limit == 1:
        return terms.make(LE, terms.build(left), terms.build(right))
    if limit >= 0:
        right.const = limit
    else:
        left.const = -limit
    return terms.make(LT, terms.build(left), terms.build(right))


def equals(know: Knowledge, form: LinearForm, value: int) -> Any:
    """The simplest expression for form == value. `form` has no constant."""
    if not form.terms:
        return truth(know, value == 0)
    content = form.coef_gcd()
    if next(iter(form.terms.values()))[0] < 0:
        content = -content
    if value % content:
        return truth(know, False)
    if content != 1:
        form, value = form.divided(content), value // content
    low, high = form_bound(know, form)
    coeff, base = form_modulus(know, form)
    if not low <= value <= high or (value != base if coeff == 0 else (value - base) % coeff):
        return truth(know, False)
    if low == high:
        return truth(know, True)
    if is_symbolic(know, form):
        above = is_nonneg(know, form.plus_const(-value), PROOF_DEPTH)
        below = is_nonneg(know, form.scaled(-1).plus_const(value), PROOF_DEPTH)
        if above and below:
            return truth(know, True)
        strict = 1 if above else -1 if below else 0
        if strict and is_nonneg(know, form.plus_const(-value).scaled(strict).plus_const(-1), PROOF_DEPTH):
            return truth(know, False)
    return _emit_equal(know, form, value)


def _emit_equal(know: Knowledge, form: LinearForm, value: int) -> Any:
    terms = know.terms
    left, right = _by_sign(form)
    if value >= 0 or not right.terms:
        right.const = value
    else:
        left.const = -value
    return terms.make(EQ, terms.build(left), terms.build(right))


def compare_forms(know: Knowledge, cls: Any, difference: LinearForm) -> Any:
    """The simplest expression for `a cls b`; `difference` is a - b, finished."""
    if cls in (EQ, NE):
        equal = equals(know, difference.without_const(), -difference.const)
        if cls is EQ:
            return equal
        if isinstance(equal, IntImm):
            return truth(know, not equal.value)
        return know.terms.make(NE, equal.a, equal.b)
    if cls in (LT, LE):
        limit = -difference.const + (cls is LE)
        return less_than(know, difference.without_const(), limit)
    limit = difference.const + (cls is GE)
    return less_than(know, difference.without_const().scaled(-1), limit)


def extreme_of(know: Knowledge, cls: Any, operands: list[Any]) -> LinearForm:
    """min or max (`cls`) of simplified operands, as a linear form: shared terms and factors stand outside."""
    forms = _undominated(know, cls, [know.terms.form(item) for item in _flatten(cls, operands)])
    if len(forms) == 1:
        return forms[0]
    shared = _shared_part(forms)
    forms = [form.plus(shared, -1) for form in forms] if shared.terms or shared.const else forms
    content = gcd(*(form.const for form in forms), *(form.coef_gcd() for form in forms))
    if all(not f.const and all(coef < 0 for coef, _ in f.terms.values()) for f in forms):
        content, cls = -content, Max if cls is Min else Min
    if content not in (0, 1):
        forms = [form.divided(content) for form in forms]
    terms = know.terms
    nodes = [terms.build(form) for form in sorted(forms, key=lambda form: form.is_const)]
    result = nodes[0]
    for item in nodes[1:]:
        result = terms.make(cls, result, item)
    return terms.atom(result).scaled(content or 1).plus(shared)


def _flatten(cls: Any, operands: list[Any]) -> list[Any]:
    flat: list[Any] = []
    for item in operands:
        flat.extend(_flatten(cls, [item.a, item.b]) if type(item) is cls else [item])
    return flat


def _undominated(know: Knowledge, cls: Any, forms: list[LinearForm]) -> list[LinearForm]:
    """The operands of which no other is always the better one; of equal ones the first."""
    kept: list[LinearForm] = []
    for form in forms:
        if any(_dominates(know, cls, other, form) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(know, cls, form, other)]
        kept.append(form)
    return kept


def _dominates(know: Knowledge, cls: Any, a: LinearForm, b: LinearForm) -> bool:
    """Whether a <= b (for min; >= for max) always holds."""
    gap = b.plus(a, -1) if cls is Min else a.plus(b, -1)
    return is_nonneg(know, gap, PROOF_DEPTH if is_symbolic(know, gap) else 0)


def _shared_part(forms: list[LinearForm]) -> LinearForm:
    """The terms that all operands have; and the constant, if all have the same or all but one are one
    term with it."""
    first = forms[0]
    shared = LinearForm(first.dtype)
    for key, (coef, factors) in first.terms.items():
        if all(key in form.terms and form.terms[key][0] == coef for form in forms):
            shared.terms[key] = (coef, factors)
    consts = {form.const for form in forms if form.terms}
    if len(consts) == 1:
        shared.const = consts.pop()
    return shared
