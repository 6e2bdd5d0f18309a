"""Shape computations become scalar expressions: no tensor of a shape remains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from heddle.frontend.onnx import from_onnx
from heddle.frontend.params import detach_params
from heddle.graph.types import TensorType
from heddle.ir.expr import Call
from heddle.relax.interpreter import GraphInterpreter
from heddle.support.diagnostics import TrapValueError, UsageError
from tests.unit.frontend.onnx.models import model, node


def result_dims(mod: Any) -> str:
    ty = mod["main"].ret_ty
    assert isinstance(ty, TensorType)
    return str([str(dim) for dim in ty.dims or ()])


def ops_of(mod: Any) -> list[str]:
    return [
        binding.value.op.name.removeprefix("relax.")
        for binding in mod["main"].body.bindings()
        if isinstance(binding.value, Call)
    ]


def test_one_variable_for_a_name_in_all_inputs() -> None:
    mod = from_onnx(model([node("Add", ["a", "b"], ["c"])], {"a": ["n", 3], "b": ["n", 3]}, ["c"]))
    a, b = (param.ty.dims[0] for param in mod["main"].params)
    assert a is b
    assert mod["main"].attrs["num_input"] == 2


def test_unnamed_dimensions_are_named_after_input_and_axis() -> None:
    mod = from_onnx(model([node("Relu", ["a"], ["c"])], {"a": [None, 3]}, ["c"]))
    assert mod["main"].params[0].ty.dims[0].name == "a_d0"


def test_shape_dict_fixes_and_renames() -> None:
    made = model([node("Relu", ["a"], ["c"])], {"a": ["n", "m"]}, ["c"])
    assert result_dims(from_onnx(made, {"a": [2, "k"]})) == "['2', 'k']"
    with pytest.raises(UsageError, match="N0302"):
        from_onnx(made, {"b": [2, 3]})
    with pytest.raises(UsageError, match="N0302"):
        from_onnx(made, {"a": [2]})


def test_dimension_expressions() -> None:
    made = model([node("Concat", ["a", "b"], ["c"], axis=0)], {"a": ["n"], "b": ["n*2"]}, ["c"])
    assert result_dims(from_onnx(made)) == "['n * 3']"


def _attention_reshape() -> Any:
    """(batch, seq, 768) to (batch, seq, 12, -1) by Shape, Gather, Unsqueeze and Concat, as exporters write
    it."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["b"]),
        node("Gather", ["s", "one"], ["l"]),
        node("Unsqueeze", ["b", "axis"], ["b1"]),
        node("Unsqueeze", ["l", "axis"], ["l1"]),
        node("Concat", ["b1", "l1", "heads", "minus"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    stored = {
        "zero": np.int64(0),
        "one": np.int64(1),
        "axis": np.array([0]),
        "heads": np.array([12]),
        "minus": np.array([-1]),
    }
    return model(nodes, {"x": ["batch", "seq", 768]}, ["y"], stored)


def test_reshape_of_computed_shape() -> None:
    mod = from_onnx(_attention_reshape())
    assert result_dims(mod) == "['batch', 'seq', '12', '64']"
    assert ops_of(mod) == ["reshape"]


def test_minus_one_cancels_symbolic_factors() -> None:
    nodes = [
        node("Reshape", ["x", "flat"], ["y"]),
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "zero", "one"], ["b"]),
        node("Concat", ["b", "tail"], ["t"], axis=0),
        node("Reshape", ["y", "t"], ["z"]),
    ]
    stored = {
        "flat": np.array([-1, 768]),
        "zero": np.array([0]),
        "one": np.array([1]),
        "tail": np.array([-1, 768]),
    }
    assert (
        result_dims(from_onnx(model(nodes, {"x": ["batch", "seq", 768]}, ["z"], stored)))
        == "['batch', 'seq', '768']"
    )


def test_scaled_size_through_floats() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Cast", ["s"], ["f"], to=1),
        node("Mul", ["f", "scale"], ["g"]),
        node("Floor", ["g"], ["h"]),
        node("Cast", ["h"], ["t"], to=7),
        node("ConstantOfShape", ["t"], ["y"]),
    ]
    mod = from_onnx(model(nodes, {"x": ["n"]}, ["y"], {"scale": np.array([2.0], np.float32)}))
    assert result_dims(mod) == "['n * 2']"


def test_where_on_minus_one_is_decided() -> None:
    """`Where(Equal(shape, -1), ones, shape)`, as expand is exported: a dimension is never -1."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Equal", ["s", "minus"], ["is"]),
        node("ConstantOfShape", ["two"], ["z"], value=numpy_helper.from_array(np.array([1]))),
        node("Where", ["is", "z", "s"], ["t"]),
        node("Expand", ["y", "t"], ["r"]),
    ]
    stored = {"minus": np.array([-1]), "two": np.array([2])}
    mod = from_onnx(model(nodes, {"x": ["n", "m"], "y": [1, 1]}, ["r"], stored))
    assert (result_dims(mod), ops_of(mod)) == ("['n', 'm']", ["broadcast_to"])


def test_slice_of_a_table_is_checked_where_it_is_used() -> None:
    """A table's first `seq` rows, added to `seq` rows: more rows than the table has are refused, not read
    beyond it."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Slice", ["table", "zero", "s"], ["rows"]),
        node("Add", ["x", "rows"], ["y"]),
    ]
    stored = {"table": np.arange(8, dtype=np.float32), "zero": np.array([0])}
    mod = from_onnx(model(nodes, {"x": ["seq"]}, ["y"], stored))
    assert result_dims(mod) == "['seq']"
    run = GraphInterpreter(mod)["main"]
    np.testing.assert_array_equal(run(np.zeros(5, np.float32)), np.arange(5))
    with pytest.raises(TrapValueError, match="R0601"):
        run(np.zeros(9, np.float32))


def test_shape_that_is_an_input_is_read_when_it_runs() -> None:
    made = model([node("Reshape", ["x", "shape"], ["y"])], {"x": [2, 6], "shape": ([3], "int64")}, ["y"])
    mod = from_onnx(made)
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for target in ([3, 2, 2], [0, -1, 3], [2, 1, -1]):
        got = GraphInterpreter(mod)["main"](x, np.array(target))
        assert got.shape == x.reshape([2 if size == 0 else size for size in target]).shape


def test_run_time_bounds_of_a_slice() -> None:
    made = model(
        [node("Slice", ["x", "a", "b"], ["y"])], {"x": ["n"], "a": ([1], "int64"), "b": ([1], "int64")}, ["y"]
    )
    run = GraphInterpreter(from_onnx(made))["main"]
    x = np.arange(10, dtype=np.float32)
    for low, high in ((0, 4), (-3, 100), (5, 2), (-100, -1), (2, 10**12)):
        np.testing.assert_array_equal(run(x, np.array([low]), np.array([high])), x[low:high])


def test_params_as_inputs() -> None:
    made = model([node("Add", ["x", "w"], ["y"])], {"x": [3]}, ["y"], {"w": np.ones(3, np.float32)})
    mod = from_onnx(made, keep_params_in_input=True)
    main = mod["main"]
    assert [param.name_hint for param in main.params] == ["x", "w"]
    assert main.attrs["num_input"] == 1
    np.testing.assert_array_equal(main.attrs["params"][0].numpy(), np.ones(3))
    bare, params = detach_params(mod)
    assert "params" not in bare["main"].attrs
    assert list(params) == ["main"]


def test_input_names_are_identifiers() -> None:
    made = model([node("Relu", ["0/x.y"], ["y"])], {"0/x.y": [3]}, ["y"])
    assert from_onnx(made)["main"].params[0].name_hint == "input_0_x_y"
    assert from_onnx(made, sanitize_input_names=False)["main"].params[0].name_hint == "0/x.y"


def test_nodes_know_their_place() -> None:
    main = from_onnx(model([node("Relu", ["x"], ["y"], "act")], {"x": [3]}, ["y"]))["main"]
    assert main.body.bindings()[0].value.span.place() == 'graph node "act" (Relu)'
