"""Conditions on elements of tensors are evaluated on both sides; those on scalars stay conjunctions."""

import pytest

from heddle import te, topi
from heddle.prim.nodes import And, Call, Or, Var
from heddle.prim.ops import conjuncts
from heddle.topi.math import and_values, or_values


@pytest.mark.parametrize(
    ("operator", "name"), [(topi.logical_and, "bitwise_and"), (topi.logical_or, "bitwise_or")]
)
def test_elements_are_both_read(operator, name):
    a, b = (te.placeholder((3, 5), "bool", name) for name in "ab")
    value = operator(a, b).op.body[0]
    assert isinstance(value, Call) and value.op.name == f"tir.{name}" and value.dtype == "bool"


def test_scalars_stay_conditions():
    p, q = Var("p", "bool"), Var("q", "bool")
    assert isinstance(and_values(p, q), And) and isinstance(or_values(p, q), Or)


def test_parts_of_conditions_on_elements_are_found():
    a, b, c = (te.placeholder((3,), "bool", name) for name in "abc")
    both = topi.logical_and(topi.logical_and(a, b), c)
    i = both.op.axis[0].var
    parts = conjuncts(and_values(and_values(a[i], b[i]), c[i]))
    assert [part.producer.name for part in parts] == ["a", "b", "c"]
