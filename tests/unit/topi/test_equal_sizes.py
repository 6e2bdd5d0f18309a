"""Which dimensions are equal because neither is less than 0: they broadcast as one."""

from __future__ import annotations

import pytest

from heddle.arith.broadcast import broadcast_dim, same_dim
from heddle.prim import ops
from heddle.prim.nodes import SizeVar

n, m = SizeVar("n"), SizeVar("m")
steps = ops.floordiv(n + 240, 320)
without_last = ops.minimum(ops.maximum(steps, 1) - 1, steps)
"""What a slice leaves of `steps` elements without their last one: none where there are none."""


@pytest.mark.parametrize(
    ("a", "b"),
    [(steps - 1, without_last), (without_last, steps - 1), (n - 3, ops.maximum(n - 3, 0)), (n * 2, n + n)],
    ids=str,
)
def test_equal(a, b):
    assert same_dim(a, b)
    assert broadcast_dim(a, b) is a


@pytest.mark.parametrize(("a", "b"), [(steps, without_last), (n, m), (n - 3, m - 3), (n - 3, n - 2)], ids=str)
def test_maybe_not_equal(a, b):
    assert not same_dim(a, b)
