"""The figure of ONNX's node tests may only grow, and every case that fails has its reason here."""

from __future__ import annotations

from collections import Counter

from tests.e2e.onnx_conformance import UNSUPPORTED, cases, run

AGREE_AT_LEAST = 1625


def test_node_cases() -> None:
    outcomes = [run(case) for case in cases()]
    counts = Counter(outcome.status for outcome in outcomes)
    print(f"{counts['ok']} of {len(outcomes)} node cases agree")
    wrong = [outcome for outcome in outcomes if outcome.status in ("differs", "crash")]
    assert not wrong, wrong[:5]
    unexplained = [
        outcome
        for outcome in outcomes
        if outcome.status == "unsupported"
        and not any(words in outcome.name or words in outcome.reason for words in UNSUPPORTED)
    ]
    assert not unexplained, [(outcome.name, outcome.reason) for outcome in unexplained[:20]]
    assert counts["ok"] >= AGREE_AT_LEAST
