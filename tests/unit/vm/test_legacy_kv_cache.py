"""The simple attention cache."""

from __future__ import annotations

import numpy as np
import pytest

from heddle.runtime import Shape, tensor
from heddle.support.diagnostics import Trap

from .cache_model import builtin


def rows(*values, width=2, dtype="int32"):
    return np.repeat(np.array(values, dtype)[:, None], width, 1)


def create(init, shape, fill=-1):
    return builtin("attention_kv_cache_create")(tensor(init), Shape(shape), fill)


def filled(cache):
    return builtin("attention_kv_cache_view")(cache).numpy()[:, 0].tolist()


@pytest.mark.fact("10.1")
def test_create_appends_the_initial_rows():
    assert filled(create(rows(1, 2, 3), (8, 2))) == [1, 2, 3]
    assert filled(create(rows(1, 2, 3), (8, 2), 2)) == [1, 2]
    assert filled(create(rows(1, 2, 3), (2, 2), 0)) == []
    view = builtin("attention_kv_cache_view")(create(rows(1.5, dtype="float32"), (4, 2)))
    assert view.dtype == "float32"


@pytest.mark.fact("10.2")
def test_append_doubles_and_gives_the_cache():
    """Rows survive growth; the memory doubles."""
    cache, expected = create(rows(0), (2, 2)), [0]
    for i in range(1, 12):
        new = [10 * i + j for j in range(i % 4)]
        assert builtin("attention_kv_cache_append")(cache, rows(*new)) is cache
        expected += new
        assert filled(cache) == expected
        assert cache.data.shape[0] in (2, 4, 8, 16, 32)


@pytest.mark.fact("10.2")
def test_update_overwrites_from_the_start():
    cache = create(rows(1, 2, 3), (4, 2))
    assert builtin("attention_kv_cache_update")(cache, rows(7, 8)) is cache
    assert filled(cache) == [7, 8]
    builtin("attention_kv_cache_update")(cache, rows(*range(9)))
    assert filled(cache) == list(range(9))


@pytest.mark.fact("10.2")
def test_view_shares_memory_and_fixes_the_number_of_rows():
    cache, view_of = create(rows(1, 2, 3), (8, 2)), builtin("attention_kv_cache_view")
    view = view_of(cache, Shape((3, 1, 2)))
    assert view.shape == (3, 1, 2)
    view[0, 0, 0] = 99
    assert filled(cache) == [99, 2, 3]
    with pytest.raises(RuntimeError, match=r"V0708.*3 rows in the cache, got shape \(8, 2\)"):
        view_of(cache, Shape((8, 2)))
    with pytest.raises(RuntimeError, match=r"V0708.*elements of \(3, 2\), got \(3, 4\)"):
        view_of(cache, Shape((3, 4)))


@pytest.mark.fact("10.2")
def test_arrays_of_caches():
    """Popn is all or nothing."""
    caches = [create(rows(1, 2, 3), (8, 2)), create(rows(4, 5), (8, 2))]
    popped = builtin("attention_kv_cache_array_popn")(caches, 2)
    assert list(popped) == caches
    assert [filled(cache) for cache in caches] == [[1], []]
    with pytest.raises(Trap, match=r"V0703.*pop 0 to 0 rows, got 1"):
        builtin("attention_kv_cache_array_popn")(caches, 1)
    assert filled(caches[0]) == [1]
    builtin("attention_kv_cache_array_clear")(caches)
    assert [filled(cache) for cache in caches] == [[], []]


@pytest.mark.fact("10.3")
@pytest.mark.parametrize("sinks", [0, 1, 5])
@pytest.mark.parametrize("start", [0, 3, 7])
def test_ring(sinks, start):
    """After the last row the ring goes on at row `sinks`."""
    size, rng = 7, np.random.default_rng(start * 10 + sinks)
    cache = create(rows(*[-1] * size), (size + 2, 2), start)
    expected, position, count = [-1] * size, start, start
    name, extra = ("window_override_with_sinks", [sinks]) if sinks else ("window_override", [])
    override = builtin(f"attention_kv_cache_{name}")
    for _ in range(30):
        new = rng.integers(0, 1000, rng.integers(0, 16)).tolist()
        assert override(cache, rows(*new), size, *extra) is cache
        for value in new:
            position = sinks if position >= size else position
            expected[position] = value
            position += 1
        count = min(size, count + len(new))
        assert filled(cache) == expected[:count]


@pytest.mark.fact("10.3")
def test_ring_errors():
    cache, override = create(rows(1), (4, 2)), builtin("attention_kv_cache_window_override_with_sinks")
    with pytest.raises(ValueError, match=r"V0703.*cache of at least 5 rows, got 4"):
        override(cache, rows(1), 5, 0)
    with pytest.raises(ValueError, match=r"V0703.*fewer sinks than 4 rows, got 4"):
        override(cache, rows(1), 4, 4)


@pytest.mark.fact("10.1", "10.2")
def test_what_does_not_fit():
    cache, append = create(rows(1), (4, 2)), builtin("attention_kv_cache_append")
    with pytest.raises(ValueError, match=r"V0708.*shape \(any, 2\), got \(1, 3\)"):
        append(cache, rows(1, width=3))
    with pytest.raises(ValueError, match=r"V0708.*dtype int32, got float32"):
        append(cache, rows(1, dtype="float32"))
    with pytest.raises(TypeError, match=r"V0402.*expected a tensor, got int"):
        append(cache, 3)
    with pytest.raises(TypeError, match=r"V0402.*expected an attention cache, got Tensor"):
        append(tensor(rows(1)), rows(1))
    with pytest.raises(ValueError, match=r"V0703.*at most 4 filled rows, got 5"):
        create(rows(1), (4, 2), 5)
    with pytest.raises(TypeError, match=r"V0408.*shape to reserve"):
        builtin("attention_kv_cache_create")(tensor(rows(1)), Shape(()), -1)
