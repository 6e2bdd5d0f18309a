"""ONNX's node tests with constants where models have them: none is wrong, and none is refused that is not
refused with inputs too."""

from __future__ import annotations

from tests.e2e.onnx_board import refusals
from tests.e2e.onnx_conformance import chosen, run


def test_node_cases() -> None:
    outcomes = [run(case) for case in chosen()]
    wrong = [item for item in outcomes if item.status == "wrong"]
    assert not wrong, wrong[:5]
    known = refusals()
    unlisted = [item for item in outcomes if item.status == "refused" and f"node/{item.name}" not in known]
    assert not unlisted, unlisted[:20]
