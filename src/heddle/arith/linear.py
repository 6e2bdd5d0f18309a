"""Linear forms: coef * monomial + ... + const, the normal form of index arithmetic.

A monomial is a product of atoms (expressions that are no sum, or sums kept as factors). Its key is the
sorted tuple of the atoms' keys, so m*n and n*m are one monomial; the factors keep the order in which
they first appeared, so that text stays as it was written. Terms keep the order of appearance for the
same reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from heddle.prim.nodes import PrimExpr
from heddle.runtime.dtype import DataType

Mono = tuple[int, ...]
Term = tuple[int, tuple[PrimExpr, ...]]


class LinearForm:
    """sum(coef * product(factors)) + const. Mutable while it is gathered; never changed after it was
    shared."""

    __slots__ = ("const", "dtype", "terms")

    def __init__(self, dtype: DataType, const: int = 0, terms: dict[Mono, Term] | None = None) -> None:
        self.dtype = dtype
        self.const = const
        self.terms: dict[Mono, Term] = {} if terms is None else terms

    def add_term(self, key: Mono, coef: int, factors: tuple[PrimExpr, ...]) -> None:
        """Add a monomial in place; a coefficient that becomes zero disappears."""
        found = self.terms.get(key)
        if found is None:
            if coef:
                self.terms[key] = (coef, factors)
            return
        coef += found[0]
        if coef:
            self.terms[key] = (coef, found[1])
        else:
            del self.terms[key]

    def add_form(self, other: LinearForm, scale: int = 1) -> None:
        """Add scale * other in place."""
        self.const += scale * other.const
        for key, (coef, factors) in other.terms.items():
            self.add_term(key, scale * coef, factors)

    def copy(self) -> LinearForm:
        """A form with the same terms that may be changed in place."""
        return LinearForm(self.dtype, self.const, dict(self.terms))

    def plus(self, other: LinearForm, scale: int = 1) -> LinearForm:
        """self + scale * other, as a new form."""
        made = self.copy()
        made.add_form(other, scale)
        return made

    def plus_const(self, value: int) -> LinearForm:
        """self + value, as a form that shares the terms."""
        return LinearForm(self.dtype, self.const + value, self.terms)

    def scaled(self, scale: int) -> LinearForm:
        """self * scale; the same object where `scale` is 1."""
        if scale == 1:
            return self
        if scale == 0:
            return LinearForm(self.dtype)
        terms = {key: (coef * scale, factors) for key, (coef, factors) in self.terms.items()}
        return LinearForm(self.dtype, self.const * scale, terms)

    def divided(self, divisor: int) -> LinearForm:
        """All coefficients over a common divisor; the constant is rounded down."""
        terms = {key: (coef // divisor, factors) for key, (coef, factors) in self.terms.items()}
        return LinearForm(self.dtype, self.const // divisor, terms)

    def without_const(self) -> LinearForm:
        """The terms alone; the same object where the constant is 0."""
        return self if not self.const else LinearForm(self.dtype, 0, self.terms)

    @property
    def is_const(self) -> bool:
        """Whether there are no terms."""
        return not self.terms

    @property
    def is_zero(self) -> bool:
        """Whether there are no terms and the constant is 0."""
        return not self.terms and not self.const

    def coef_gcd(self) -> int:
        """The greatest common divisor of the coefficients, the constant left out; 0 without terms."""
        return gcd(*(coef for coef, _ in self.terms.values()))

    def same(self, other: LinearForm) -> bool:
        """Whether both denote the same polynomial."""
        return self.const == other.const and self.signature() == other.signature()

    def signature(self) -> frozenset[tuple[Mono, int]]:
        """The polynomial without its constant, in no order."""
        return frozenset((key, coef) for key, (coef, _) in self.terms.items())

    def single(self) -> PrimExpr | None:
        """The atom, where the form is exactly one atom; None otherwise."""
        if self.const or len(self.terms) != 1:
            return None
        ((coef, factors),) = self.terms.values()
        return factors[0] if coef == 1 and len(factors) == 1 else None


def total(dtype: DataType, forms: Iterable[LinearForm]) -> LinearForm:
    """The sum of forms."""
    made = LinearForm(dtype)
    for form in forms:
        made.add_form(form)
    return made
