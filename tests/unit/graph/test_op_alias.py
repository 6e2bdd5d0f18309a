"""What a dialect calls an operator becomes a call of the operator's record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.codes import R0205
from heddle.graph.infer import type_of
from heddle.graph.op_builder import build_call_in, call_op
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Var
from heddle.ir.op import OP_ALIASES, OP_RECORDS
from heddle.ir.op_def import AttrSpec, Input, OpAlias, OpDef, declare_op, op_named
from heddle.ir.structural import assert_structural_equal
from heddle.relax.interpreter import GraphInterpreter
from heddle.support.diagnostics import IRTypeError, MissingNameError, UsageError


def _turned(given: Mapping[str, Any]) -> Call:
    """The weight as the product needs it; `units` must be its rows."""
    weight, units = given["weight"], given["units"]
    rows = type_of(weight).dims[0]
    if units is not None and int(rows) != units:
        raise IRTypeError(R0205, f"units is {units}, and the weight has {rows} rows")
    return call_op("permute_dims", weight)


DENSE = OpAlias(
    "toy",
    "nn.dense",
    inputs=(Input("data"), Input("weight")),
    attrs=(AttrSpec("units", "int", None), AttrSpec("out_dtype", "dtype", "")),
    arguments={"x1": "data", "x2": _turned, "out_dtype": lambda given: given["out_dtype"] or None},
)


@pytest.fixture
def product() -> Iterator[OpDef]:
    """A record like that of `matmul`, which the toy dialect calls `nn.dense`."""
    record = declare_op(replace(op_named("matmul"), name="toy_product", aliases=(DENSE,)))
    yield record
    OP_RECORDS.remove(record.key)
    OP_ALIASES.remove("toy.nn.dense")


def _variables(rng: np.random.Generator, dtype: str = "float32") -> tuple[Var, Var, tuple[int, int, int]]:
    m, k, n = (int(size) for size in rng.integers(1, 9, 3))
    return Var("x", TensorType((m, k), dtype)), Var("w", TensorType((n, k), dtype)), (m, k, n)


def test_arguments_and_attributes_are_mapped(product: OpDef) -> None:
    x, w, (m, _, n) = _variables(np.random.default_rng())
    by_place = build_call_in("toy", "nn.dense", (x, w, n, "float64"), {})
    by_name = build_call_in("toy", "nn.dense", (), {"weight": w, "data": x, "out_dtype": "float64"})
    wanted = call_op("toy_product", x, call_op("permute_dims", w), out_dtype="float64")
    for call in (by_place, by_name):
        assert call.op.name == product.key
        assert_structural_equal(call, wanted)
    assert_structural_equal(BlockBuilder().normalize(by_place).ty, TensorType((m, n), "float64"))


def test_the_call_computes_what_the_name_means(product: OpDef) -> None:
    rng = np.random.default_rng()
    x, w, (m, k, n) = _variables(rng)
    builder = BlockBuilder()
    with builder.function("main", [x, w]):
        builder.emit_func_output(builder.emit(build_call_in("toy", "nn.dense", (x, w), {"units": n})))
    data = rng.standard_normal((m, k)).astype("float32"), rng.standard_normal((n, k)).astype("float32")
    found = GraphInterpreter(builder.get())["main"](*data)
    np.testing.assert_allclose(found, data[0] @ data[1].T, rtol=1e-5, atol=1e-5)
    assert found.dtype == np.float32


def test_a_mapping_may_refuse(product: OpDef) -> None:
    x, w, (_, _, n) = _variables(np.random.default_rng())
    with pytest.raises(IRTypeError, match="R0205"):
        build_call_in("toy", "nn.dense", (x, w), {"units": n + 1})


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "words"),
    [
        (1, {}, IRTypeError, "R0201.*nn.dense needs the argument 'weight'"),
        (2, {"units": 3, "bias": None}, UsageError, "I0403.*nn.dense has no attribute 'bias'"),
        (2, {"x2": None}, UsageError, "I0403.*'x2'"),
    ],
)
def test_messages_have_the_dialects_names(
    product: OpDef, args: int, kwargs: dict[str, Any], error: type[Exception], words: str
) -> None:
    x, w, _ = _variables(np.random.default_rng())
    with pytest.raises(error, match=words):
        build_call_in("toy", "nn.dense", (x, w)[:args], kwargs)


def test_other_names_are_the_records_own(product: OpDef) -> None:
    x = Var("x", TensorType((2, 3), "float32"))
    assert_structural_equal(build_call_in("toy", "add", (x, x), {}), call_op("add", x, x))
    for dialect, name in (("other", "nn.dense"), ("toy", "nn.dens")):
        with pytest.raises(MissingNameError, match="S0202"):
            build_call_in(dialect, name, (x, x), {})


def test_inputs_left_out_and_variadic_ones() -> None:
    """An optional input that is left out is None for a mapping, a variadic one is a tuple."""
    seen: list[Mapping[str, Any]] = []

    def joined(given: Mapping[str, Any]) -> Any:
        seen.append(given)
        return tuple(given["parts"])

    alias = OpAlias(
        "toy",
        "join",
        inputs=(Input("first", optional=True), Input("parts", variadic=True)),
        attrs=(AttrSpec("axis", "int", 0),),
        arguments={"tensors": joined},
    )
    record = declare_op(replace(op_named("concat"), name="toy_concat", aliases=(alias,)))
    try:
        x = Var("x", TensorType((2, 3), "float32"))
        call = build_call_in("toy", "join", (None, x, x), {"axis": 1})
        assert seen[0]["first"] is None and seen[0]["parts"] == (x, x)
        assert_structural_equal(call, call_op("toy_concat", (x, x), axis=1))
    finally:
        OP_RECORDS.remove(record.key)
        OP_ALIASES.remove("toy.join")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arguments": {"x9": "data"}}, "matmul has no argument 'x9'"),
        ({"arguments": {"x1": "dat", "x2": "weight"}}, "nn.dense has no argument 'dat'"),
        ({"arguments": {"x1": "data"}}, "nothing gives matmul its argument 'x2'"),
        (  # not silently an attribute where an input is meant
            {"attrs": (AttrSpec("x2", "int"), AttrSpec("out_dtype", "dtype")), "arguments": {"x1": "data"}},
            "no source of matmul's input 'x2' is stated, and nn.dense's is an attribute of kind 'int'",
        ),
        (
            {"attrs": (AttrSpec("out_dtype", "str", ""),), "arguments": {"x1": "data", "x2": "weight"}},
            "no source of matmul's attribute of kind 'dtype' 'out_dtype' is stated",
        ),
    ],
)
def test_a_mapping_with_a_hole_fails_where_it_is_declared(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=rf"I0403.*{words}"):
        replace(op_named("matmul"), aliases=(replace(DENSE, **changes),))


def test_a_name_is_declared_once(product: OpDef) -> None:
    again = replace(product, name="toy_again")
    with pytest.raises(UsageError, match="S0201"):
        declare_op(again)
    OP_RECORDS.remove(again.key)
