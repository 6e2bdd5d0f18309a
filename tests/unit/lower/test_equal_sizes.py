"""Sizes that are equal are written alike, whatever the order of their parts."""

from __future__ import annotations

import pytest

from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.types import PrimType, TupleType
from heddle.lower.equal_sizes import EqualSizes
from heddle.prim.nodes import PrimExpr, SizeVar
from heddle.prim.ops import maximum, minimum

A, B, C = SizeVar("a"), SizeVar("b"), SizeVar("c")
ALIKE = [
    (A + B, B + A),
    (A + B - C, A - C + B),
    (A * (B * C), C * B * A),
    ((A + B) * 2 + C, C + B * 2 + A * 2),
    (maximum(A, minimum(B, C)), maximum(minimum(C, B), A)),
    ((A + B) // 2 * C, C * ((B + A) // 2)),
    (A + (B + (C + 1)), 1 + C + A + B),
]
APART = [(A - B, B - A), (A // B, B // A), (A + B, A * B), (A + A, A * A), (A + B, A + C), (A % 2, A % 3)]


def sizes(ty: TensorType) -> tuple[PrimExpr, ...]:
    assert ty.dims is not None
    return ty.dims


@pytest.mark.parametrize(("first", "later"), ALIKE, ids=str)
def test_the_first_form_is_taken_for_later_ones(first, later):
    known = EqualSizes()
    made = TensorType((first, A, 3), "float32")
    assert known.of_type(made) is made
    pair = TupleType((TensorType((later, 4), "int8"), PrimType("int64")))
    found = known.of_type(pair)
    assert sizes(found.fields[0])[0] is first and found.fields[0].dtype == "int8"
    assert known.of_shape(ShapeExpr((later,))).values[0] is first


@pytest.mark.parametrize(("first", "later"), APART, ids=str)
def test_other_sizes_stay(first, later):
    known = EqualSizes()
    known.of_shape(ShapeExpr((first,)))
    shape = ShapeExpr((later, A, 7))
    assert known.of_shape(shape) is shape


def test_variables_of_one_name_are_apart():
    known = EqualSizes()
    known.of_shape(ShapeExpr((A + B,)))
    shape = ShapeExpr((SizeVar("a") + B,))
    assert known.of_shape(shape) is shape
