"""Modular sets: which residue class an integer expression lies in.

x = 4k:  x * 3 + 2 = 12k + 2     x // 2 = 2k     x % 8 = 4k     coeff 0 says that the value is the
constant `base`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from heddle.arith.const_int_bound import bound_of
from heddle.arith.facts import Knowledge
from heddle.arith.linear import LinearForm
from heddle.arith.terms import is_index_dtype
from heddle.prim.nodes import Add, Call, Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Select, Sub
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen

Residue = tuple[int, int]
ANY: Residue = (1, 0)


@frozen
class ModularSet:
    """The values coeff * k + base for integers k, with 0 <= base < coeff unless coeff is 0."""

    coeff: int
    base: int


def residue(coeff: int, base: int) -> Residue:
    """The class coeff * k + base with 0 <= coeff and, unless coeff is 0, 0 <= base < coeff."""
    coeff = abs(coeff)
    return (coeff, base % coeff) if coeff else (0, base)


def modular_of(know: Knowledge, node: Any) -> Residue:
    """The residue class of a stored integer expression."""
    found = know.caches.moduli.get(id(node))
    if found is not None:
        return found
    result = know.facts.moduli.get(know.terms.key(node)) if know.facts.moduli else None
    if result is None:
        result = _compute(know, node)
    know.caches.moduli[id(node)] = result
    return result


def _compute(know: Knowledge, node: Any) -> Residue:
    cls = type(node)
    if cls is IntImm:
        return (0, node.value)
    if cls is Cast and is_index_dtype(node.dtype) and node.value.dtype.is_int:
        widens = node.value.dtype.bits < node.dtype.bits or node.value.dtype == node.dtype
        return modular_of(know, node.value) if widens else ANY
    if not is_index_dtype(node.dtype):
        return ANY
    if cls is Add or cls is Sub or cls is Mul:
        return form_modulus(know, know.terms.form(node))
    rule = _RULES.get(cls)
    return ANY if rule is None else rule(know, node)


def form_modulus(know: Knowledge, form: LinearForm) -> Residue:
    """The residue class of a linear form."""
    coeff, base = 0, form.const
    for scale, factors in form.terms.values():
        term = (0, scale)
        for factor in factors:
            term = _multiply(term, modular_of(know, factor))
        coeff, base = gcd(coeff, term[0]), base + term[1]
    return residue(coeff, base)


def _multiply(a: Residue, b: Residue) -> Residue:
    """(p*k + m) * (q*l + n) = pq*kl + pn*k + mq*l + mn."""
    return residue(gcd(a[0] * b[0], a[0] * b[1], a[1] * b[0]), a[1] * b[1])


def _union(a: Residue, b: Residue) -> Residue:
    """The smallest class that holds both."""
    return residue(gcd(a[0], b[0], a[1] - b[1]), a[1])


def _floordiv(know: Knowledge, node: FloorDiv) -> Residue:
    if not isinstance(node.b, IntImm) or not node.b.value:
        return ANY
    coeff, base = modular_of(know, node.a)
    divisor = node.b.value
    return residue(coeff // divisor, base // divisor) if coeff % divisor == 0 else ANY


def _floormod(know: Knowledge, node: FloorMod) -> Residue:
    coeff, base = modular_of(know, node.a)
    divisor = modular_of(know, node.b)
    return residue(gcd(coeff, divisor[0], divisor[1]), base)


def _call(know: Knowledge, node: Call) -> Residue:
    if node.op.name == "tir.if_then_else":
        return _union(modular_of(know, node.args[1]), modular_of(know, node.args[2]))
    if node.op.name == "tir.shift_left" and isinstance(node.args[1], IntImm):
        return _shift_left(know, node.args[0], node.args[1].value, node.dtype)
    return ANY


def _shift_left(know: Knowledge, operand: Any, count: int, dtype: DataType) -> Residue:
    """operand * 2**count, less a multiple of 2**bits where it does not fit; 0 for a count that is negative or
    as great as the width, as `prim.values` has it."""
    if not 0 <= count < dtype.bits:
        return (0, 0)
    coeff, base = _multiply(modular_of(know, operand), (0, 1 << count))
    (low, high), (least, most) = bound_of(know, operand), int_range(dtype)
    if least <= low << count and high << count <= most:
        return coeff, base
    return residue(gcd(coeff, 1 << dtype.bits), base)


_RULES: dict[type, Callable[[Knowledge, Any], Residue]] = {
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    Min: lambda know, node: _union(modular_of(know, node.a), modular_of(know, node.b)),
    Max: lambda know, node: _union(modular_of(know, node.a), modular_of(know, node.b)),
    Select: lambda know, node: _union(modular_of(know, node.true_value), modular_of(know, node.false_value)),
    Call: _call,
}
