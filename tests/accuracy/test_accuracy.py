"""Some forms of every family at their smaller sizes; all of it: `python -m benchmarks.accuracy --check`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.accuracy.families import FORMS, Verdict, families, in_ci
from tests.accuracy.forms import Expected, Form
from tests.accuracy.measure import difference, outcomes
from tests.accuracy.values import LEAST, LEAST_NORMAL, mixed, subnormal

IN_CI = [form for form in FORMS if form.in_ci]


@pytest.mark.parametrize("form", IN_CI, ids=lambda form: f"{form.family}: {form.name}")
def test_kernels_are_within_tolerance_with_the_same_bits_for_all_threads(form: Form) -> None:
    runs = list(outcomes(in_ci(form)))
    assert runs
    assert not [(run.where, run.error, run.ulp, run.same_bits) for run in runs if not run.is_ok]


def test_every_family_has_a_form_in_ci() -> None:
    assert {form.family for form in IN_CI} == set(families())


def test_names_tell_forms_apart() -> None:
    names = [(form.family, form.name) for form in FORMS]
    assert len(set(names)) == len(names)


def test_subnormal_numbers_are_kept() -> None:
    """Products, sums, roots and exponentials: neither operands nor results are flushed."""
    chosen = [
        form for form in FORMS if form.in_ci and form.family in ("matmul", "sum", "softmax", "exp", "sqrt")
    ]
    runs = [
        run for form in chosen for run in outcomes(dataclasses.replace(in_ci(form), values=("subnormal",)))
    ]
    assert runs and all(run.is_ok for run in runs)


@pytest.mark.parametrize(
    ("got", "want", "wrong"),
    [
        ([1.0, 2.0], [1.0, 2.0], False),
        ([1.0, 2.0], [1.0, 2.001], True),
        ([1.0, np.nan], [1.0, 2.0], True),
        ([np.nan, 2.0], [np.nan, 2.0], False),
        ([np.inf, 2.0], [1e39, 2.0], False),
        ([3e38, 2.0], [np.inf, 2.0], True),
        ([0.0, 2.0], [-0.0, 2.0], True),
        ([0.0, 2.0], [10 * LEAST, 2.0], True),
        ([3 * LEAST, 2.0], [4 * LEAST, 2.0], False),
    ],
)
def test_differences_count(got: list[float], want: list[float], wrong: bool) -> None:
    expected = Expected((np.array(want),), steps=1)
    error, _ulp, _relative = difference([np.array(got, np.float32)], expected, "rounded", with_signs=True)
    assert (error > 1.0) is wrong


def test_shape_dtype_and_number_of_results_count() -> None:
    expected = Expected((np.ones(3),))
    for got in ([np.ones(4, np.float32)], [np.ones(3, np.float16)], []):
        assert difference(got, expected, "rounded")[0] == np.inf


def test_a_verdict_names_the_worst_run() -> None:
    form = next(form for form in FORMS if form.name == "exp")
    runs = list(outcomes(dataclasses.replace(form, sizes=form.sizes[:1])))
    bad = dataclasses.replace(runs[0], error=7.0, same_bits=False, values="some")
    line = Verdict("exp", 1, [*runs, bad]).line()
    assert "7.000 of the tolerance" in line and "BITS DIFFER" in line and "1 WRONG" in line
    assert line.endswith("exp [1×1] some")


def test_values_are_of_their_class() -> None:
    rng = np.random.default_rng(1)
    small = np.abs(subnormal(rng, (1000,)))
    assert small.min() >= LEAST and small.max() < LEAST_NORMAL
    blend = mixed(rng, (1000,))
    assert np.signbit(blend[blend == 0]).any() and (~np.signbit(blend[blend == 0])).any()
