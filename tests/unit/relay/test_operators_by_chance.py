"""Numbers by chance as functions of a key; sums of segments; what is said about values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.test_operators_that_compute_sizes import floats, run


def key(*words: int) -> Any:
    return np.array([*words, *[0] * (10 - len(words))], "uint64")


def test_words_are_those_of_the_cipher() -> None:
    """The first words of the zero key are the test vector of the cipher's authors."""
    after, words = run(lambda k: relay.random.threefry_generate(k, (2, 4)), key())
    wanted = [0x09218EBDE6C85537, 0x55941F5266D86105, 0x4BD25E16282434DC, 0xEE29EC846BD2E40B]
    np.testing.assert_array_equal(words[0], np.array(wanted, "uint64"))
    assert after[4] == 2 and not np.array_equal(words[0], words[1])


@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_what_follows_goes_on(count: int) -> None:
    first = key(5, 6, 7, 8, 2**64 - 1)
    _, every = run(lambda k: relay.random.threefry_generate(k, (16,)), first)
    after, some = run(lambda k: relay.random.threefry_generate(k, (count,)), first)
    _, rest = run(lambda k: relay.random.threefry_generate(k, (8,)), after)
    blocks = -(-count // 4)
    np.testing.assert_array_equal(some, every[:count])
    np.testing.assert_array_equal(rest, every[4 * blocks : 4 * blocks + 8])


def test_split_keys_are_others() -> None:
    seeded = np.asarray(relay.random.threefry_key(7).data.numpy())
    left, right = run(lambda k: relay.random.threefry_split(k), seeded)
    keys = {part.tobytes() for part in (seeded, left, right)}
    assert len(keys) == 3 and not left[4:].any() and not right[4:].any()
    again, _ = run(lambda k: relay.random.threefry_split(k), left)
    assert again.tobytes() not in keys


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_and_normal(dtype: str) -> None:
    seed = key(1, 2, 3, 4)
    after, found = run(lambda k: relay.random.uniform(k, (40, 50), dtype, -2.0, 3.0), seed)
    assert str(found.dtype) == dtype and found.min() >= -2 and found.max() < 3 and after[4] == 500
    assert abs(found.mean() - 0.5) < 0.15 and len(np.unique(found)) > 1900
    _, found = run(lambda k: relay.random.normal(k, (40, 50), dtype, 1.0, 2.0), seed)
    assert abs(found.mean() - 1) < 0.15 and abs(found.std() - 2) < 0.15 and np.isfinite(found).all()
    _, none = run(lambda k: relay.random.normal(k, (0, 3), dtype), seed)
    assert none.shape == (0, 3)
    with pytest.raises(HeddleError, match="out_dtype is one of"):
        run(lambda k: relay.random.uniform(k, (2,), "float16"), seed)


def test_multinomial() -> None:
    probs = np.array([[1, 0, 3], [0, 2, 0]], "float32")
    _, found = run(lambda k, p: relay.random.multinomial(k, p, 400), key(9), probs)
    assert found.shape == (2, 400) and (found[1] == 1).all() and not (found[0] == 1).any()
    assert abs((found[0] == 2).mean() - 0.75) < 0.08
    _, found = run(lambda k, p: relay.random.multinomial(k, p, 5), key(9), probs[0])
    assert found.shape == (5,)


@pytest.mark.parametrize("count", [None, 5, 3])
@pytest.mark.parametrize("shape", [(6,), (6, 2)])
def test_segment_sum(count: int | None, shape: tuple[int, ...]) -> None:
    data, segments = floats(*shape), np.array([0, 2, 2, 0, 1, 2], "int32")
    wanted = np.zeros((count or 3, *shape[1:]), "float32")
    np.add.at(wanted, segments, data)
    np.testing.assert_allclose(
        run(lambda x, s: relay.segment_sum(x, s, count), data, segments), wanted, rtol=1e-5
    )


def test_reverse_reshape() -> None:
    data = floats(10, 5, 4)
    for wanted, shape in (
        ((-1, 0), (50, 4)),
        ((10, -1, 0), (10, 5, 4)),
        ((-3, 0), (50, 4)),
        ((0, 0, 0), (10, 5, 4)),
    ):
        found = run(lambda x, w=wanted: relay.reverse_reshape(x, w), data)
        np.testing.assert_array_equal(found, data.reshape(shape))


@pytest.mark.parametrize("size", [1, 5])
def test_sparse_transpose(size: int) -> None:
    matrix = floats(size, size) * (np.random.default_rng(1).random((size, size)) < 0.5)
    rows, columns = np.nonzero(matrix)
    ends = np.searchsorted(rows, np.arange(size + 1)).astype("int32")
    values = matrix[rows, columns]
    found = run(lambda *parts: relay.nn.sparse_transpose(parts), values, columns.astype("int32"), ends)
    turned = matrix.T
    rows, columns = np.nonzero(turned)
    np.testing.assert_array_equal(found[0], turned[rows, columns])
    np.testing.assert_array_equal(found[1], columns)
    np.testing.assert_array_equal(found[2], np.searchsorted(rows, np.arange(size + 1)))


def test_what_is_said_about_a_value_is_the_value() -> None:
    data = floats(2, 3)
    word = relay.op.word
    for build in (
        relay.annotation.stop_fusion,
        word("annotation.bitpack_start", ""),
        word("annotation.bitpack_end", ""),
        lambda x: word("annotation.cast_hint", "")(x, dtype="float16"),
        lambda x: relay.annotation.on_device(x, "cpu", constrain_result=True),
        lambda x: relay.device_copy(x, "cpu", "cpu"),
        lambda x: relay.nn.dropout(x, 0.3),
    ):
        np.testing.assert_array_equal(run(build, data), data)
    pair = run(lambda x: relay.annotation.on_device(relay.Tuple([x, x]), "cpu"), data)
    np.testing.assert_array_equal(pair, [data, data])
    assert relay.nn.dropout_raw(relay.var("x", shape=(2,))).size == 2
