"""Rewrite rules and the index that finds them.

Rule("min-of-sum", pmin(x + y, x + z), x + pmin(y, z), algebra="addition is monotonic")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from heddle.arith.const_int_bound import bound_of
from heddle.arith.facts import Bound, Knowledge
from heddle.arith.modular_set import modular_of
from heddle.arith.simplify.pattern import (
    NUM_SLOTS,
    Builder,
    Matcher,
    Operation,
    Pattern,
    Slots,
    Variable,
    as_pattern,
    lanes,
)
from heddle.arith.terms import is_index_dtype
from heddle.prim.nodes import BinaryExpr
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen


class Match:
    """What a guard sees: `m[c1]` is a constant's value, `m.bound(x)` a constant bound."""

    __slots__ = ("_know", "_slots")

    def __init__(self, know: Knowledge, slots: Slots) -> None:
        self._know, self._slots = know, slots

    def __getitem__(self, var: Variable) -> int:
        value: int = self._slots[var.slot].value
        return value

    def dtype(self, var: Variable) -> DataType:
        """The dtype of what a variable matched."""
        result: DataType = self._slots[var.slot].dtype
        return result

    @property
    def lanes(self) -> int:
        """The number that `lanes` matched; the pattern must have it."""
        result: int = self._slots[lanes.slot]
        return result

    def bound(self, var: Variable) -> Bound:
        """The constant bound of what a variable matched."""
        return bound_of(self._know, self._slots[var.slot])

    def is_nonneg(self, *variables: Variable) -> bool:
        """Whether constant bounds say of each of the variables that it is at least 0."""
        return all(self.bound(var)[0] >= 0 for var in variables)

    def is_positive(self, *variables: Variable) -> bool:
        """Whether constant bounds say of each of the variables that it is at least 1."""
        return all(self.bound(var)[0] > 0 for var in variables)

    def is_multiple(self, var: Variable, divisor: int) -> bool:
        """Whether what a variable matched always is a multiple of `divisor`, which must not be 0."""
        coeff, base = modular_of(self._know, self._slots[var.slot])
        return coeff % divisor == 0 and base % divisor == 0


Guard = Callable[[Match], bool]


@frozen
class Rule:
    """pattern → replacement where `when` holds.

    domain: "index" (signed scalars of at least 32 bits, which do not overflow), "wide" (the same or
    vectors of it), "int" (any integers, wrapping), "any" (floats too), "bool". `linear` marks laws that
    linear forms know already, so that they are tried only where there is no linear form.
    """

    name: str
    pattern: Pattern
    replacement: Pattern | int | bool
    when: Guard | None = None
    domain: str = "int"
    linear: bool = False
    algebra: str = ""


def _in_domain(dtype: DataType, domain: str) -> bool:
    if domain == "any":
        return True
    if domain == "index":
        return is_index_dtype(dtype)
    if domain == "wide":
        return is_index_dtype(dtype.element)
    return dtype.is_bool if domain == "bool" else dtype.is_int


@frozen
class CompiledRule:
    rule: Rule
    match: Matcher
    build: Builder

    def apply(self, know: Knowledge, node: Any) -> Any:
        """The replacement of a stored node, or None where the rule does not apply."""
        slots: Slots = [None] * NUM_SLOTS
        if not self.match(node, slots):
            return None
        when = self.rule.when
        if when is not None and not when(Match(know, slots)):
            return None
        return self.build(slots, know.terms, node.dtype)


class RuleIndex:
    """The rules that may apply to a node, found by its class, its operands' classes and its operands'
    dtype."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        compiled = [
            CompiledRule(rule, rule.pattern.matcher(), as_pattern(rule.replacement).builder())
            for rule in rules
        ]
        self._by_root: dict[type, list[CompiledRule]] = {}
        for item in compiled:
            assert item.rule.pattern.root is not None
            self._by_root.setdefault(item.rule.pattern.root, []).append(item)
        self._found: dict[tuple[Any, ...], tuple[CompiledRule, ...]] = {}

    def rewrite(self, know: Knowledge, node: Any, linear: bool) -> Any:
        """The result of the first rule that applies, or None. `linear` leaves out what linear forms know."""
        for item in self._candidates(node, linear):
            result = item.apply(know, node)
            if result is not None and result is not node:
                return result
        return None

    def _candidates(self, node: Any, linear: bool) -> tuple[CompiledRule, ...]:
        cls = type(node)
        if cls not in self._by_root:
            return ()
        if isinstance(node, BinaryExpr):
            first: type | None = type(node.a)
            second: type | None = type(node.b)
            key: tuple[Any, ...] = (cls, first, second, node.a.dtype, linear)
        else:
            first = second = None
            key = (cls, node.dtype, linear)
        found = self._found.get(key)
        if found is None:
            dtype = node.a.dtype if isinstance(node, BinaryExpr) else node.dtype
            found = self._found[key] = tuple(
                item
                for item in self._by_root[cls]
                if _in_domain(dtype, item.rule.domain)
                and not (linear and item.rule.linear and is_index_dtype(dtype))
                and _may_match(item.rule.pattern, first, second)
            )
        return found


def _may_match(pattern: Pattern, first: type | None, second: type | None) -> bool:
    if not isinstance(pattern, Operation) or first is None:
        return True
    return pattern.a.root in (None, first) and pattern.b.root in (None, second)
