"""The simplifier: bottom-up over stored terms, each node once, to a fixpoint.

Index arithmetic (signed scalars of at least 32 bits) goes through linear forms: a tree of +, -, * is
gathered into one form, quotients and remainders are split and joined, and the form is built back.
Everything else, and what forms do not know, is done by the rule tables. With `linear=False` only the
tables work (`rewrite_simplify`).

Invariants: the result's parts are simplified themselves, so simplifying again changes nothing; the
value is kept; where nothing changes the same term comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.arith.const_int_bound import bound_of
from heddle.arith.constraints import assume
from heddle.arith.facts import Caches, Knowledge
from heddle.arith.linear import LinearForm
from heddle.arith.rules import RULE_INDEX
from heddle.arith.simplify.comparison import compare_forms, extreme_of, truth
from heddle.arith.simplify.division import floordiv_form, floormod_form
from heddle.arith.simplify.joining import finish_form
from heddle.arith.terms import is_index_dtype, summands
from heddle.ir.node import map_children
from heddle.prim.checked_index import is_index_check
from heddle.prim.nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    CompareExpr,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from heddle.prim.ops import fold_binary
from heddle.prim.substitute import substitute

MAX_ROUNDS = 16
MAX_SCOPES = 256
"""Conditions that one simplification assumes: selections in branches of selections ask for more with each
level."""
_LEAVES = frozenset((IntImm, FloatImm))
_COMPARISONS = frozenset((EQ, NE, LT, LE, GT, GE))
_DIVISIONS = frozenset((Div, Mod, FloorDiv, FloorMod))


class Simplifier:
    """Simplifies stored terms under what `know` holds."""

    def __init__(self, know: Knowledge, linear: bool) -> None:
        self.know = know
        self.linear = linear
        self._scopes_left = MAX_SCOPES
        self._is_in_select = False
        """Whether a value of a `select` is looked at: it is computed whatever the condition is."""

    def _memo(self) -> dict[int, Any]:
        caches: Caches = self.know.caches
        return caches.normal if self.linear else caches.rewritten

    def start(self, node: Any) -> Any:
        """`simplify` with MAX_SCOPES assumptions to spend."""
        self._scopes_left, self._is_in_select = MAX_SCOPES, False
        return self.simplify(node)

    def simplify(self, node: Any) -> Any:
        """The simplified stored term of a stored term."""
        cls = type(node)
        if cls in _LEAVES:
            return node
        memo = self._memo()
        found = memo.get(id(node))
        if found is not None:
            return found
        seen = {id(node): node}
        current = node
        for _ in range(MAX_ROUNDS):
            result = self._step(current)
            if result is current:
                break
            current = result
            found = memo.get(id(result))
            if found is not None:
                current = found
                break
            if id(result) in seen or type(result) in _LEAVES:
                break
            seen[id(result)] = result
        memo[id(current)] = current
        memo[id(node)] = current
        return current

    def _step(self, node: Any) -> Any:
        """Simplify the operands, then the node once."""
        know = self.know
        if know.terms.impure and id(node) in know.terms.impure:
            return know.terms.intern(map_children(node, self._child))
        cls = type(node)
        handler = _HANDLERS.get(cls)
        if handler is not None:
            return handler(self, node)
        mapped = know.terms.intern(map_children(node, self._child))
        return self._by_rules(mapped)

    def _child(self, node: Any) -> Any:
        return self.simplify(self.know.terms.intern(node)) if isinstance(node, PrimExpr) else node

    def _by_rules(self, node: Any) -> Any:
        result = RULE_INDEX.rewrite(self.know, node, self.linear)
        return node if result is None else result

    # -- leaves ------------------------------------------------------------------------------------

    def _var(self, node: Var) -> Any:
        known = self.know.facts.values.get(id(node))
        if known is not None:
            return known
        return self._pinned(node)

    def _pinned(self, node: Any) -> Any:
        """The constant that bounds leave for an integer expression, or the expression."""
        if node.dtype.lanes != 1 or not (node.dtype.is_int or node.dtype.is_bool):
            return node
        low, high = bound_of(self.know, node)
        if low != high:
            fact = self.know.facts.truths.get(self.know.terms.key(node)) if node.dtype.is_bool else None
            return node if fact is None else truth(self.know, fact)
        return self.know.terms.const(node.dtype, low)

    # -- arithmetic --------------------------------------------------------------------------------

    def _binary(self, node: Any) -> Any:
        """A node that no linear form covers: fold, then the tables."""
        terms = self.know.terms
        a, b = self.simplify(node.a), self.simplify(node.b)
        if isinstance(b, IntImm) and b.value == 0 and type(node) in _DIVISIONS:
            return terms.make(type(node), a, b)
        folded = fold_binary(type(node), a, b)
        if folded is not None:
            return terms.intern(folded)
        result = self._by_rules(terms.make(type(node), a, b))
        if isinstance(result, CompareExpr) or type(result) in (FloorDiv, FloorMod, Mod, Div):
            return self._pinned(result)
        return result

    def _sum(self, node: Any) -> Any:
        if not (self.linear and is_index_dtype(node.dtype)):
            return self._binary(node)
        form = LinearForm(node.dtype)
        self._gather(node, 1, form)
        form = finish_form(self.know, form)
        result = self.know.terms.build(form)
        if all(type(factor) is Var for _, factors in form.terms.values() for factor in factors):
            self._memo()[id(result)] = result
            return result
        return self._by_rules(result)

    def _built(self, form: LinearForm) -> Any:
        return self.know.terms.build(finish_form(self.know, form))

    def _gather(self, node: Any, scale: int, into: LinearForm) -> None:
        """Add scale * node to a form, its atoms simplified."""
        for part, coef in summands(node, scale):
            if type(part) is Mul:
                into.add_form(self.know.terms.product(self._form(part.a), self._form(part.b)), coef)
            else:
                into.add_form(self.know.terms.form(self.simplify(part)), coef)

    def _form(self, node: Any) -> LinearForm:
        return self.know.terms.form(self.simplify(node))

    def _division(self, node: Any) -> Any:
        if not (self.linear and is_index_dtype(node.dtype)):
            return self._binary(node)
        a, b = self._form(node.a), self._form(node.b)
        divide = floordiv_form if type(node) is FloorDiv else floormod_form
        form = divide(self.know, a, b)
        return self._pinned(self._by_rules(self._built(form)))

    def _trunc_division(self, node: Any) -> Any:
        """Where neither operand is negative both kinds of division agree, and floor division is the one
        kept."""
        if not is_index_dtype(node.dtype):
            return self._binary(node)
        a, b = self.simplify(node.a), self.simplify(node.b)
        low_a, low_b = bound_of(self.know, a)[0], bound_of(self.know, b)[0]
        if low_a >= 0 and low_b >= 0 and not (isinstance(b, IntImm) and b.value == 0):
            return self.know.terms.make(FloorDiv if type(node) is Div else FloorMod, a, b)
        return self._binary(node)

    def _extreme(self, node: Any) -> Any:
        if not (self.linear and is_index_dtype(node.dtype)):
            return self._binary(node)
        a, b = self.simplify(node.a), self.simplify(node.b)
        form = extreme_of(self.know, type(node), [a, b])
        return self._by_rules(self._pinned(self.know.terms.build(form)))

    # -- conditions --------------------------------------------------------------------------------

    def _comparison(self, node: Any) -> Any:
        if not (self.linear and is_index_dtype(node.a.dtype)):
            return self._truth_of(self._binary(node))
        difference = LinearForm(node.a.dtype)
        self._gather(node.a, 1, difference)
        self._gather(node.b, -1, difference)
        difference = finish_form(self.know, difference)
        result = compare_forms(self.know, type(node), difference)
        return self._truth_of(self._by_rules(result))

    def _truth_of(self, node: Any) -> Any:
        truths = self.know.facts.truths
        if truths and not isinstance(node, IntImm) and node.dtype.is_bool:
            known = truths.get(self.know.terms.key(node))
            if known is not None:
                return truth(self.know, known)
        return node

    def _connective(self, node: Any) -> Any:
        """a and b, a or b: one side may decide the other."""
        terms = self.know.terms
        a, b = self.simplify(node.a), self.simplify(node.b)
        is_and = type(node) is And
        for one, other in ((a, b), (b, a)):
            if isinstance(one, IntImm) and node.dtype.lanes == 1:
                return other if bool(one.value) is is_and else one
        if a is b:
            return a
        if node.dtype.lanes == 1 and not terms.variables(a).isdisjoint(terms.variables(b)):
            for one, other in ((a, b), (b, a)):
                decided = self._under(one, is_and, other)
                if isinstance(decided, IntImm):
                    return one if bool(decided.value) is is_and else decided
        return self._truth_of(self._by_rules(terms.make(type(node), a, b)))

    def _under(self, condition: Any, holds: bool, node: Any) -> Any:
        """The node simplified where the condition holds, or fails.

        What is known inside does not hold outside, so a shared node is looked at again. After MAX_SCOPES of
        them nothing more is assumed.
        """
        if not self._scopes_left:
            return self.simplify(node)
        self._scopes_left -= 1
        saved = self.know.enter()
        try:
            assume(self.know, condition, holds)
            return self.simplify(node)
        finally:
            self.know.leave(saved)

    def _not(self, node: Not) -> Any:
        a = self.simplify(node.a)
        if isinstance(a, IntImm):
            return truth(self.know, not a.value)
        inner = self.know.terms.intern(Not(a)) if a is not node.a else node
        return self._truth_of(self._by_rules(inner))

    def _choice(self, node: Any) -> Any:
        """select and if_then_else: each value is simplified where the condition holds, or fails."""
        parts = node.args if isinstance(node, Call) else (node.condition, node.true_value, node.false_value)
        condition = self.simplify(parts[0])
        if isinstance(condition, IntImm):
            return self.simplify(parts[1] if condition.value else parts[2])
        if condition.dtype.lanes == 1:
            was_in_select = self._is_in_select
            self._is_in_select = was_in_select or isinstance(node, Select)
            on_true = self._under(condition, True, parts[1])
            on_false = self._under(condition, False, parts[2])
            self._is_in_select = was_in_select
        else:
            on_true, on_false = self.simplify(parts[1]), self.simplify(parts[2])
        if on_true is on_false:
            return on_true
        if condition is parts[0] and on_true is parts[1] and on_false is parts[2]:
            return self._by_rules(node)
        if isinstance(node, Call):
            made: Any = Call(node.dtype, node.op, (condition, on_true, on_false), span=node.span)
        else:
            made = Select(condition, on_true, on_false, span=node.span)
        return self._by_rules(self.know.terms.intern(made))

    def _call(self, node: Call) -> Any:
        if node.op.name == "tir.if_then_else":
            return self._choice(node)
        if self._is_in_select and is_index_check(node):
            return node  # made where the condition does not hold, too
        mapped = self.know.terms.intern(map_children(node, self._child))
        if node.op.name == "tir.likely" and isinstance(mapped.args[0], IntImm):
            return mapped.args[0]
        return self._by_rules(mapped)

    def _let(self, node: Let) -> Any:
        value = self.simplify(node.value)
        if isinstance(value, (IntImm, FloatImm, Var)):
            return self.simplify(self.know.terms.intern(substitute(node.body, {node.var: value})))
        body = self.simplify(node.body)
        if value is node.value and body is node.body:
            return node
        return self.know.terms.intern(Let(node.var, value, body, span=node.span))


_HANDLERS: dict[type, Callable[[Simplifier, Any], Any]] = {
    Var: Simplifier._var,
    Add: Simplifier._sum,
    Sub: Simplifier._sum,
    Mul: Simplifier._sum,
    FloorDiv: Simplifier._division,
    FloorMod: Simplifier._division,
    Div: Simplifier._trunc_division,
    Mod: Simplifier._trunc_division,
    Min: Simplifier._extreme,
    Max: Simplifier._extreme,
    **dict.fromkeys(_COMPARISONS, Simplifier._comparison),
    And: Simplifier._connective,
    Or: Simplifier._connective,
    Not: Simplifier._not,
    Select: Simplifier._choice,
    Call: Simplifier._call,
    Let: Simplifier._let,
}
