"""A few random Relay programs; `python -m tests.fuzz.relay_programs` tries more."""

from __future__ import annotations

import pytest

from heddle import relay
from tests.fuzz.relay_grammar import random_text
from tests.fuzz.relay_programs import Judge, arguments, flat


@pytest.mark.parametrize("seed", range(400))
def test_random_programs(seed: int) -> None:
    assert not Judge(seed).fault(), f"python -m tests.fuzz.relay_programs --seed {seed} --count 1 --show"


def test_programs_are_many_sided() -> None:
    text = "".join(map(random_text, range(60)))
    parts = "match (|if (|ref_write(|ref_read(|@fold(|@map(|@twice(|@compose(|Cons(|Some(|Node(|Make(fn|int64"
    for part in (*parts.split("|"), "Tensor[(?, 3), float32]", "concatenate(", "[A]", "@g", "@r", "@s"):
        assert part in text, part


def test_a_changed_result_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums in the place of products and differences."""
    found = []
    interpreted = Judge.interpreted

    def changed(judge: Judge, mod: object, case: object) -> object:
        text = relay.parse(random_text(judge.seed)).astext(annotate=lambda _: "")
        other = relay.parse(text.replace("subtract(", "add(").replace("multiply(", "add("))
        return interpreted(judge, other, case)

    monkeypatch.setattr(Judge, "interpreted", changed)
    for seed in range(40):
        found.append(Judge(seed).fault())
    assert any("other values" in text for text in found)


def test_a_seed_means_one_program_and_one_call() -> None:
    judges = [Judge(7), Judge(7)]
    cases = [flat(tuple(arguments(judge.rng).values())) for judge in judges]
    assert random_text(7) == random_text(7) and cases[0] == cases[1]
