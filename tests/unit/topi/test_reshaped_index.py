"""Indices of reshaped tensors: right for all shapes, and without divisions where dimensions are in common."""

import numpy as np
import pytest

from heddle.ir.visitor import walk
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import FloorDiv, FloorMod, Var, constant
from heddle.topi.dims import reshaped_index


def _shapes(rng):
    """Two shapes with the same number of elements: other cuts of the same prime factors."""
    factors = [int(rng.choice([1, 1, 2, 3, 5])) for _ in range(rng.integers(0, 7))]
    made = []
    for _ in range(2):
        shape, size = [], 1
        for factor in factors:
            size *= factor
            if rng.random() < 0.5:
                shape.append(size)
                size = 1
        made.append((*shape, size))
    return made


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("is_free", [False, True])
def test_every_element_is_found(seed, is_free):
    shape, other = _shapes(np.random.default_rng(seed))
    sizes, axes = {}, [Var(f"i{k}", "int64") for k in range(len(shape))]

    def dims(given):
        if not is_free:
            return [constant(size, "int64") for size in given]
        made = [Var(f"n{k}", "int64") for k in range(len(given))]
        sizes.update(zip(made, given, strict=True))
        return made

    found = reshaped_index(axes, dims(shape), dims(other))
    source = np.arange(int(np.prod(shape))).reshape(other)
    for at in np.ndindex(*shape):
        values = {**sizes, **dict(zip(axes, at, strict=True))}
        index = tuple(evaluate(item, values) for item in found)
        assert source[index] == np.ravel_multi_index(at, shape)


def test_common_dimensions_of_free_sizes_are_not_divided():
    n, h, w = (Var(name, "int64") for name in "nhw")
    c = constant(64, "int64")
    axes = [Var(f"i{k}", "int64") for k in range(4)]
    index = reshaped_index(axes, [n, c, h, w], [n, c, h * w])
    assert not [node for item in index for node in walk(item) if isinstance(node, (FloorDiv, FloorMod))]
    assert index[0] is axes[0] or evaluate(index[0], {axes[0]: 5}) == 5


def test_split_and_joined_dimensions_divide_by_the_inner_size_alone():
    n, c = Var("n", "int64"), Var("c", "int64")
    axes = [Var(f"i{k}", "int64") for k in range(2)]
    eight = constant(8, "int64")
    index = reshaped_index(axes, [n, c], [n, c // 8, eight])
    assert len(index) == 3
    divisors = [node.b for item in index for node in walk(item) if isinstance(node, (FloorDiv, FloorMod))]
    assert divisors and n not in [part for divisor in divisors for part in walk(divisor)]
