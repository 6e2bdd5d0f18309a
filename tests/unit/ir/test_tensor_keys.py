"""Keys of tensors, which tell programs in the cache apart."""

from __future__ import annotations

import numpy as np

from heddle.ir.tensor_values import large_as_numbers, tensor_key
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


def test_large_tensors_are_numbers_for_a_while() -> None:
    """Their numbers, types and shapes are told, their bits are not; small ones are told as ever."""
    large = [tensor(np.random.default_rng(k).random(1 << 19)) for k in range(2)]
    other, small = tensor(large[0].numpy().reshape(2, -1)), tensor(np.arange(5.0))
    bits = [tensor_key(each) for each in (*large, small)]
    with large_as_numbers([large[0], small, large[1], large[0]]) as found:
        assert [id(each) for each in found] == [id(each) for each in large]
        numbers = [tensor_key(each) for each in large]
        assert tensor_key(small) == bits[2]
    with large_as_numbers(large[::-1]):
        assert [tensor_key(each)[:2] for each in large] == [numbers[1][:2], numbers[0][:2]]
    with large_as_numbers([other, large[1]]):
        assert tensor_key(other) != numbers[0] and tensor_key(large[1]) == numbers[1]
    assert len({*numbers, *bits}) == 5 and [tensor_key(each) for each in (*large, small)] == bits
