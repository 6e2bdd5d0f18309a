"""Operators in other layouts: the same values, and no more moves than have to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.ir.module import IRModule
from heddle.relay import transform as passes
from heddle.relay.nodes import TempExpr
from heddle.relay.op import get, lookup, op_names
from heddle.relay.op_attrs import register_alter_op_layout, register_convert_op_layout, reset_op_attr
from heddle.relay.placement import post_order
from heddle.relay.transform.arranged import Arranged
from heddle.relay.transform.rewriting import call, is_call, works_on_elements
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import program, run

RNG = np.random.default_rng(5)
IMAGE = (2, 4, 6, 5)
ANY = relay.Any()
nn = relay.nn
NHWC = {"nn.conv2d": ["NHWC", "default"]}


def _c(*shape: int) -> Any:
    return relay.const(RNG.standard_normal(shape).astype("float32"))


def _conv(x: Any, channels: int = 4, **attrs: Any) -> Any:
    return nn.conv2d(x, _c(channels, 4, 3, 3), padding=(1, 1), **attrs)


def _module(make: Any, *shapes: Any) -> IRModule:
    params = [relay.var(f"x{k}", shape=shape) for k, shape in enumerate(shapes or [IMAGE])]
    return passes.InferType()(IRModule.from_expr(relay.Function(params, make(*params))))


def _moves(mod: IRModule) -> int:
    """Moves of what is made of no constants alone."""
    moves = [node for node in post_order(mod["main"]) if is_call(node, "layout_transform")]
    return sum(any(isinstance(each, relay.Var) for each in post_order(node)) for node in moves)


def _converted(mod: IRModule, desired: Any = None) -> IRModule:
    made = passes.ConvertLayout(desired or NHWC).transform(mod, None)  # type: ignore[arg-type]
    args = [
        RNG.standard_normal([3 if isinstance(dim, relay.Any) else int(dim.value) for dim in p.ty.dims])
        for p in mod["main"].params
    ]
    args = [arg.astype("float32") for arg in args]
    _same(run(made, *args), run(mod, *args))
    return made


def _same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            _same(one, other)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def _norm(y: Any) -> Any:
    return nn.batch_norm(y, _c(4), _c(4), _c(4), relay.const(np.full(4, 2, "float32")))


BETWEEN: dict[str, Any] = {
    "elements": lambda y: relay.clip(relay.tanh(nn.relu(-y)), a_min=-0.5, a_max=0.5),
    "channels": lambda y: y * _c(4, 1, 1) + _c(1, 4, 1, 1) - relay.const(2.0),
    "pixels": lambda y: y * _c(6, 5) + _c(5),
    "images": lambda y: relay.maximum(_c(*IMAGE), y),
    "itself": lambda y: y + nn.relu(y),
    "choice": lambda y: relay.where(relay.greater(y, _c(4, 1, 1)), y, relay.exp(y)),
    "bias": lambda y: nn.bias_add(y, _c(4), axis=-3),
    "max pool": lambda y: nn.max_pool2d(y, pool_size=(2, 2), padding=(1, 1)),
    "avg pool": lambda y: nn.avg_pool2d(y, pool_size=(3, 2), strides=(2, 1), ceil_mode=True),
    "global pool": lambda y: nn.global_avg_pool2d(y),
    "adaptive pool": lambda y: nn.adaptive_max_pool2d(y, output_size=(2, 2)),
    "resize": lambda y: relay.image.resize2d(y, size=(9, 4), roi=(0.0,) * 4),
    "norm": lambda y: _norm(y)[0],
    "pad": lambda y: nn.pad(y, pad_width=((0, 0), (0, 0), (1, 2), (0, 3))),
    "softmax": lambda y: nn.softmax(y, axis=1),
    "prelu": lambda y: nn.prelu(y, _c(4)),
    "concatenation": lambda y: relay.concatenate([y, nn.relu(y), y], axis=1),
    "concatenation with another": lambda y: relay.concatenate([_c(*IMAGE), y], axis=-1),
    "split": lambda y: relay.split(y, 2, axis=1)[0] * relay.split(y, 2, axis=1)[1],
    "kept sums": lambda y: y * relay.sigmoid(relay.mean(y, axis=[2, 3], keepdims=True)),
    "slice": lambda y: relay.strided_slice(y, begin=[0, 1], end=[2, 3]),
    "slice of axes": lambda y: relay.strided_slice(y, begin=[1], end=[4], strides=[2], axes=[-2]),
}
STAYS: dict[str, Any] = {
    "channels to pixels": lambda y: nn.depth_to_space(y, block_size=2),
    "pixels to channels": lambda y: nn.space_to_depth(
        nn.pad(y, ((0, 0), (0, 0), (0, 0), (0, 1))), block_size=2
    ),
    "upsampling": lambda y: nn.upsampling(y, scale_h=2.0, scale_w=3.0),
    "correlation": lambda y: nn.correlation(
        y,
        nn.relu(y),
        kernel_size=1,
        max_displacement=1,
        stride1=1,
        stride2=1,
        padding=1,
        is_multiply=True,
        layout="NCHW",
    ),
    "regions": lambda y: relay.vision.roi_align(
        y,
        relay.const(np.array([[0, 0, 0, 3, 3], [1, 1, 1, 4, 5]], "float32")),
        pooled_size=(2, 2),
        spatial_scale=1.0,
        sample_ratio=2,
    ),
    "rows": lambda y: nn.lrn(y, size=3),
    "reshapes": lambda y: relay.reshape(y, newshape=(2, -1)),
    "indices": lambda y: relay.take(y, relay.const([1, 0]), axis=1),
    "argmax": lambda y: relay.cast(relay.argmax(y, axis=1), "float32"),
    "norm of layers": lambda y: nn.layer_norm(y, _c(5), _c(5)),
    "rolled": lambda y: relay.reverse(y, axis=1),
}
AFTER: dict[str, Any] = {
    "sums": lambda y: relay.sum(y, axis=[2, 3]),
    "maxima of all but": lambda y: relay.max(y, axis=[0, 1], exclude=True),
    "all": lambda y: relay.sum(y),
    "turned": lambda y: relay.transpose(y, axes=[0, 2, 3, 1]),
    "turned round": lambda y: relay.transpose(y),
    "moved": lambda y: relay.layout_transform(y, src_layout="NCHW", dst_layout="NHWC"),
    "moved elsewhere": lambda y: relay.layout_transform(y, src_layout="NCHW", dst_layout="CHWN"),
}


@pytest.mark.parametrize("height", [6, ANY])
@pytest.mark.parametrize("name", BETWEEN)
def test_what_lies_between_follows(name: str, height: Any) -> None:
    """One move before, and one behind."""
    is_free = isinstance(height, relay.Any) and name not in ("pixels", "images", "concatenation with another")
    mod = _module(lambda x: nn.relu(BETWEEN[name](_conv(x))), (ANY, 4, ANY, 5) if is_free else IMAGE)
    assert _moves(_converted(mod)) == 2


@pytest.mark.parametrize("name", STAYS)
def test_other_operators_give_the_same_values(name: str) -> None:
    _converted(_module(lambda x: STAYS[name](nn.relu(_conv(x)))))


@pytest.mark.parametrize("name", AFTER)
def test_results_without_their_layout_need_no_move(name: str) -> None:
    made = _converted(_module(lambda x: AFTER[name](_conv(x))))
    assert _moves(made) == 1 + (name == "moved elsewhere")


def _network(x: Any) -> Any:
    y = nn.relu(_conv(x))
    y = nn.relu(_conv(y) + y)
    y = nn.max_pool2d(nn.bias_add(_conv(y), _c(4)), pool_size=(2, 2))
    return nn.dense(nn.batch_flatten(nn.global_avg_pool2d(y)), _c(3, 4))


def test_a_network_is_moved_at_its_ends() -> None:
    made = _converted(_module(_network))
    assert _moves(made) == 2
    convs = [node for node in post_order(made["main"]) if is_call(node, "nn.conv2d")]
    assert {node.attrs.data_layout for node in convs} == {"NHWC"} and len(convs) == 3
    again = passes.ConvertLayout({"nn.conv2d": ["NCHW", "default"]}).transform(made, None)  # type: ignore[arg-type]
    x = RNG.standard_normal(IMAGE).astype("float32")
    _same(run(again, x), run(made, x))


CONVERTED: dict[str, Any] = {
    "groups": (lambda x: nn.conv2d(x, _c(6, 2, 3, 3), groups=2), NHWC),
    "depthwise": (lambda x: nn.conv2d(x, _c(4, 1, 3, 3), groups=4), NHWC),
    "kernel layout": (lambda x: _conv(x, 6), {"nn.conv2d": ["NHWC", "OHWI"]}),
    "odd layout": (lambda x: _conv(x, 6), {"nn.conv2d": ["HWNC", "OIHW"]}),
    "result in another layout": (lambda x: _conv(x, 6, out_layout="NHWC"), NHWC),
    "transposed": (
        lambda x: nn.conv2d_transpose(x, _c(4, 6, 3, 3)),
        {"nn.conv2d_transpose": ["NHWC", "default"]},
    ),
    "pool": (lambda x: nn.max_pool2d(x, pool_size=(2, 2)), {"nn.max_pool2d": ["NHWC"]}),
    "images that are both": (lambda x: nn.conv2d(x, x), NHWC),
    "norm whose statistics are used": (lambda x: _norm(_conv(x)).astuple(), NHWC),
    "tuple": (lambda x: relay.Tuple([_conv(x), relay.split(_conv(x), 2, axis=1).astuple()]), NHWC),
    "kernel computed": (lambda x: nn.conv2d(x, relay.tanh(_c(6, 4, 3, 3))), NHWC),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_forms_of_convolutions(name: str) -> None:
    make, desired = CONVERTED[name]
    made = _converted(_module(make), desired)
    (wanted,) = desired.values()
    calls = [node for node in post_order(made["main"]) if is_call(node, *desired)]
    assert all((node.attrs.get("data_layout") or node.attrs.get("layout")) == wanted[0] for node in calls)


def test_lines_and_volumes() -> None:
    line = _module(lambda x: nn.relu(nn.conv1d(x, _c(3, 4, 2))), (2, 4, 7))
    assert _moves(_converted(line, {"nn.conv1d": ["NWC", "default"]})) == 2
    volume = _module(lambda x: nn.relu(nn.conv3d(x, _c(3, 2, 2, 2, 2))), (1, 2, 3, 4, 4))
    assert _moves(_converted(volume, {"nn.conv3d": ["NDHWC", "default"]})) == 2


def test_quantised_convolutions() -> None:
    x = relay.var("x", shape=IMAGE, dtype="int8")
    w = relay.const(RNG.integers(-9, 9, (4, 4, 3, 3)).astype("int8"), "int8")
    scales = [relay.const(1), relay.const(0), relay.const(0.5), relay.const(0.25)]
    y = relay.qnn.op.conv2d(x, w, *scales, kernel_size=(3, 3), channels=4)
    mod = passes.InferType()(IRModule.from_expr(relay.Function([x], y)))
    made = passes.ConvertLayout({"qnn.conv2d": ["NHWC", "default"]}).transform(mod, None)  # type: ignore[arg-type]
    value = RNG.integers(-9, 9, IMAGE).astype("int8")
    np.testing.assert_array_equal(run(made, value), run(mod, value))
    assert _moves(made) == 2
    hook = relay.qnn.op.convert_qnn_conv2d(y.attrs, list(y.args), [], ["NHWC", "HWIO"])
    assert (hook.attrs.data_layout, hook.attrs.kernel_layout) == ("NHWC", "HWIO")


def test_branches_lets_and_functions() -> None:
    mod = program("""
    def @f(%x: Tensor[(1, 2, 4, 4), float32], %w: Tensor[(2, 2, 3, 3), float32])
        -> Tensor[(1, 2, 4, 4), float32] {
      nn.conv2d(%x, %w, padding=[1, 1, 1, 1])
    }
    def @main(%c: bool, %x: Tensor[(1, 2, 4, 4), float32], %w: Tensor[(2, 2, 3, 3), float32]) {
      %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1]);
      let %y = if (%c) { nn.relu(%0) } else { exp(%0) };
      let %z = nn.conv2d(@f(%y, %w), %w, padding=[1, 1, 1, 1]);
      (tanh(%z), %0)
    }""")
    made = passes.ConvertLayout(NHWC).transform(mod, None)  # type: ignore[arg-type]
    image, weight = (RNG.standard_normal(s).astype("float32") for s in ((1, 2, 4, 4), (2, 2, 3, 3)))
    for chosen in (True, False):
        _same(run(made, np.bool_(chosen), image, weight), run(mod, np.bool_(chosen), image, weight))


def test_some_convolutions_are_left_alone() -> None:
    mod = _module(lambda x: _conv(nn.relu(_conv(x))))
    with passes.LayoutConfig(skip_layers=[0]) as config:
        made = _converted(mod)
    layouts = [node.attrs.data_layout for node in post_order(made["main"]) if is_call(node, "nn.conv2d")]
    assert layouts == ["NCHW", "NHWC"] and config.skip_counter == 2
    config.reset()
    assert not config.check_skip() and config.skip_counter == 1


def test_users_say_what_is_converted() -> None:
    register_convert_op_layout("nn.lrn", lambda attrs, inputs, types, wanted: relay.tanh(inputs[0]))
    try:
        made = passes.ConvertLayout({"nn.lrn": ["NHWC"]}).transform(_module(lambda x: nn.lrn(_conv(x))), None)  # type: ignore[arg-type]
    finally:
        reset_op_attr("nn.lrn", "FTVMConvertOpLayout")
    assert is_call(made["main"].body, "tanh")


@pytest.mark.parametrize(
    ("desired", "words"),
    [
        ({"nn.conv9d": ["NHWC"]}, "nn.conv9d"),
        ({"nn.conv2d": []}, "has 2 layouts"),
        ({"nn.conv2d": ["default"]}, "the layout of the data is said"),
        ({"nn.conv2d": ["NCHW4c"]}, "say a kernel layout"),
        ({"nn.conv2d": ["NHC", "HWIO"]}, "NHC"),
        ({"nn.max_pool2d": ["NHWC", "HWIO"]}, "has 1 layouts"),
    ],
)
def test_layouts_that_are_none_are_refused(desired: Any, words: str) -> None:
    mod = _module(lambda x: nn.max_pool2d(_conv(x), pool_size=(2, 2)))
    with pytest.raises(HeddleError, match=words):
        passes.ConvertLayout(desired).transform(mod, None)  # type: ignore[arg-type]


def _in_blocks(attrs: Any, inputs: Any, types: Any, out_type: Any) -> Any:
    if types[0].dims[1].value % 4:
        return None
    changed = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i4o", "out_layout": "NCHW4c"}
    return call("nn.contrib_conv2d_NCHWc", *inputs, **{**dict(attrs.items()), **changed})


def test_users_say_layouts_in_blocks() -> None:
    """What works on elements follows where it fills blocks; all else is moved back."""
    mod = _module(
        lambda x: relay.sum(nn.relu(_conv(_conv(x) * _c(4, 1, 1)) + _c(1, 4, 1, 1)) + _c(6, 5), axis=1)
    )
    assert passes.AlterOpLayout().transform(mod, None) is mod  # type: ignore[arg-type]
    register_alter_op_layout("nn.conv2d", _in_blocks)
    try:
        made = passes.AlterOpLayout().transform(mod, None)  # type: ignore[arg-type]
    finally:
        reset_op_attr("nn.conv2d", "FTVMAlterOpLayout")
    x = RNG.standard_normal(IMAGE).astype("float32")
    _same(run(made, x), run(mod, x))
    assert sum(is_call(node, "nn.contrib_conv2d_NCHWc") for node in post_order(made["main"])) == 2
    assert _moves(made) == 2


def test_what_stands_for_an_expression_can_be_made_one() -> None:
    x = relay.var("x", shape=IMAGE)
    assert is_call(Arranged(x, "NHWC", "NCHW").realize(), "layout_transform") and relay.TempExpr is TempExpr
    with pytest.raises(NotImplementedError, match="realize"):
        TempExpr.realize(Arranged(x, "NHWC", "NCHW"))


def test_operators_on_elements_are_said_by_their_records() -> None:
    """For each: what it gives for moved operands is what it gives, moved."""
    names = [name for name in op_names() if works_on_elements(get(name))]
    assert len(names) > 50
    for name in names:
        count = len(lookup(name)[1].inputs_of(lookup(name)[0]))
        dtype = (
            "int32"
            if name.startswith(("bitwise", "left", "right"))
            else "bool"
            if "logical" in name
            else "float32"
        )
        args = [RNG.uniform(1, 5, (2, 3)).astype(dtype) for _ in range(count)]
        given = [relay.var(f"a{k}", shape=(2, 3), dtype=dtype) for k in range(count)]
        attrs: dict[str, Any] = {"cast": {"dtype": "int32"}, "clip": {"a_min": 2.0, "a_max": 3.0}}.get(
            name, {}
        )
        if name == "reinterpret":
            attrs = {"dtype": "int32"}
        if name == "where":
            given[0] = relay.greater(given[1], given[2])
        plain = call(name, *given, **attrs)
        moved = call(name, *(relay.transpose(each) for each in given), **attrs)
        params = [each for each in given if isinstance(each, relay.Var)]
        args = args[-len(params) :]
        mod = IRModule.from_expr(relay.Function(params, relay.Tuple([relay.transpose(plain), moved])))
        one, other = run(mod, *args)
        np.testing.assert_array_equal(one, other, err_msg=name)
