"""Columns of integers are told by the fewest parameters, and come back exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.arith.affine_family import affine_family

CASES = {
    "one grows": ([(8, 12, 16)], 1),
    "they grow together": ([(8, 12, 16), (64, 96, 128), (24, 28, 32)], 1),
    "one falls": ([(8, 12, 16), (5, 4, 3)], 1),
    "none is a parameter for the others": ([(0, 2, 4), (0, 3, 6)], 1),
    "negative": ([(-8, -12, -16)], 1),
    "two ways": ([(8, 12, 16), (7, 14, 14)], 2),
    "of two members": ([(1, 5), (100, 7)], 1),
    "large": ([(2**62, 2**62 + 3, 0)], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_parameters(name):
    columns, count = CASES[name]
    made = affine_family(columns)
    assert len(made.params) == count
    assert all(min(param) >= 0 for param in made.params)
    check(columns, made)


def test_what_is_no_multiple_has_no_parameter():
    assert affine_family([(8, 12, 16)]).fit((1, 2, 4)) is None
    assert affine_family([(8, 12, 16)]).fit((4, 6, 8)) is None, "half of a parameter is no integer expression"


columns_of_members = st.integers(2, 6).flatmap(
    lambda members: st.lists(
        st.tuples(*[st.integers(-(2**40), 2**40)] * members).filter(lambda c: len(set(c)) > 1),
        min_size=1,
        max_size=8,
    )
)


@given(columns_of_members)
def test_every_column_comes_back(columns):
    check(columns, affine_family(columns))


def check(columns, made):
    for column in columns:
        found = made.fit(column)
        assert found is not None
        param = made.params[found.param]
        assert tuple(found.scale * value + found.offset for value in param) == column
