"""Tests that every operator's record implies: type rule, reference and errors agree. What it computes: see
test_agreement."""

from __future__ import annotations

from typing import Any

import pytest

from heddle.graph.op_builder import build_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Var
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
