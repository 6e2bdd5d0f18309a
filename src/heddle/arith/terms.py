"""The term table of an Analyzer: each structure is stored once, so that equality of terms is identity.

`intern` maps an expression to its stored twin; `make` builds stored nodes. `key` goes further:
expressions that are equal as polynomials, or up to the order of operands of min, max, ==, and, or, have
one key.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import gcd, prod
from typing import Any

from heddle.arith.linear import LinearForm, Mono
from heddle.ir.node import Node, children, map_children
from heddle.prim.intrinsics import Intrinsic
from heddle.prim.nodes import (
    EQ,
    NE,
    Add,
    And,
    BinaryExpr,
    Call,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Sub,
)
from heddle.prim.values import wrap_int
from heddle.runtime.dtype import DataType

_COMMUTATIVE = frozenset((Min, Max, EQ, NE, And, Or))
_SUMS = frozenset((Add, Sub, Mul, IntImm))
Signature = tuple[Any, ...]
MAX_TERMS, MAX_DEGREE = 64, 32
"""What products are multiplied out to at most. Squares of squares double both with every step."""
_SMALL_TREE = 64


def is_index_dtype(dtype: DataType) -> bool:
    """Whether analysis may treat the dtype as the integers: signed scalars of at least 32 bits."""
    return dtype.code == "int" and dtype.bits >= 32 and dtype.lanes == 1


def summands(node: Any, scale: int) -> list[tuple[Any, int]]:
    """What a tree of sums, differences and multiples by constants adds up, with coefficients; for large trees
    each part once, so that the work grows with the number of distinct nodes."""
    found: list[tuple[Any, int]] = []
    stack = [(node, scale)]
    steps = 0
    while stack:
        current, coef = stack.pop()
        below = _weighted_parts(current, coef)
        if below is None:
            found.append((current, coef))
            continue
        stack += reversed(below)
        steps += 1
        if steps > _SMALL_TREE:
            return _summands_of_shared(node, scale)
    return found


def _weighted_parts(node: Any, coef: int) -> tuple[tuple[Any, int], ...] | None:
    cls = type(node)
    if cls is Add:
        return (node.a, coef), (node.b, coef)
    if cls is Sub:
        return (node.a, coef), (node.b, -coef)
    if cls is Mul:
        if type(node.b) is IntImm:
            return ((node.a, coef * node.b.value),)
        if type(node.a) is IntImm:
            return ((node.b, coef * node.a.value),)
    return None


def _summands_of_shared(root: Any, scale: int) -> list[tuple[Any, int]]:
    """Coefficients flow from sums to their parts, sums before parts."""
    order: list[Any] = []
    seen: set[int] = set()
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(part, False) for part, _ in _weighted_parts(node, 1) or ()]
    coefs = dict.fromkeys(seen, 0)
    coefs[id(root)] = scale
    found: list[tuple[Any, int]] = []
    for node in reversed(order):
        below = _weighted_parts(node, coefs[id(node)])
        if below is None:
            found.append((node, coefs[id(node)]))
        for part, coef in below or ():
            coefs[id(part)] += coef
    return found


class TermTable:
    """Stored terms, their keys and their linear forms. Nothing here depends on what is known about
    variables."""

    def __init__(self) -> None:
        self._stored: dict[int, tuple[Any, Any]] = {}
        self._by_signature: dict[Signature, Any] = {}
        self._keys: dict[int, int] = {}
        self._key_ids: dict[Signature, int] = {}
        self._forms: dict[int, LinearForm] = {}
        self._variables: dict[int, frozenset[int]] = {}
        self._extents: dict[int, tuple[int, int]] = {}
        self._leaves: dict[int, int] = {}
        self.impure: set[int] = set()

    # -- storing -----------------------------------------------------------------------------------

    def is_new(self, var: Any) -> bool:
        """Whether no term that was stored so far holds a variable."""
        return id(var) not in self._stored

    def intern(self, expr: Any) -> Any:
        """The stored twin of an expression; the expression itself if it is the first of its structure."""
        found = self._stored.get(id(expr))
        if found is not None:
            return found[1]
        cls: Any = type(expr)
        if isinstance(expr, BinaryExpr):
            a, b = self.intern(expr.a), self.intern(expr.b)
            signature: Signature = (cls, id(a), id(b))
            twin = self._by_signature.get(signature)
            if twin is None:
                twin = expr if a is expr.a and b is expr.b else cls(a, b, span=expr.span)
                self._store(signature, twin)
                if self.impure and (id(a) in self.impure or id(b) in self.impure):
                    self.impure.add(id(twin))
        else:
            twin = self._intern_other(expr)
        self._stored[id(expr)] = (expr, twin)
        return twin

    def _intern_other(self, expr: Any) -> Any:
        if not isinstance(expr, Node) or expr.identity:
            return expr
        if isinstance(expr, IntImm):
            return self.const(expr.dtype, expr.value, expr)
        if isinstance(expr, FloatImm):
            signature: Signature = (FloatImm, expr.dtype, expr.value.hex())
            twin = self._by_signature.get(signature)
            return twin if twin is not None else self._store(signature, expr)
        mapped = map_children(expr, self.intern)
        if self._is_impure(mapped):
            self.impure.add(id(mapped))
            return self._store((Node, id(mapped)), mapped)
        signature = (type(mapped), mapped.dtype if isinstance(mapped, PrimExpr) else None) + tuple(
            _field_signature(getattr(mapped, name)) for name in mapped.init_names
        )
        found = self._by_signature.get(signature)
        return self._store(signature, mapped) if found is None else found

    def _is_impure(self, node: Any) -> bool:
        if isinstance(node, Call):
            record = node.op.record
            if isinstance(record, Intrinsic) and not record.is_pure:
                return True
        if not self.impure:
            return False
        return any(id(child) in self.impure for child in children(node))

    def _store(self, signature: Signature, node: Any) -> Any:
        self._by_signature[signature] = node
        self._stored[id(node)] = (node, node)
        return node

    def const(self, dtype: DataType, value: int, node: IntImm | None = None) -> IntImm:
        """The constant of a value, modulo the width: sums of constants wrap as the program's do."""
        value = wrap_int(value, dtype)
        signature: Signature = (IntImm, dtype, value)
        found = self._by_signature.get(signature)
        if found is None:
            found = self._store(signature, IntImm(dtype, value) if node is None else node)
        result: IntImm = found
        return result

    def make(self, cls: Any, a: Any, b: Any) -> Any:
        """The stored binary node of stored operands, not simplified."""
        signature: Signature = (cls, id(a), id(b))
        found = self._by_signature.get(signature)
        if found is None:
            found = self._store(signature, cls(a, b))
            if self.impure and (id(a) in self.impure or id(b) in self.impure):
                self.impure.add(id(found))
        return found

    # -- keys --------------------------------------------------------------------------------------

    def key(self, node: Any) -> int:
        """A number that equal polynomials and commuted operands share. `node` is stored."""
        found = self._keys.get(id(node))
        if found is None:
            signature = self._key_signature(node)
            found = self._key_ids.get(signature)
            if found is None:
                found = self._key_ids[signature] = len(self._key_ids)
            self._keys[id(node)] = found
        return found

    def _key_signature(self, node: Any) -> Signature:
        cls = type(node)
        if cls in _SUMS and is_index_dtype(node.dtype):
            form = self.form(node)
            single = form.single()
            if single is not None and single is not node:
                return self._key_signature(single)
            return (LinearForm, node.dtype, form.const, form.signature())
        if isinstance(node, BinaryExpr):
            a, b = self.key(node.a), self.key(node.b)
            if cls in _COMMUTATIVE and b < a:
                a, b = b, a
            return (cls, a, b)
        return (id(node),)

    def find_key(self, cls: type, a: Any, b: Any) -> int | None:
        """The key that cls(a, b) has if anything equal to it was seen, for a `cls` that does not commute."""
        return self._key_ids.get((cls, self.key(a), self.key(b)))

    def variables(self, node: Any) -> frozenset[int]:
        """The ids of the variables and other identity nodes in a stored term."""
        if node.identity:
            return frozenset((id(node),))
        found = self._variables.get(id(node))
        if found is None:
            found = frozenset().union(*(self.variables(child) for child in children(node)))
            self._variables[id(node)] = found
        return found

    # -- linear forms ------------------------------------------------------------------------------

    def form(self, node: Any) -> LinearForm:
        """The linear form of a stored index expression as it stands; shared, not to be changed."""
        found = self._forms.get(id(node))
        if found is None:
            found = LinearForm(node.dtype)
            self._gather(node, 1, found)
            self._forms[id(node)] = found
        return found

    def _gather(self, node: Any, scale: int, into: LinearForm) -> None:
        for part, coef in summands(node, scale):
            cls = type(part)
            if cls is IntImm:
                into.const += coef * part.value
            elif cls is Mul:
                into.add_form(self.product(self.form(part.a), self.form(part.b)), coef)
            else:
                into.add_term((self.key(part),), coef, (part,))

    def atom(self, node: PrimExpr) -> LinearForm:
        """A stored expression as one atom."""
        return LinearForm(node.dtype, 0, {(self.key(node),): (1, (node,))})

    def product(self, a: LinearForm, b: LinearForm) -> LinearForm:
        """a * b. A sum that is multiplied by something that is no constant becomes a factor, its
        content taken out."""
        if not a.terms:
            return b.scaled(a.const)
        if not b.terms:
            return a.scaled(b.const)
        coef_a, factors_a = self._as_factors(a)
        coef_b, factors_b = self._as_factors(b)
        if len(factors_a) + len(factors_b) > MAX_DEGREE:
            factors_a = (self._build_term(a.dtype, 1, factors_a),)
            factors_b = (self._build_term(a.dtype, 1, factors_b),)
        factors = factors_a + factors_b
        return LinearForm(a.dtype, 0, {self.mono(factors): (coef_a * coef_b, factors)})

    def mono(self, factors: tuple[PrimExpr, ...]) -> Mono:
        """The key of a product of stored factors, the same in any order."""
        return tuple(sorted(map(self.key, factors)))

    def _as_factors(self, form: LinearForm) -> tuple[int, tuple[PrimExpr, ...]]:
        if len(form.terms) == 1 and not form.const:
            return next(iter(form.terms.values()))
        content = gcd(form.coef_gcd(), form.const)
        return content, (self.build(form.divided(content)),)

    def expanded(self, a: LinearForm, b: LinearForm) -> LinearForm:
        """a * b multiplied out, term by term; sums that are factors are multiplied out too."""
        a, b = self.flat(a), self.flat(b)
        made = LinearForm(a.dtype, a.const * b.const)
        for key, (coef, factors) in a.terms.items():
            made.add_term(key, coef * b.const, factors)
        for key, (coef, factors) in b.terms.items():
            made.add_term(key, coef * a.const, factors)
        for coef_a, factors_a in a.terms.values():
            for coef_b, factors_b in b.terms.values():
                factors = factors_a + factors_b
                made.add_term(self.mono(factors), coef_a * coef_b, factors)
        return made

    def flat(self, form: LinearForm) -> LinearForm:
        """The form with sums that are factors multiplied out; the same object where there is none, and where
        that would give more than MAX_TERMS terms or a degree over MAX_DEGREE."""
        if not has_sum_factor(form):
            return form
        extents = [self._extent_of_term(factors) for _, factors in form.terms.values()]
        if sum(terms for terms, _ in extents) > MAX_TERMS or any(d > MAX_DEGREE for _, d in extents):
            return form
        made = LinearForm(form.dtype, form.const)
        for key, (coef, factors) in form.terms.items():
            if not any(type(factor) in _SUMS for factor in factors):
                made.add_term(key, coef, factors)
                continue
            product = LinearForm(form.dtype, coef)
            for factor in factors:
                product = self.expanded(product, self.form(factor))
            made.add_form(product)
        return made

    def _extent(self, node: Any) -> tuple[int, int]:
        """How many terms a stored expression has at most when it is multiplied out, and its degree; more than
        the limits counts as one more."""
        if type(node) not in _SUMS:
            return 1, 1
        found = self._extents.get(id(node))
        if found is None:
            form = self.form(node)
            parts = [self._extent_of_term(factors) for _, factors in form.terms.values()]
            terms = min(sum(count for count, _ in parts) + (form.const != 0), MAX_TERMS + 1)
            found = self._extents[id(node)] = terms, max((degree for _, degree in parts), default=0)
        return found

    def _extent_of_term(self, factors: tuple[PrimExpr, ...]) -> tuple[int, int]:
        parts = [self._extent(factor) for factor in factors]
        terms = min(prod(count for count, _ in parts), MAX_TERMS + 1)
        return terms, min(sum(degree for _, degree in parts), MAX_DEGREE + 1)

    def num_leaves(self, form: LinearForm) -> int:
        """How many atoms and constants a form is written with."""
        count = int(form.const != 0)
        for coef, factors in form.terms.values():
            count += (abs(coef) != 1) + sum(map(self._num_leaves_of, factors))
        return count

    def _num_leaves_of(self, factor: Any) -> int:
        if type(factor) not in _SUMS:
            return 1
        found = self._leaves.get(id(factor))
        if found is None:
            found = self._leaves[id(factor)] = self.num_leaves(self.form(factor))
        return found

    def build(self, form: LinearForm) -> Any:
        """The stored expression of a form: positive terms, then negative ones, then the constant."""
        dtype, const = form.dtype, form.const
        result: Any = None
        negative: list[tuple[int, tuple[PrimExpr, ...]]] = []
        for coef, factors in form.terms.values():
            if coef < 0:
                negative.append((coef, factors))
                continue
            term = self._build_term(dtype, coef, factors)
            result = term if result is None else self.make(Add, result, term)
        if result is None and const > 0 and negative:
            result, const = self.const(dtype, const), 0
        for coef, factors in negative:
            if result is None:
                result = self._build_term(dtype, coef, factors)
            else:
                result = self.make(Sub, result, self._build_term(dtype, -coef, factors))
        if result is None:
            return self.const(dtype, const)
        if const > 0:
            return self.make(Add, result, self.const(dtype, const))
        return self.make(Sub, result, self.const(dtype, -const)) if const < 0 else result

    def _build_term(self, dtype: DataType, coef: int, factors: tuple[PrimExpr, ...]) -> Any:
        result: Any = factors[0]
        for factor in factors[1:]:
            result = self.make(Mul, result, factor)
        return result if coef == 1 else self.make(Mul, result, self.const(dtype, coef))


def has_sum_factor(form: LinearForm) -> bool:
    """Whether some term multiplies a sum."""
    return any(type(factor) in _SUMS for _, factors in form.terms.values() for factor in factors)


def _field_signature(value: Any) -> Hashable:
    if isinstance(value, Node):
        return id(value)
    if type(value) is tuple:
        return tuple(_field_signature(item) for item in value)
    return value.hex() if isinstance(value, float) else (type(value), value)
