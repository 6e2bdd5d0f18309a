"""Keys of tensors, which tell programs in the cache apart."""

from __future__ import annotations

import numpy as np

from heddle.ir import tensor_values
from heddle.ir.tensor_values import keys_at_hand, tensor_key
from heddle.runtime import tensor


def test_keys_tell_dtype_shape_and_bits() -> None:
    ones = np.ones((2, 3), "float32")
    found = [
        tensor_key(tensor(each))
        for each in (
            ones,
            ones.reshape(3, 2),
            ones.view("int32"),
            np.where(np.eye(2, 3) > 0, np.float32(-0.0), np.float32(0)),
            np.zeros((2, 3), "float32"),
        )
    ]
    assert len(set(found)) == len(found) and tensor_key(tensor(ones.copy())) == found[0]


def test_keys_at_hand_are_those_that_are_computed_and_are_forgotten(monkeypatch) -> None:
    large = [tensor(np.random.default_rng(k).random(1 << 19)) for k in range(3)]
    small = tensor(np.arange(5.0))
    wanted = [tensor_key(each) for each in (*large, small)]
    made: list[int] = []
    compute = tensor_values._key_of
    monkeypatch.setattr(tensor_values, "_key_of", lambda value: (made.append(id(value)), compute(value))[1])
    with keys_at_hand([*large, small, large[0]]):
        assert sorted(made) == sorted(map(id, large))
        assert [tensor_key(each) for each in (*large, small)] == wanted
        assert len(made) == 4  # the small one
    large[0][0] = -1.0
    assert tensor_key(large[0]) != wanted[0]
