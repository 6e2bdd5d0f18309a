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
    """Other operators, whose results differ."""
    interpreted = Judge.interpreted

    def changed(judge: Judge, mod: object, case: object) -> object:
        text = relay.parse(random_text(judge.seed)).astext(annotate=lambda _: "")
        for name, another in (("negative(", "abs("), ("maximum(", "minimum("), ("add(", "subtract(")):
            text = text.replace(name, another)
        other = relay.parse(text)
        return interpreted(judge, other, case)

    monkeypatch.setattr(Judge, "interpreted", changed)
    assert any("other values" in Judge(seed).fault() for seed in range(200))


def test_a_seed_means_one_program_and_one_call() -> None:
    judges = [Judge(7), Judge(7)]
    cases = [flat(tuple(arguments(judge.rng).values())) for judge in judges]
    assert random_text(7) == random_text(7) and cases[0] == cases[1]
