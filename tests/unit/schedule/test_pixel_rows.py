"""Convolutions of single pixels over rows of another length: which, and that they compute the same."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.ir import assert_structural_equal
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.analysis.blocks import plain_nests
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.tir.schedule.rules import convolution
from heddle.tir.schedule.rules.convolution_tile import Convolution, find_convolution, row_length
from heddle.tir.schedule.rules.pixel_rows import with_rows_of
from tests.unit.lower.test_convolutions import Case, correlated, image, scheduled

NARROW = Target("llvm -vector-width=256 -l1-cache-bytes=32768 -l2-cache-bytes=524288")
"""Of 16 registers: tiles of 6 pixels are the best, and divide few rows."""


def _taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fills with the lengths of rows that are chosen while something compiles."""
    taken: list[int] = []

    def watched(func: PrimFunc, length: int) -> Any:
        made = with_rows_of(func, length)
        if made is not None:
            taken.append(length)
        return made

    monkeypatch.setattr(convolution, "with_rows_of", watched)
    return taken


CASES = (
    (Case(32, 48, (14, 14), 1, "n"), 28),
    (Case(64, 32, (28, 28), 1), 196),
    (Case(16, 128, (7, 7), 1, 2), 49),
    (Case(32, 32, (1, 196), 1), 49),
    (Case(24, 16, (9, 20), 1, 3), 30),
)


@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize("case", [case for case, _ in CASES], ids=str)
def test_results_are_those_of_plain_sums(case: Case, sanitize: bool) -> None:
    rng = np.random.default_rng(crc32(str(case).encode()))
    weights, x = case.weights(rng), image(case, rng)
    made = heddle.compile(case.module(weights), target=NARROW, sanitize=sanitize)
    want, got = case.expected(x, weights), relax.VirtualMachine(made, heddle.cpu())["main"](x).numpy()
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


@pytest.mark.parametrize(("case", "length"), CASES, ids=str)
def test_rows_are_as_long_as_tiles_like(case: Case, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = _taken(monkeypatch)
    scheduled(case.module(case.weights(np.random.default_rng(0))), NARROW)
    assert length in taken


@pytest.mark.parametrize(
    "case",
    [
        Case(32, 48, (14, 14), 3, 1, {"padding": 1, "strides": 2}),
        Case(32, 48, (14, 14), 1, 1, {"strides": 2}),
        Case(32, 48, (14, 14), 1, 1, {"padding": 1}),
        Case(32, 48, (14, 14), 2),
    ],
    ids=str,
)
def test_pixels_that_are_made_of_others_keep_their_rows(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first convolution of a case, of other channels, reads single pixels."""
    seen: list[tuple[Convolution, int | None]] = []

    def watched(conv: Convolution, *rest: Any) -> int | None:
        seen.append((conv, row_length(conv, *rest)))
        return seen[-1][1]

    monkeypatch.setattr(convolution, "row_length", watched)
    rng = np.random.default_rng(0)
    scheduled(case.module(case.weights(rng)), NARROW)
    own = [length for conv, length in seen if conv.extent(conv.c) == case.outs // 8]
    assert own and not any(own)


_JOINED = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 32, 14, 14), "float32"), w: R.Tensor((32, 32, 1, 1), "float32"),
             v: R.Tensor((32, 32, 3, 3), "float32")):
        with R.dataflow():
            t = R.nn.relu(R.nn.conv2d(x, v, padding=1))
            y = R.nn.relu(R.add(R.nn.conv2d(t, w), t))
            z = R.nn.conv2d(y, v, padding=1)
            R.output(z)
        return z
"""


def test_what_is_added_runs_over_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum with an image of the same rows is a part of the kernel; the results are those of plain sums."""
    taken, rng = _taken(monkeypatch), np.random.default_rng(3)
    x = rng.standard_normal((2, 32, 14, 14)).astype("float32")
    w, v = (rng.standard_normal(shape).astype("float32") / 9 for shape in ((32, 32, 1, 1), (32, 32, 3, 3)))
    mod = relax.transform.BindParams("main", {"w": w, "v": v})(from_source(_JOINED))
    made = heddle.compile(mod, target=NARROW)
    assert taken
    t = np.maximum(correlated(x, v, padding=1), 0)
    want = correlated(np.maximum(correlated(t, w) + t, 0), v, padding=1)
    got = relax.VirtualMachine(made, heddle.cpu())["main"](x).numpy()
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


FILLED = (
    Case(2, 3, (128, 5), 1),
    Case(16, 17, (14, 14), 1, "n"),
    Case(8, 3, (64, 1), 1, 2),
    Case(8, 20, (50, 7), 1),
    Case(32, 9, (256, 2), 1),
)
"""To channels that do not fill whole blocks."""


@pytest.mark.parametrize("case", FILLED, ids=str)
def test_tiles_fit_rows_that_cannot_have_another_length(case: Case) -> None:
    """Longer rows would be better, but blocks that leave out channels keep the rows that there are. A rule
    that fails is an error here."""
    rng = np.random.default_rng(crc32(str(case).encode()))
    weights, x = case.weights(rng), image(case, rng)
    made = heddle.compile(case.module(weights), target=NARROW, sanitize=True)
    want, got = case.expected(x, weights), relax.VirtualMachine(made, heddle.cpu())["main"](x).numpy()
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


_SPLIT = """
@T.prim_func
def main(A: T.Buffer((1, 2, 4, 6, 8), "float32"), W: T.Buffer((3, 2, 1, 1, 8, 8), "float32"),
         C: T.Buffer((1, 3, {rows}, 6, 8), "float32")):
    for n, c, h, w, o, k, r, s, i in T.grid(1, 3, 4, 6, 8, 2, 1, 1, 8):
        with T.sblock("conv2d"):
            vn, vc, vh, vw, vo, vk, vr, vs, vi = T.axis.remap("SSSSSRRRR", [n, c, h, w, o, k, r, s, i])
            with T.init():
                C[vn, vc, vh, vw, vo] = 0.0
            C[vn, vc, vh, vw, vo] = C[vn, vc, vh, vw, vo] + A[vn, vk, vh + vr, vw + vs, vi] * W[
                vc, vk, vr, vs, vi, vo]
"""


def test_loops_get_their_own_buffers_back() -> None:
    func = from_source(_SPLIT.format(rows=4))
    assert find_convolution(plain_nests(func) or []) is not None
    made = with_rows_of(func, 12)
    assert made is not None
    assert [int(dim) for dim in made.func.buffers[0].shape] == [1, 2, 2, 12, 8]
    assert [int(dim) for dim in made.func.buffers[2].shape] == [1, 3, 2, 12, 8]
    back = made.taken_back(made.func)
    assert_structural_equal(back.buffer_map[back.params[0]].shape, func.buffer_map[func.params[0]].shape)
    rng = np.random.default_rng(1)
    a, w = (rng.standard_normal(shape).astype("float32") for shape in ((1, 2, 4, 6, 8), (3, 2, 1, 1, 8, 8)))
    results = []
    for each in (func, back):
        c = np.full((1, 3, 4, 6, 8), np.nan, "float32")
        run_primfunc(each, a, w, c)
        results.append(c)
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize(("rows", "length"), [(4, 5), (4, 7), (5, 12)])
def test_rows_that_leave_something_over_are_refused(rows: int, length: int) -> None:
    """Rows that do not divide the image, and a result with more rows than are computed."""
    assert with_rows_of(from_source(_SPLIT.format(rows=rows)), length) is None
