"""Strings as states of loops, and as what either branch gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from heddle.driver.backend import HeddleBackend
from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import HeddleError

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
LOOP = """
main (string[2] s, int64 n) => (string[2] z, int64 count) {
    go = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    z, count = Loop (n, go, s, zero) <body = turn (int64 i, bool c, string[2] t, int64 k)
        => (bool d, string[2] u, int64 m) {
        d = Identity (c)
        u = StringConcat (t, s)
        one = Constant <value = int64 {1}> ()
        m = Add (k, one)
    }>
}
"""
BRANCH = """
main (string[2] s, bool n) => (string[2] z) {
    z = If (n) <
        then_branch = first () => (string[2] a) { a = StringConcat (s, s) },
        else_branch = second () => (string[2] b) { b = Identity (s) }
    >
}
"""
RANKS = LOOP.replace("u = StringConcat (t, s)", "v = StringConcat (t, s) u, counts = StringSplit (v)")


def run(text: str, mode: str, *given: Any) -> list[Any]:
    """What Heddle gives, which is what ONNX Runtime gives."""
    model = onnx.parser.parse_model(HEAD + text)
    names = [value.name for value in model.graph.input]
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(
        None, dict(zip(names, given, strict=True))
    )
    got = list(HeddleBackend.prepare(model, exec_mode=mode).run(list(given)))
    for mine, its in zip(got, wanted, strict=True):
        assert np.asarray(mine).tolist() == np.asarray(its).tolist()
    return got


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_loop_carries_strings(turns: int, mode: str) -> None:
    given = np.array(["ab", ""], object)
    text, count = run(LOOP, mode, given, np.array(turns))
    assert count == turns
    assert np.asarray(text).tolist() == ["ab" * (turns + 1), ""]


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("taken", [True, False])
def test_branches_give_strings(taken: bool, mode: str) -> None:
    (made,) = run(BRANCH, mode, np.array(["ab", "c"], object), np.array(taken))
    assert np.asarray(made).tolist() == (["abab", "cc"] if taken else ["ab", "c"])


def test_a_rank_that_changes_is_refused() -> None:
    with pytest.raises(HeddleError) as caught:
        from_onnx(onnx.parser.parse_model(HEAD + RANKS))
    assert caught.value.code == "N0106"
