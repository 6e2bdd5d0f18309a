"""Each rule of each table, by brute force over small values, where its guard holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from expressions import show

from heddle.arith.facts import Knowledge
from heddle.arith.rules import ALL_RULES, RULE_INDEX
from heddle.arith.simplify.pattern import (
    NUM_SLOTS,
    Choice,
    Fields,
    Literal,
    Operation,
    Variable,
    as_pattern,
)
from heddle.arith.simplify.rule import CompiledRule, Rule
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import BOOL, EQ, GE, GT, LE, LT, NE, And, Broadcast, Not, Or, Ramp, Select, Var
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import TrapValueError

MULTIPLES = range(-8, 9, 8)
RANGES = (range(-3, 4), range(4), range(4, 7), range(-9, -6), MULTIPLES)
CONSTANTS = (-4, -2, -1, 0, 1, 2, 3, 4, 6, 8)
FLOATS = (0.0, -0.0, 1.5, -2.0, float("inf"), float("-inf"), float("nan"))
LANES = 3


def dtypes_of(pattern: Any, dtype: DataType, found: dict[int, DataType]) -> None:
    """The dtype of each variable of a pattern whose value has `dtype` (operands of comparisons apart)."""
    if isinstance(pattern, Variable):
        found.setdefault(pattern.slot, dtype)
        return
    if isinstance(pattern, Operation):
        inner = dtype
        if pattern.root in (EQ, NE, LT, LE, GT, GE):
            inner = VALUE[0]
        elif pattern.root in (And, Or):
            inner = BOOL
        for side in (pattern.a, pattern.b):
            dtypes_of(side, inner, found)
    elif isinstance(pattern, Fields):
        for index, item in enumerate(pattern.fields):
            if pattern.root in (Ramp, Broadcast) and item is pattern.fields[-1]:
                continue
            dtypes_of(
                item, BOOL if pattern.root is Not or (pattern.root is Select and index == 0) else dtype, found
            )
    elif isinstance(pattern, Choice):
        for index, item in enumerate(pattern.args):
            dtypes_of(item, BOOL if index == 0 else dtype, found)


VALUE = [DataType("int64")]


def has_lanes(pattern: Any) -> bool:
    return any(var.name == "lanes" for var in pattern.variables())


def instances(rule: Rule, dtype: DataType) -> Iterator[tuple[Knowledge, list[Any], dict[Var, Any]]]:
    """Slots filled with variables of known ranges and with constants, and the domain of the variables."""
    VALUE[0] = dtype
    kinds: dict[int, DataType] = {}
    is_condition = rule.domain == "bool" or rule.pattern.root in (LT, LE, GT, GE, EQ, NE, And, Or, Not)
    dtypes_of(rule.pattern, BOOL if is_condition else dtype, kinds)
    variables = sorted(
        {v.slot: v for v in rule.pattern.variables() if v.name != "lanes"}.values(), key=lambda v: v.slot
    )
    free = [v for v in variables if not v.constant]
    bound = [v for v in variables if v.constant]
    for constants in itertools.product(CONSTANTS, repeat=len(bound)):
        if dtype.is_unsigned and min(constants, default=0) < 0:
            continue
        for ranges in itertools.product(RANGES if dtype.is_int else (FLOATS,), repeat=min(len(free), 1)):
            know = Knowledge()
            slots: list[Any] = [None] * NUM_SLOTS
            slots[8] = LANES
            domain: dict[Var, Any] = {}
            for v, value in zip(bound, constants, strict=True):
                slots[v.slot] = know.terms.const(kinds.get(v.slot, dtype), value)
            for index, v in enumerate(free):
                var = know.terms.intern(Var(v.name, kinds.get(v.slot, dtype)))
                slots[v.slot] = var
                chosen: Any = ranges[0] if index == 0 else RANGES[index % 2]
                if var.dtype.is_bool:
                    chosen = (False, True)
                if var.dtype.is_float:
                    chosen = FLOATS
                if dtype.is_unsigned and not var.dtype.is_bool:
                    chosen = range(index * 3, index * 3 + 5)
                domain[var] = chosen
                if chosen is MULTIPLES:
                    know.facts.moduli[know.terms.key(var)] = (8, 0)
                if var.dtype.is_int:
                    know.facts.bounds[know.terms.key(var)] = (min(chosen), max(chosen))
            yield know, slots, domain


def build(know: Knowledge, pattern: Any, slots: list[Any], dtype: DataType) -> Any:
    return as_pattern(pattern).builder()(slots, know.terms, dtype)


def raw(know: Knowledge, pattern: Any, slots: list[Any], dtype: DataType) -> Any:
    """The pattern as an expression, not folded."""
    if isinstance(pattern, Operation):
        first, second = (pattern.b, pattern.a) if isinstance(pattern.a, Literal) else (pattern.a, pattern.b)
        inner = (
            VALUE[0]
            if pattern.root in (EQ, NE, LT, LE, GT, GE)
            else BOOL
            if pattern.root in (And, Or)
            else dtype
        )
        one = raw(know, first, slots, inner)
        other = raw(know, second, slots, one.dtype)
        return know.terms.make(pattern.root, *((other, one) if first is pattern.b else (one, other)))
    if isinstance(pattern, Fields):
        parts = []
        for index, item in enumerate(pattern.fields):
            is_condition = pattern.root is Not or (pattern.root is Select and index == 0)
            parts.append(raw(know, item, slots, BOOL if is_condition else dtype))
        return know.terms.intern(pattern.root(*parts))
    return build(know, pattern, slots, dtype)


def domain_dtypes(rule: Rule) -> tuple[DataType, ...]:
    if rule.name.startswith("float"):
        return (DataType("float32"),)
    if rule.domain in ("index", "wide"):
        return (DataType("int64"),)
    if rule.domain == "bool" and rule.name.startswith("select"):
        return (BOOL,)
    if rule.domain == "any" and not has_lanes(rule.pattern):
        return (DataType("int64"), DataType("float32"))
    return (DataType("int64"), DataType("int8"), DataType("uint8"))


def same(a: Any, b: Any) -> bool:
    if np.ndim(a):
        return bool(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f"))
    if isinstance(a, float) and isinstance(b, float):
        return a.hex() == b.hex()
    return bool(a == b)


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.name)
def test_rule_keeps_values(rule: Rule) -> None:
    compiled = CompiledRule(rule, rule.pattern.matcher(), as_pattern(rule.replacement).builder())
    fired = 0
    for dtype in domain_dtypes(rule):
        for know, slots, domain in instances(rule, dtype):
            node = raw(know, rule.pattern, slots, dtype)
            result = compiled.apply(know, node)
            if result is None:
                continue
            fired += 1
            assert result.dtype == node.dtype, f"{show(node)} -> {show(result)}"
            for values in itertools.islice(itertools.product(*domain.values()), 400):
                point = dict(zip(domain, values, strict=True))
                try:
                    expected = evaluate(node, point)
                except TrapValueError:
                    continue
                assert same(evaluate(result, point), expected), f"{show(node)} -> {show(result)} at {values}"
            if fired > 60 * (1 + len(domain_dtypes(rule))):
                break
    assert fired, "the guard never holds"


def test_names_are_unique_and_laws_are_stated() -> None:
    names = [rule.name for rule in ALL_RULES]
    assert len(names) == len(set(names))
    assert all(rule.algebra for rule in ALL_RULES)


def test_index_finds_every_rule() -> None:
    """A rule must be reachable through the index by the classes of its own pattern."""
    for rule in ALL_RULES:
        for know, slots, _ in instances(rule, domain_dtypes(rule)[0]):
            node = raw(know, rule.pattern, slots, domain_dtypes(rule)[0])
            names = [item.rule.name for item in RULE_INDEX._candidates(node, linear=False)]
            assert rule.name in names
            break
