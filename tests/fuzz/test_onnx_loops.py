"""Random Loop and Scan models give the same in every way that they are compiled."""

from __future__ import annotations

import pytest

from tests.fuzz.onnx_loops import judge


@pytest.mark.parametrize("seed", range(12))
def test_loops(seed: int) -> None:
    kind, said = judge(seed)
    assert kind in ("ok", "refused"), said
