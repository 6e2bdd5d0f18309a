"""How values begin: equal where they are equal, also where only one of them shares its parts."""

import pytest

from heddle.ir.structural import _START_STEPS, structural_digest, structural_equal, structural_start
from heddle.prim import nodes
from heddle.script import from_source


def doubled(times: int, is_shared: bool, last: int = 1) -> nodes.PrimExpr:
    """1 + 1, the sum of two such, and so on."""
    if not times:
        return nodes.IntImm("int64", last)
    left = doubled(times - 1, is_shared, last)
    return nodes.Add(left, left if is_shared else doubled(times - 1, is_shared, last))


@pytest.mark.parametrize("times", [0, 1, 5, 10])
def test_what_is_shared_makes_no_difference(times: int) -> None:
    shared, apart = doubled(times, True), doubled(times, False)
    assert structural_equal(shared, apart)
    assert structural_digest(shared) == structural_digest(apart)
    assert structural_start(shared) == structural_start(apart)


def test_values_that_differ_early_begin_differently_and_late_ones_may_not() -> None:
    assert structural_start(doubled(3, True)) != structural_start(doubled(3, True, last=2))
    one = tuple(nodes.IntImm("int64", i) for i in range(2 * _START_STEPS))
    other = (*one[:-1], nodes.IntImm("int64", -1))
    assert structural_start(one) == structural_start(other)
    assert structural_digest(one) != structural_digest(other)


TEXT = """
@T.prim_func
def main({x}: T.Buffer((4, {n}), "float32"), y: T.Buffer((4, {n}), "float32")):
    for i, j in T.grid(4, {n}):
        with T.sblock("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = {x}[vi, vj] + {x}[vi, vj]
"""


def test_names_make_no_difference() -> None:
    one, other = (from_source(TEXT.format(x=x, n=3)) for x in ("x", "z"))
    assert structural_equal(one, other) and structural_start(one) == structural_start(other)
