"""Every fact of facts.toml that programs can observe has a test that says so, and no test claims another.

The tests are read, not collected: a run of a few of them checks the whole list.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[2]
FACTS: dict[str, dict[str, str]] = {
    number: fact
    for chapter in tomllib.loads(Path(__file__).with_name("facts.toml").read_text()).values()
    for number, fact in chapter.items()
}


def claims() -> Iterator[tuple[str, str]]:
    """Fact and test, for every `pytest.mark.fact` on a test function that pytest collects."""
    for file in sorted(TESTS.rglob("test_*.py")):
        text = file.read_text()
        if "mark.fact" not in text:
            continue
        for node in ast.parse(text).body:
            is_test = isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            where = f"{file.relative_to(TESTS)}::{getattr(node, 'name', type(node).__name__)}"
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fact":
                    assert is_test, f"{where} is no test"
                    assert mark.args, f"{where}: a mark names its facts"
                    yield from ((ast.literal_eval(number), where) for number in mark.args)


COVERED: dict[str, list[str]] = {}
for _number, _where in claims():
    COVERED.setdefault(_number, []).append(_where)


def test_tests_claim_known_facts_only() -> None:
    unknown = {number: tests for number, tests in COVERED.items() if number not in FACTS}
    assert not unknown


def test_every_observable_fact_has_a_test_or_a_reason() -> None:
    silent = [
        f"{number}: {fact['says']}"
        for number, fact in FACTS.items()
        if fact["mark"] and number not in COVERED and not fact.get("reason")
    ]
    assert not silent


def test_a_fact_with_a_test_needs_no_reason() -> None:
    assert [number for number in COVERED if FACTS.get(number, {}).get("reason")] == []


def test_the_list_is_well_formed() -> None:
    for number, fact in FACTS.items():
        assert fact["mark"] in ("T", "S", ""), number
        assert fact["says"] and fact.keys() <= {"mark", "says", "reason"}, number
    assert {number.split(".")[0] for number in FACTS} == {str(chapter) for chapter in range(1, 13)}
