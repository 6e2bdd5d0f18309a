"""Arguments from signatures: dimensions, checks, made-up values."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.driver.inputs import make_arguments
from heddle.driver.signature import Signature, TensorSpec, evaluate_dim, signature_from_json
from heddle.runtime.size_text import names_in
from heddle.support.diagnostics import FormatError, UsageError

SIGNATURE = Signature(
    (
        TensorSpec("x", "float32", ("n", 4)),
        TensorSpec("y", "int64", ("n * 2 + m", 1)),
        TensorSpec("z", "bool", ("m",)),
    ),
    (TensorSpec("out", "float32", None),),
)


def test_dimensions_are_solved_from_what_is_given() -> None:
    made = make_arguments(SIGNATURE, {"x": np.zeros((3, 4), "float32")}, {"m": 5})
    assert {name: array.shape for name, array in made.arrays.items()} == {
        "x": (3, 4),
        "y": (11, 1),
        "z": (5,),
    }
    assert made.assumed == ()


def test_unknown_dimensions_are_one() -> None:
    made = make_arguments(SIGNATURE, {}, {})
    assert made.assumed == ("n", "m")
    assert made.arrays["y"].shape == (3, 1)


def test_a_seed_gives_the_same_values_again() -> None:
    first, again, other = (make_arguments(SIGNATURE, {}, {"n": 9}, seed).arrays["x"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_computed_dimension_is_checked() -> None:
    with pytest.raises(UsageError, match=r"D0202.*n \* 2 \+ m = 7 at axis 0 of .*, got 8"):
        make_arguments(SIGNATURE, {"y": np.zeros((8, 1), "int64")}, {"n": 3, "m": 1})


def test_all_wrong_inputs_are_told_at_once() -> None:
    given = {"x": np.zeros((3, 4)), "z": np.zeros((1, 1), bool)}
    with pytest.raises(UsageError) as failure:
        make_arguments(SIGNATURE, given, {})
    assert len(failure.value.diagnostics) == 2


def test_a_signature_survives_json() -> None:
    assert signature_from_json(SIGNATURE.to_json()) == SIGNATURE


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"inputs": [{}], "outputs": []}', '{"inputs": 3, "outputs": []}', "[" * 100_000]
    + [
        SIGNATURE.to_json().replace(f'"{key}": {value}', f'"{key}": {wrong}', 1)
        for key, value, wrong in [
            ("dtype", '"float32"', "5"),
            ("dtype", '"float32"', '["float32"]'),
            ("name", '"x"', "3"),
            ("kind", '"tensor"', "null"),
            ("shape", "[", '"n", "": ['),
            ("shape", "[", "[1e999, "),
        ]
    ],
)
def test_a_malformed_signature_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="D0204"):
        signature_from_json(text)


def test_dimension_texts() -> None:
    assert set(names_in("(n + m) // 2 % k")) == {"n", "m", "k"}
    assert evaluate_dim("(n + 1) // 2", {"n": 4}) == 2
    assert evaluate_dim("n", {}) is None
    with pytest.raises(FormatError, match="F0108"):
        evaluate_dim("n ** 2", {"n": 4})
    with pytest.raises(UsageError, match="U0901"):
        evaluate_dim("n // m", {"n": 4, "m": 0})
    assert evaluate_dim("min(n, 3) - -m % 4 + max(-2, 1)", {"n": 4, "m": 5}) == 3 - -5 % 4 + 1


@pytest.mark.parametrize("count", [10, 500, 950, 1500, 6000, 20_000])
def test_deep_dimension_texts_are_evaluated_or_refused(count: int) -> None:
    for text, expected in (
        ("+".join(["n"] * count), count),
        ("-" * (2 * count) + "n", 1),
        ("(" * count + "n" + ")" * count, 1),
        ("min(n," * count + "n" + ")" * count, 1),
    ):
        assert number_or_code(text) in ((expected,) if count == 10 else (expected, "F0108"))


def number_or_code(text: str) -> int | str | None:
    try:
        return evaluate_dim(text, {"n": 1})
    except FormatError as error:
        return error.code


@pytest.mark.parametrize(
    "text", ["9" * 400, "n" + " * n" * 200, "n ** 2", "min(n)", "block(n, n)", "n + x.y"]
)
def test_dimension_texts_that_are_refused(text: str) -> None:
    with pytest.raises(FormatError, match="F0108") as failure:
        evaluate_dim(text, {"n": 4, "x": 1})
    assert len(str(failure.value)) < 200


def test_a_wrong_size_is_told() -> None:
    with pytest.raises(UsageError, match=r"(?s)D0202.*at axis 0.*got 8"):
        make_arguments(SIGNATURE, {"y": np.zeros((8, 1), "int64")}, {"n": 3, "m": 1})
