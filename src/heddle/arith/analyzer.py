"""The Analyzer: what is known about variables, and the questions that can be asked about integer expressions.

ana = Analyzer()
ana.bind(i, Range(0, 8))
ana.simplify(i // 8)          # 0
ana.can_prove(i * 4 < 32)     # True
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from heddle.arith.codes import A0101
from heddle.arith.const_int_bound import ConstIntBound, bound_of, internal_bound, public_bound
from heddle.arith.constraints import assume
from heddle.arith.counterexample import is_refuted
from heddle.arith.facts import INF, Knowledge, clamp, intersect
from heddle.arith.int_set import IntervalSet, from_interval, to_interval
from heddle.arith.interval_eval import IntervalEvaluator
from heddle.arith.linear import LinearForm
from heddle.arith.modular_set import ModularSet, modular_of, residue
from heddle.arith.prover import DEFAULT_DEPTH, is_nonneg
from heddle.arith.simplify.simplifier import Simplifier
from heddle.arith.terms import is_index_dtype
from heddle.prim.nodes import EQ, GE, GT, LE, LT, And, IntImm, Or, PrimExpr, Range, Var, as_expr
from heddle.prim.ops import equal, greater_equal, less
from heddle.support.diagnostics import UsageError


class CompareResult(IntEnum):
    """What is known of the order of two expressions."""

    INCONSISTENT = 0
    EQ = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5
    NE = 6
    UNKNOWN = 7


class Analyzer:
    """Answers questions about scalar integer expressions under bound variables and constraints in force.

    Integers of at least 32 bits are taken not to overflow, and divisors not to be zero.
    """

    def __init__(self) -> None:
        self._know = Knowledge()
        self._canonical = Simplifier(self._know, linear=True)
        self._rewriter = Simplifier(self._know, linear=False)

    # -- knowledge ---------------------------------------------------------------------------------

    def bind(self, var: Var, value: Any, allow_override: bool = False) -> None:
        """Tell that a variable has a value, or lies in a Range.

        Raises: UsageError A0101 where something else was told before and `allow_override` is not set.
        """
        if isinstance(value, Range):
            self._bind_range(var, value, allow_override)
            return
        term = self._simplified(as_expr(value))
        is_new = self._know.terms.is_new(var)
        self._check_unbound(var, ("value", self._know.terms.key(term)), allow_override)
        self._know.facts.values[id(var)] = term
        self._know.learnt_of(is_new)

    def _bind_range(self, var: Var, value: Range, allow_override: bool) -> None:
        know = self._know
        low, extent = self._simplified(value.min), self._simplified(value.extent)
        terms = know.terms
        is_new = terms.is_new(var)
        self._check_unbound(var, ("range", terms.key(low), terms.key(extent)), allow_override)
        key = terms.key(var)
        if isinstance(extent, IntImm) and extent.value == 1:
            know.facts.values[id(var)] = low
        bounds = (bound_of(know, low), bound_of(know, extent))
        high = bounds[0][1] + bounds[1][1] - 1
        last: LinearForm | None = None
        if is_index_dtype(low.dtype):
            last = terms.form(low).plus(terms.form(extent)).plus_const(-1)
            high = min(high, bound_of(know, terms.build(last))[1])
        know.facts.bounds[key] = clamp(bounds[0][0], high)
        if last is not None and not (isinstance(low, IntImm) and isinstance(extent, IntImm)):
            know.facts.ranges[id(var)] = (var, terms.form(low), last)
        know.learnt_of(is_new)

    def _check_unbound(self, var: Var, told: tuple[Any, ...], allow_override: bool) -> None:
        self._know.terms.intern(var)
        known = self._know.facts.told.get(id(var))
        if known is not None and known != told and not allow_override:
            raise UsageError(A0101, f"variable {var.name!r} is bound already, to something else")
        self._know.facts.told[id(var)] = told
        self._know.facts.values.pop(id(var), None)
        self._know.facts.ranges.pop(id(var), None)
        self._know.facts.bounds.pop(self._know.terms.key(var), None)

    def update(self, var: Var, info: ConstIntBound | ModularSet, override: bool = False) -> None:
        """Tell a constant bound or a residue class of a variable; without `override` a bound is met
        with the old."""
        know = self._know
        is_new = know.terms.is_new(var)
        key = know.terms.key(know.terms.intern(var))
        if isinstance(info, ModularSet):
            know.facts.moduli[key] = residue(info.coeff, info.base)
        else:
            bound = internal_bound(info.min_value, info.max_value)
            if not override and key in know.facts.bounds:
                bound = intersect(bound, know.facts.bounds[key])
            know.facts.bounds[key] = bound
        know.learnt_of(is_new)

    def mark_global_non_neg(self, expr: Any) -> None:
        """Tell that an expression, often a dimension, is never negative."""
        node = self._simplified(as_expr(expr))
        if isinstance(node, Var):
            key = self._know.terms.key(node)
            known = self._know.facts.bounds.get(key, (-INF, INF))
            self._know.facts.bounds[key] = intersect(known, (0, INF))
        elif is_index_dtype(node.dtype):
            assume(self._know, self._simplified(greater_equal(node, 0)))
        self._know.forget()

    def assume(self, condition: Any) -> None:
        """Tell for good that a condition holds."""
        assume(self._know, self._simplified(as_expr(condition)))

    @contextmanager
    def constraint_scope(self, condition: Any) -> Iterator[None]:
        """Inside the `with` block, the condition holds."""
        node = self._simplified(as_expr(condition))
        if isinstance(node, IntImm) and node.value:
            yield  # nothing is learnt: what was worked out stays
            return
        saved = self._know.enter()
        try:
            assume(self._know, node)
            yield
        finally:
            self._know.leave(saved)

    def clone(self) -> Analyzer:
        """An analyzer that knows the same and learns on its own."""
        made = Analyzer()
        made._know.terms = self._know.terms
        made._know.facts = self._know.facts.copy()
        return made

    # -- questions ---------------------------------------------------------------------------------

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """Constants between which the value always lies."""
        node = self._know.terms.intern(as_expr(expr))
        direct = bound_of(self._know, node)
        return public_bound(intersect(direct, bound_of(self._know, self._canonical.simplify(node))))

    def const_int_bound_is_bound(self, var: Var) -> bool:
        """Whether constant bounds of a variable were told."""
        return self._know.terms.key(self._know.terms.intern(var)) in self._know.facts.bounds

    def modular_set(self, expr: Any) -> ModularSet:
        """The residue class in which the value always lies."""
        return ModularSet(*modular_of(self._know, self._simplified(as_expr(expr))))

    def int_set(self, expr: Any, dom_map: Mapping[Var, Any] | None = None) -> IntervalSet:
        """The values of an expression as its variables run through sets; without `dom_map`, through
        what was told."""
        if dom_map is None:
            bound = self.const_int_bound(expr)
            low = float("-inf") if bound.min_value == ConstIntBound.NEG_INF else bound.min_value
            high = float("inf") if bound.max_value == ConstIntBound.POS_INF else bound.max_value
            return IntervalSet(low, high)  # type: ignore[arg-type]
        domains = {var: to_interval(dom) for var, dom in dom_map.items()}
        return from_interval(IntervalEvaluator(self, domains).evaluate(as_expr(expr)))

    def rewrite_simplify(self, expr: Any) -> Any:
        """Simplify by the rule tables alone."""
        return self._run(self._rewriter, expr)

    def canonical_simplify(self, expr: Any) -> Any:
        """Simplify to the canonical linear form, rule tables included."""
        return self._run(self._canonical, expr)

    def simplify(self, expr: Any, steps: int = 2) -> Any:
        """The simplest equal expression; the same object where nothing changes. One step is
        `rewrite_simplify`."""
        return self._run(self._canonical if steps > 1 else self._rewriter, expr)

    def _run(self, simplifier: Simplifier, expr: Any) -> Any:
        given = as_expr(expr)
        node = self._know.terms.intern(given)
        result = simplifier.start(node)
        return given if result is node else result

    def _simplified(self, expr: PrimExpr) -> Any:
        return self._canonical.start(self._know.terms.intern(expr))

    # -- proofs ------------------------------------------------------------------------------------

    def can_prove(self, condition: Any, strength: int = 0) -> bool:
        """Whether the condition could be proved; False says nothing. A greater `strength` searches deeper."""
        return self._prove(self._simplified(as_expr(condition)), DEFAULT_DEPTH + 2 * int(strength))

    def _prove(self, node: Any, depth: int) -> bool:
        if isinstance(node, IntImm):
            return node.value != 0
        if isinstance(node, And):
            return self._prove(node.a, depth) and self._prove(node.b, depth)
        if isinstance(node, Or):
            return self._prove(node.a, depth) or self._prove(node.b, depth)
        if type(node) not in (LT, LE, GT, GE, EQ) or not is_index_dtype(node.a.dtype):
            return False
        terms = self._know.terms
        gap = terms.form(node.b).plus(terms.form(node.a), -1)
        if isinstance(node, (GT, GE)):
            gap = gap.scaled(-1)
        if isinstance(node, EQ):
            sides = (gap, gap.scaled(-1))
            refuted = any(
                is_refuted(self._know, side) for side in sides
            )  # of both, before one is searched for
            return not refuted and all(self._nonneg(side, depth) for side in sides)
        return self._nonneg(gap.plus_const(-1 if isinstance(node, (LT, GT)) else 0), depth)

    def _nonneg(self, form: LinearForm, depth: int) -> bool:
        return is_nonneg(self._know, form, depth)

    def can_prove_equal(self, a: Any, b: Any) -> bool:
        """Whether two scalar expressions (or numbers) have one value, as far as is known. False: it is not
        proved."""
        a, b = as_expr(a), as_expr(b)
        return a is b or self.can_prove(equal(a, b))

    def equal(self, a: Any, b: Any) -> bool:
        """The same as `can_prove_equal`."""
        return self.can_prove_equal(a, b)

    def can_prove_greater_equal(self, expr: Any, lower_bound: int) -> bool:
        """Whether an expression is proved to be at least a number."""
        return self.can_prove(greater_equal(expr, lower_bound))

    def can_prove_less(self, expr: Any, upper_bound: int) -> bool:
        """Whether an expression is proved to be below a number."""
        return self.can_prove(less(expr, upper_bound))

    def try_compare(self, a: Any, b: Any, propagate_inequalities: bool = True) -> CompareResult:
        """How a stands to b. Without `propagate_inequalities` only constant bounds are used."""
        depth = DEFAULT_DEPTH if propagate_inequalities else 0
        terms = self._know.terms
        gap = terms.form(self._simplified(as_expr(a) - as_expr(b)))
        at_least, at_most = self._nonneg(gap, depth), self._nonneg(gap.scaled(-1), depth)
        if at_least and at_most:
            return CompareResult.EQ
        if at_least:
            return CompareResult.GT if self._nonneg(gap.plus_const(-1), depth) else CompareResult.GE
        if at_most:
            below = self._nonneg(gap.scaled(-1).plus_const(-1), depth)
            return CompareResult.LT if below else CompareResult.LE
        differ = self._simplified(equal(terms.build(gap), 0))
        never = isinstance(differ, IntImm) and not differ.value
        return CompareResult.NE if never else CompareResult.UNKNOWN
