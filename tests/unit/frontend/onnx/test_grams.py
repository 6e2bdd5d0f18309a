"""TfIdfVectorizer: n-grams of integers and strings, few and many, against ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest

import heddle
from heddle.frontend.onnx import from_onnx
from heddle.frontend.onnx.ops.text.cuckoo import cuckoo_table
from heddle.support.diagnostics import HeddleError
from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared


@dataclass(frozen=True, slots=True)
class Pool:
    """n-grams of 1, 2, ... words, drawn at random, and where each length begins."""

    vocabulary: list[Any]
    words: list[Any]
    counts: list[int]
    size: int


def pool_of(rng: np.random.Generator, vocabulary: list[Any], sizes: list[int]) -> Pool:
    words, counts, size = [], [], 0
    for length, count in enumerate(sizes, 1):
        counts.append(len(words))
        found = {tuple(rng.integers(0, len(vocabulary), length)) for _ in range(count)}
        words += [vocabulary[at] for gram in found for at in gram]
        size += len(found)
    return Pool(vocabulary, words, counts, size)


def model_of(pool: Pool, dims: list[Any], columns: list[int] | None = None, **attrs: Any) -> onnx.ModelProto:
    is_text = isinstance(pool.vocabulary[0], str)
    made = node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        ngram_counts=pool.counts,
        ngram_indexes=list(range(pool.size)) if columns is None else columns,
        **{"pool_strings" if is_text else "pool_int64s": pool.words},
        **attrs,
    )
    return model([made], {"x": (dims, "string" if is_text else "int64")}, ["y"], opset=9)


def draw(rng: np.random.Generator, pool: Pool, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Words of the pool, and now and then one that is none."""
    is_text = isinstance(pool.vocabulary[0], str)
    words = np.asarray([*pool.vocabulary, "none" if is_text else -77], object)
    return rng.choice(words, shape).astype(object if is_text else np.int64)


@pytest.mark.parametrize(
    ("mode", "is_text", "sizes"),
    [
        ("TF", False, [0, 5, 4]),
        ("TF", True, [60, 120]),
        ("IDF", True, [0, 5, 4]),
        ("TFIDF", True, [3, 2]),
        ("TFIDF", False, [60, 120, 40]),
    ],
)
def test_counts(mode: str, is_text: bool, sizes: list[int]) -> None:
    rng = np.random.default_rng()
    vocabulary = [f"wörd {i}" if is_text else 3 * i - 9 for i in range(max(sizes))]
    pool = pool_of(rng, vocabulary, sizes)
    weights = rng.random(pool.size).tolist()
    columns = rng.permutation(pool.size).tolist()
    made = model_of(
        pool,
        ["n", "m"],
        columns,
        mode=mode,
        min_gram_length=1 if sizes[0] else 2,
        max_gram_length=len(sizes),
        max_skip_count=1,
        weights=weights,
    )
    session = heddle.Session(made)
    for shape in ((3, 40), (1, 2), (2, 1)):
        x = draw(rng, pool, shape)
        (wanted,) = Compared.session_of(made).run(None, {"x": x})
        np.testing.assert_allclose(session.run({"x": x})["y"], wanted, rtol=1e-5)


@pytest.mark.parametrize("count", [4, 200])
def test_several_grams_have_one_column_and_one_row_is_taken(count: int) -> None:
    rng = np.random.default_rng(count)
    pool = pool_of(rng, list(range(count)), [count])
    columns = [at // 2 for at in range(pool.size)]
    attrs = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0}
    compared = Compared(model_of(pool, ["m"], columns, **attrs))
    assert compared.check({"x": draw(rng, pool, (50,))}) == "equal"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool_int64s": [2, 2, 1, 2, 1, 1]}, "has an n-gram of length 1 twice"),
        ({"pool_int64s": [1, 2, 1, 1, 1, 1]}, "has an n-gram of length 2 twice"),
        ({"ngram_counts": [0, 9]}, r"ngram_counts \[0, 9\] do not fit a pool of 6"),
        ({"ngram_counts": [0, 1]}, r"ngram_counts \[0, 1\] do not fit a pool of 6"),
        ({"ngram_indexes": [0, 1]}, "2 columns for 4 n-grams"),
        ({"ngram_indexes": [0, 1, -2, 3]}, "negative column -2"),
        ({"pool_strings": ["a"]}, "either pool_strings or pool_int64s must be given"),
        (
            {"pool_int64s": None, "pool_strings": list("ababcd")},
            "the pool has strings, and the input is int64",
        ),
        ({"mode": "FT"}, "mode must be TF, IDF or TFIDF, got 'FT'"),
    ],
)
def test_malformed(changes: dict[str, Any], message: str) -> None:
    attrs = {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 0,
        "ngram_counts": [0, 2],
        "ngram_indexes": [0, 1, 2, 3],
        "pool_int64s": [1, 2, 1, 1, 2, 1],
        **changes,
    }
    given = {name: value for name, value in attrs.items() if value is not None}
    made = model(
        [node("TfIdfVectorizer", ["x"], ["y"], **given)], {"x": (["n", "m"], "int64")}, ["y"], opset=9
    )
    with pytest.raises(HeddleError, match=message):
        from_onnx(made)


@pytest.mark.parametrize(
    "keys",
    [
        np.zeros(0, np.int64),
        np.asarray([0]),
        np.asarray([-(1 << 63), -1, 0, 1, (1 << 63) - 1]),
        np.arange(3000) << 50,
        np.random.default_rng(0).integers(-(1 << 63), (1 << 63) - 1, 5000),
    ],
    ids=["none", "zero", "ends", "high bits", "random"],
)
def test_each_key_lies_in_one_of_two_slots(keys: np.ndarray[Any, Any]) -> None:
    table = cuckoo_table(keys)
    found = np.zeros(len(keys), int)
    for factor, places in zip(table.factors, table.places, strict=True):
        found += places[(keys * np.int64(factor) >> table.shift) & (len(places) - 1)] == np.arange(len(keys))
        assert len(places) <= 4 * max(len(keys), 1)
    np.testing.assert_array_equal(found, 1)
