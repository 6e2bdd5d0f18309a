"""Sampling."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.runtime import tensor
from heddle.support.diagnostics import Trap

from .cache_model import builtin


def f32(*values):
    return tensor(np.array(values, "float32"))


def distribution(rng, n):
    weights = rng.random(n).astype("f4") ** 3
    return weights / weights.sum()


@pytest.mark.fact("9.19")
def test_multinomial_takes_the_first_index_whose_sum_exceeds():
    prob = tensor(np.array([[0.25, 0.5, 0.25]] * 5 + [[0.1, 0.1, 0.1]], "f4"))
    uniform = tensor(np.array([[0.0], [0.24], [0.25], [0.74], [0.99], [0.9]], "f4"))
    chosen = builtin("multinomial_from_uniform")(prob, uniform)
    assert chosen.dtype == "int64"
    assert chosen.numpy().tolist() == [[0], [0], [1], [1], [2], [2]]  # the last row: nothing exceeds


def test_multinomial_has_the_distribution_asked_for():
    rng = np.random.default_rng(0)
    prob, n = distribution(rng, 7), 20000
    chosen = builtin("multinomial_from_uniform")(
        np.tile(prob, (n, 1)), ((np.arange(n) + 0.5) / n).astype("f4")[:, None]
    )
    counts = np.bincount(chosen.numpy()[:, 0], minlength=7) / n
    np.testing.assert_allclose(counts, prob, atol=2e-4)


@pytest.mark.fact("9.19")
@pytest.mark.parametrize("shape", [(9,), (1, 9), (1, 1, 9)])
def test_top_p_keeps_the_fewest_tokens_that_reach_it(shape):
    """Drawn evenly, each kept token comes as often as its share; the others never."""
    rng = np.random.default_rng(1)
    for top_p in (0.0, 0.3, 0.8, 1.0):
        prob = distribution(rng, 9)
        order = np.argsort(-prob, kind="stable")
        kept = order[: int(np.searchsorted(np.cumsum(prob[order], dtype="f8"), top_p)) + 1]
        sample, given = builtin("sample_top_p_from_prob"), tensor(prob.reshape(shape))
        counts = (
            np.bincount([sample(given, top_p, (i + 0.5) / 4000) for i in range(4000)], minlength=9) / 4000
        )
        share = np.zeros(9)
        share[kept] = prob[kept] / prob[kept].sum()
        np.testing.assert_allclose(counts, share, atol=1e-3)


@pytest.mark.fact("9.19")
def test_top_p_from_logits():
    rng = np.random.default_rng(2)
    logits = (rng.standard_normal(11) * 3).astype("f4")
    weights = np.exp(logits.astype("f8") / 0.7)
    prob = tensor((weights / weights.sum()).astype("f4"))
    from_logits, from_prob = builtin("sample_top_p_from_logits"), builtin("sample_top_p_from_prob")
    for uniform in np.linspace(0, 0.999, 97):
        assert from_logits(tensor(logits), 0.7, 0.9, uniform) == from_prob(prob, 0.9, uniform)


@pytest.mark.fact("9.19")
@pytest.mark.parametrize("temperature", [0.0, 1e-7])
def test_no_temperature_means_the_most_probable(temperature):
    logits = f32(0.1, 3.0, 2.9, -1.0)
    for uniform in (0.0, 0.5, 0.999):
        assert builtin("sample_top_p_from_logits")(logits, temperature, 0.95, uniform) == 1


@pytest.mark.fact("9.19")
def test_repetition_penalty():
    logits = f32(2.0, -2.0, 0.0, 5.0, -5.0)
    builtin("apply_repetition_penalty")(logits, tensor(np.array([0, 1, 2], "i4")), 4.0)
    np.testing.assert_allclose(logits.numpy(), [0.5, -8.0, 0.0, 5.0, -5.0])


@pytest.mark.fact("9.19")
def test_presence_and_frequency_penalty():
    logits = tensor(np.array([[1.0, 2.0, 3.0]], "f4"))
    ids, freqs = (tensor(np.array(values, "i4")) for values in ([2, 0], [3, 1]))
    builtin("apply_presence_and_frequency_penalty")(logits, ids, freqs, 0.25, 0.5)
    np.testing.assert_allclose(logits.numpy(), [[1.0 - 0.75, 2.0, 3.0 - 1.75]])


@pytest.mark.fact("9.19")
def test_softmax_with_temperature_in_place():
    rng = np.random.default_rng(3)
    values = (rng.standard_normal(13) * 50).astype("f4")
    logits = tensor(values)
    builtin("apply_softmax_with_temperature")(logits, 1.7)
    weights = np.exp((values.astype("f8") - values.max()) / 1.7)
    np.testing.assert_allclose(logits.numpy(), weights / weights.sum(), rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("apply_softmax_with_temperature", (f32(1.0), 0.0), "V0403.*positive temperature, got 0.0"),
        ("apply_softmax_with_temperature", (f32(), 1.0), "V0403.*at least one element"),
        ("sample_top_p_from_prob", (tensor(np.ones((2, 3), "f4")), 0.5, 0.5), "V0403.*one row"),
        ("sample_top_p_from_prob", (tensor(np.ones(3, "f8")), 0.5, 0.5), "V0708.*float32, got float64"),
        ("sample_top_p_from_logits", (f32(1.0, 2.0), -1.0, 0.5, 0.5), "V0403.*positive temperature"),
        ("sample_top_p_from_logits", (3, 1.0, 0.5, 0.5), "V0402.*expected a tensor, got int"),
        (
            "apply_repetition_penalty",
            (f32(1.0, 2.0), tensor(np.array([2], "i4")), 2.0),
            "V0403.*expected 0 to 1, got 2 to 2",
        ),
        ("multinomial_from_uniform", (tensor(np.ones((2, 3), "f4")), f32(0.5)), "V0708.*uniform"),
        ("multinomial_from_uniform", (tensor(np.ones((1, 0), "f4")), tensor(np.ones((1, 1), "f4"))), "V0403"),
    ],
)
def test_bad_arguments(name, arguments, message):
    with pytest.raises(Trap, match=message):
        builtin(name)(*arguments)
