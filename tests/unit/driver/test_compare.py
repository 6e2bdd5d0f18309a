"""Comparisons: what counts as agreement, and that a second program is compiled as the first was."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import heddle.driver.compare as compare_module
from heddle.driver.compare import FIGURES, compare, difference
from heddle.driver.models import find_model
from heddle.driver.run import CompileOptions, RunOptions, load_or_compile, run

INF, NAN = np.inf, np.nan


def row_of(got: list[float], expected: list[float], dtype: str = "float32") -> dict:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        row = difference("y", np.array(got, dtype), np.array(expected, dtype))
    json.dumps(row, allow_nan=False)
    return row


@pytest.mark.parametrize(
    ("got", "expected", "agrees"),
    [
        ([1, 2, INF], [1, 2, INF], True),
        ([5, -7, INF], [1, 2, INF], False),
        ([1, 2, -INF], [1, 2, INF], False),
        ([1, 2, NAN], [1, 2, INF], False),
        ([1, INF, 2], [1, 2, INF], False),
        ([1, 2, 3], [1, 2, INF], False),
        ([1, 2, INF], [1, 2, 3], False),
        ([1, 2, NAN], [1, 2, NAN], True),
        ([1, NAN, 2], [1, 2, NAN], False),
        ([NAN, NAN], [NAN, NAN], True),
        ([INF, -INF], [INF, -INF], True),
        ([INF, INF], [INF, -INF], False),
        ([NAN, INF], [1, 2], False),
    ],
)
def test_what_is_not_finite_is_in_the_same_places(
    got: list[float], expected: list[float], agrees: bool
) -> None:
    assert row_of(got, expected)["agrees"] is agrees


def test_a_reason_where_figures_do_not_tell_it() -> None:
    assert "not in the same places" in row_of([1, 2, NAN], [1, 2, INF])["reason"]
    assert "reason" not in row_of([5, -7, INF], [1, 2, INF])


def test_figures_are_over_finite_elements() -> None:
    row = row_of([5, -7, INF, NAN], [1, 2, INF, 100])
    assert [row[name] for name in FIGURES] == [9, 100, 0.09, pytest.approx(6.5 / (103 / 3))]
    nothing = row_of([NAN, INF], [NAN, INF])
    assert [nothing[name] for name in FIGURES] == [None] * 4
    assert nothing["reason"] == "no element is finite in both"
    assert row_of([1.7e308], [-1.7e308], "float64")["max_abs_error"] is None


def test_integers_are_equal_or_not() -> None:
    assert row_of([2**60, 3], [2**60, 3], "int64")["agrees"] is True
    assert row_of([2**60 + 1, 3], [2**60, 3], "int64")["agrees"] is False


MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.exp(x)
"""


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_the_strict_program_is_compiled_in_the_same_mode(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.py").write_text(MODEL)
    model = find_model(str(tmp_path / "m.py"))
    done = run(model, load_or_compile(model, CompileOptions(exec_mode=mode)), RunOptions(repeat=1))
    used: list[str] = []

    def noted(model, options):
        used.append(options.exec_mode)
        return load_or_compile(model, options)

    monkeypatch.setattr(compare_module, "load_or_compile", noted)
    assert compare(model, done, "fp32", 1, 1)["agrees"]
    assert used == [mode]
