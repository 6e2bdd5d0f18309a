"""Tests that every operator's record implies: type rule, reference and errors agree. What it computes: see
test_agreement."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from heddle.graph.op_builder import build_call, call_op
from heddle.graph.types import TensorType
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Var
from heddle.ir.node import replace as with_fields
from heddle.ir.types import TupleType
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import IntImm
from heddle.runtime.dtype import DataType, dtype_of
from heddle.support.diagnostics import IRTypeError
from tests.ops.cases import Case, Typed, Typer, cases, flat, input_kinds, records, typed
from tests.ops.programs import result_type

CASES = list(cases())
DYNAMIC = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
EACH_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def make(case: Case, dynamic: bool) -> tuple[Typed, Any]:
    """The typed call and the reference's result."""
    arguments = case.arguments()
    made = typed(case, arguments, dynamic)
    return made, case.record.reference(made.call.attrs, *arguments)


def typed_or_skip(case: Case, dynamic: bool) -> tuple[Typed, Any]:
    made, want = make(case, dynamic)
    try:
        result_type(made)
    except IRTypeError as error:
        if dynamic and error.code == "E0103":
            pytest.skip(f"needs a constant: {error}")
        raise
    return made, want


def leaf_types(ty: Any) -> list[TensorType]:
    return [leaf for item in ty.fields for leaf in leaf_types(item)] if isinstance(ty, TupleType) else [ty]


@DYNAMIC
@EACH_CASE
def test_type(case: Case, dynamic: bool) -> None:
    """The inferred type is the reference's shape and dtype; of static arguments it is static."""
    made, want = typed_or_skip(case, dynamic)
    types, arrays = leaf_types(result_type(made)), flat(want)
    assert len(types) == len(arrays)
    for ty, array in zip(types, arrays, strict=True):
        assert ty.dtype == dtype_of(array.dtype)
        assert ty.ndim == array.ndim
        if ty.dims is not None:
            assert [evaluate(dim, made.sizes) for dim in ty.dims] == list(array.shape)
            assert dynamic or all(isinstance(dim, IntImm) for dim in ty.dims)


ERRORS = [(record, sample, index) for record in records() for index, sample in enumerate(record.errors)]


@pytest.mark.parametrize(("record", "sample", "index"), ERRORS, ids=[f"{r.name}-{k}" for r, _, k in ERRORS])
def test_errors(record: Any, sample: Any, index: int) -> None:
    """A wrong use raises the code and says the words."""
    typer = Typer(dynamic=False)
    made = []
    for kind, given in zip(input_kinds(record, len(sample.shapes)), sample.shapes, strict=True):
        dtypes = sample.dtype.split(",")
        dtype = DataType(dtypes[min(len(typer.params), len(dtypes) - 1)])
        if kind == "tensors":
            made.append(tuple(Var("x", TensorType(shape, dtype)) for shape in given))
        elif kind == "tensor":
            typer.params.append(Var("x", TensorType(given, dtype)))
            made.append(typer.params[-1])
        else:
            made.append(given)
    with pytest.raises(IRTypeError) as caught:
        result_type(Typed(build_call(record, made, dict(sample.attrs))))
    assert caught.value.code == sample.code
    assert sample.words in str(caught.value)


OTHER_VALUES: list[Any] = [None, "x", 0, -7, 2**40, 1.5, [], [1], [1, 2, 3], [2**40], [[1, 1]], float("nan")]
WITH_ATTRS = [record for record in records() if record.attrs]


@pytest.mark.parametrize("record", WITH_ATTRS, ids=lambda record: record.name)
def test_attributes_of_other_values(record: Any) -> None:
    """Nothing but an error with a code comes of a value, and a value of another kind is told as one."""
    case = next(case for case in CASES if case.record is record)
    made = typed(case, case.arguments(), dynamic=False)
    fitting = dict(made.call.attrs.items())
    for spec in record.attrs:
        for value in OTHER_VALUES:
            call = with_fields(made.call, attrs=attrs_of({**fitting, spec.name: value}))
            with suppress(IRTypeError):
                result_type(replace(made, call=call))


def test_a_value_of_another_kind_is_named() -> None:
    x = Var("x", TensorType((2, 3), "float32"))
    for name, attrs, words in (
        ("nn.softmax", {"axis": "a"}, "nn.softmax: attribute axis must be a whole number, got 'a'"),
        ("permute_dims", {"axes": 1}, "permute_dims: attribute axes must be a list of whole numbers, got 1"),
        ("sum", {"axis": "a"}, "sum: attribute axis must be a list of whole numbers, or one, got 'a'"),
    ):
        with pytest.raises(IRTypeError, match=f"R0205.*{re.escape(words)}"):
            result_type(Typed(call_op(name, x, **attrs)))
