"""Passes that users extend or that write for other compilers, row by row of the table of passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from heddle.relay.op.op import (
    register_alter_op_layout,
    register_convert_op_layout,
    register_fake_quantization_to_integer,
    register_legalize,
    register_mixed_precision_conversion,
)

import heddle as tvm
from heddle import relay
from heddle.ir import register_op_attr
from heddle.ir.structural import assert_structural_equal
from heddle.relay import transform as passes
from heddle.relay.dataflow_pattern import is_op, wildcard
from heddle.relay.op_attrs import reset_op_attr
from heddle.relay.placement import post_order
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import floats, program, run
from tests.unit.relay.test_facts_passes import PassContext, X, changed, names, same

# ---- hooks of users


@pytest.fixture
def hooks() -> Any:
    """Sets hooks, and forgets them."""
    made: list[tuple[str, str]] = []

    def keep(register: Any, key: str, name: str, hook: Any) -> None:
        made.append((name, key))
        register(name, hook, level=20)

    yield keep
    for name, key in made:
        reset_op_attr(name, key)


def test_8_legalize(hooks: Any) -> None:
    seen = []

    def hook(attrs: Any, inputs: Any, types: Any) -> Any:
        seen.append(types)
        return relay.maximum(inputs[0], relay.const(0.0)) if types[0].shape[0].value == 2 else None

    hooks(register_legalize, "FTVMLegalize", "nn.relu", hook)
    value = floats(2, 3)
    made = changed(passes.Legalize(), f"def @main({X}) {{ nn.relu(%x) }}", value)
    assert names(made) == {"maximum": 1} and len(seen[0]) == 2  # the argument's type, and the result's
    left = changed(passes.Legalize(), "def @main(%x: Tensor[(4), float32]) { nn.relu(%x) }", floats(4))
    assert names(left) == {"nn.relu": 1}


CONV = (
    "def @main(%x: Tensor[(1, 4, 6, 6), float32], %w: Tensor[(4, 4, 3, 3), float32]) { "
    "nn.relu(nn.conv2d(nn.relu(nn.conv2d(%x, %w, padding=[1, 1])), %w, padding=[1, 1])) }"
)
IMAGES = (1, 4, 6, 6), (4, 4, 3, 3)


def _args() -> tuple[Any, Any]:
    return floats(*IMAGES[0]), floats(*IMAGES[1]) / 6


def test_8_alter_op_layout(hooks: Any) -> None:
    def hook(attrs: Any, inputs: Any, types: Any, out_type: Any) -> Any:
        layouts = {"data_layout": "NCHW2c", "kernel_layout": "OIHW2i2o", "out_layout": "NCHW2c"}
        given = {**dict(attrs.items()), **layouts}
        return relay.nn.contrib_conv2d_nchwc(*inputs, **given)

    hooks(register_alter_op_layout, "FTVMAlterOpLayout", "nn.conv2d", lambda *args: None)
    assert "layout_transform" not in names(changed(passes.AlterOpLayout(), CONV, *_args()))
    hooks(register_alter_op_layout, "FTVMAlterOpLayout", "nn.conv2d", hook)
    made = changed(passes.AlterOpLayout(), CONV, *_args())
    assert 3 <= names(made)["layout_transform"] <= 4  # of data at both ends, of the weight


def test_8_convert_layout(hooks: Any) -> None:
    desired = {"nn.conv2d": ["NHWC", "default"]}
    made = changed(passes.ConvertLayout(desired), CONV, *_args())
    convs = [n for n in post_order(made["main"]) if isinstance(n, relay.Call) and n.op.name == "nn.conv2d"]
    assert {(conv.attrs.data_layout, conv.attrs.kernel_layout) for conv in convs} == {("NHWC", "HWIO")}
    assert names(made)["layout_transform"] <= 4
    with relay.transform.LayoutConfig(skip_layers=[0, 1]):
        assert "layout_transform" not in names(changed(passes.ConvertLayout(desired), CONV))
    with relay.transform.LayoutConfig(skip_layers=[0]):
        left = changed(passes.ConvertLayout(desired), CONV, *_args())
    first = [n for n in post_order(left["main"]) if isinstance(n, relay.Call) and n.op.name == "nn.conv2d"]
    assert [conv.attrs.data_layout for conv in first] == ["NCHW", "NHWC"]
    asked = []
    hooks(
        register_convert_op_layout,
        "FTVMConvertOpLayout",
        "nn.conv2d",
        lambda attrs, inputs, types, wanted: asked.append(list(wanted)),
    )
    assert "layout_transform" not in names(changed(passes.ConvertLayout(desired), CONV))
    assert asked == [["NHWC", "default"]] * 2


# ---- other compilers


def _composite(check: Any = None) -> Any:
    x, w, b = (
        relay.var("x", shape=(1, 2, 4, 4)),
        relay.var("w", shape=(2, 2, 1, 1)),
        relay.const(floats(2, 1, 1)),
    )
    body = relay.nn.relu(relay.add(relay.nn.conv2d(x, w), b))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], body))
    pattern = is_op("add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard())
    rows = [("dnn.conv_add", pattern, *(() if check is None else (check,)))]
    return passes.InferType()(mod), passes.InferType()(passes.MergeComposite(rows)(mod))


def test_8_merge_composite() -> None:
    before, made = _composite()
    (func,) = (n for n in post_order(made["main"].body) if isinstance(n, relay.Function))
    assert (func.attrs["Composite"], func.attrs["PartitionedFromPattern"]) == (
        "dnn.conv_add",
        "nn.conv2d_add_",
    )
    args = floats(1, 2, 4, 4), floats(2, 2, 1, 1)
    same(run(made, *args), run(before, *args))
    seen = []
    _, left = _composite(lambda call: seen.append(call.op.name) or False)
    assert seen == ["add"] and not any(isinstance(n, relay.Function) for n in post_order(left["main"].body))


def test_8_annotate_target(hooks: Any) -> None:
    _, made = _composite()
    made = passes.AnnotateTarget(["dnn", "other"])(made)
    assert names(made) == {
        "annotation.compiler_begin": 3,
        "annotation.compiler_end": 1,
        "nn.conv2d": 1,
        "add": 1,
        "nn.relu": 1,
    }
    for name, target in (("exp", "one"), ("exp", "two"), ("tanh", "two")):
        hooks(
            lambda op, hook, level, key=f"target.{target}": register_op_attr(op, key, hook, level),
            f"target.{target}",
            name,
            lambda expr: True,
        )
    found = passes.AnnotateTarget(["one", "two"])(program(f"def @main({X}) {{ tanh(exp(%x)) }}"))
    ends = [n for n in post_order(found["main"]) if isinstance(n, relay.Call) and n.op.name.endswith("end")]
    assert [(end.args[0].op.name, end.attrs.compiler) for end in ends] == [("exp", "one"), ("tanh", "two")]


def test_8_merge_compiler_regions_and_partition_graph(hooks: Any) -> None:
    for name in ("exp", "tanh", "add"):
        hooks(
            lambda op, hook, level: register_op_attr(op, "target.dnn", hook, level),
            "target.dnn",
            name,
            lambda expr: True,
        )
    text = f"def @main({X}) {{ %0 = exp(tanh(%x)); (negative(%0 + %0), %0) }}"
    value = floats(2, 3)
    mod = passes.AnnotateTarget(["dnn"], False)(program(text))
    merged = passes.MergeCompilerRegions()(mod)
    made = passes.PartitionGraph("net")(merged)
    found = {var.name_hint: func for var, func in made.functions.items() if var.name_hint != "main"}
    assert [*found] == ["tvmgen_net_dnn_main_0"]
    (func,) = found.values()
    wanted = {"Primitive": 1, "Inline": 1, "Compiler": "dnn", "global_symbol": "tvmgen_net_dnn_main_0"}
    assert {key: func.attrs[key] for key in wanted} == wanted
    assert [param.name_hint for param in func.params] == ["dnn_0_i0"]
    assert isinstance(func.body, relay.Tuple)  # two results
    same(run(made, value), run(program(text), value))


# ---- other dtypes


def test_8_to_mixed_precision(hooks: Any) -> None:
    text = f"def @main({X}, %w: Tensor[(4, 3), float32]) {{ nn.softmax(nn.relu(nn.dense(%x, %w))) }}"
    with PassContext(opt_level=3):
        made = passes.ToMixedPrecision()(program(text))
    calls = {n.op.name: n for n in post_order(made["main"]) if isinstance(n, relay.Call)}
    dtypes = {name: str(call.ty.dtype) for name, call in calls.items() if name.startswith("nn.")}
    assert dtypes == {"nn.dense": "float16", "nn.relu": "float16", "nn.softmax": "float32"}
    args = floats(2, 3), floats(4, 3)
    np.testing.assert_allclose(run(made, *args), run(program(text), *args), rtol=2e-2, atol=2e-3)
    for wrong in (3, -1):
        with pytest.raises(ValueError, match="missing_op_mode"):
            passes.ToMixedPrecision("float16", wrong)
    hooks(
        register_mixed_precision_conversion,
        "FTVMMixedPrecisionConversionType",
        "nn.relu",
        lambda call, dtype: [2, dtype, dtype],
    )
    made = passes.ToMixedPrecision()(program(text))
    relu = next(n for n in post_order(made["main"]) if isinstance(n, relay.Call) and n.op.name == "nn.relu")
    assert str(relu.ty.dtype) == "float32"
    kept = program(f"def @main({X}, %w: Tensor[(4, 3), float32]) {{ nn.dense(%x, %w) }}")
    assert str(passes.ToMixedPrecision()(kept)["main"].ret_ty.dtype) == "float16"
    with PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
        assert str(passes.ToMixedPrecision()(kept)["main"].ret_ty.dtype) == "float32"


def test_8_fake_quantization_to_integer(hooks: Any) -> None:
    text = (
        "def @main(%x: Tensor[(2, 3), int8]) { "
        'qnn.quantize({}(qnn.dequantize(%x, 0.5f, 0)), 0.5f, 0, out_dtype="int8") }'
    )
    value = np.random.default_rng().integers(-128, 128, (2, 3)).astype("int8")
    made = changed(passes.FakeQuantizationToInteger(), text.replace("{}", "nn.relu"), value)
    assert not {"qnn.quantize", "qnn.dequantize"} & names(made).keys()
    mod = program(text.replace("{}", "cosh"))
    assert_structural_equal(passes.FakeQuantizationToInteger()(mod), mod)
    with pytest.raises(HeddleError, match="cosh"):
        passes.FakeQuantizationToInteger(hard_fail=True)(mod)

    def rule(expr: Any, types: Any) -> Any:
        return [relay.negative(expr.args[0]), types[expr.args[0]]]

    hooks(register_fake_quantization_to_integer, "FTVMFakeQuantizationToInteger", "negative", rule)
    made = passes.FakeQuantizationToInteger()(program(text.replace("{}", "negative")))
    assert names(made) == {"negative": 1}
