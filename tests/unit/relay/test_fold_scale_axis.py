"""Factors of channels go into weights where the value stays, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.ir.module import IRModule
from heddle.relay import transform as passes
from heddle.relay.placement import post_order
from heddle.relay.transform.rewriting import is_call
from tests.unit.relay.programs import run

RNG = np.random.default_rng(7)
IMAGE, WEIGHT = (2, 4, 5, 5), (6, 4, 3, 3)
S = RNG.uniform(0.5, 2, (6, 1, 1)).astype("float32")
S4 = RNG.uniform(0.5, 2, (4, 1, 1)).astype("float32")


def _c(*shape: int) -> Any:
    return relay.const(RNG.standard_normal(shape).astype("float32"))


def _x(*shape: Any) -> Any:
    return relay.var("x", shape=shape)


def _conv(x: Any, **attrs: Any) -> Any:
    return relay.nn.conv2d(x, _c(*WEIGHT), padding=(1, 1), **attrs)


def _scaled_pair(x: Any) -> Any:
    """Two convolutions of one scaled tensor."""
    y = x * relay.const(S4)
    return relay.nn.conv2d(y, _c(*WEIGHT)) + relay.nn.conv2d(y, _c(*WEIGHT))


const, nn = relay.const, relay.nn
BACKWARD = {
    "conv": (IMAGE, lambda x: _conv(x) * const(S)),
    "factor first": (IMAGE, lambda x: const(-S) * _conv(x)),
    "one number": (IMAGE, lambda x: _conv(x) * const(3.0)),
    "free batch and pixels": (IMAGE, lambda x: _conv(x) * const(S), (relay.Any(), 4, relay.Any(), 5)),
    "activation": (IMAGE, lambda x: nn.relu(nn.leaky_relu(_conv(x), alpha=0.1)) * const(S)),
    "bias": (IMAGE, lambda x: nn.bias_add(_conv(x), _c(6)) * const(-S)),
    "sums": (IMAGE, lambda x: (_c(6, 1, 1) - (_conv(x) + _c(1, 1, 1))) * const(-S)),
    "two factors": (IMAGE, lambda x: nn.relu(_conv(x) * const(-S)) * const(S)),
    "groups": (IMAGE, lambda x: nn.conv2d(x, _c(6, 2, 3, 3), groups=2) * const(S)),
    "depthwise": (IMAGE, lambda x: nn.conv2d(x, _c(4, 1, 3, 3), groups=4) * const(-S4)),
    "transposed": (IMAGE, lambda x: nn.conv2d_transpose(x, _c(4, 6, 3, 3)) * const(S)),
    "channels last": (
        (2, 5, 5, 4),
        lambda x: nn.conv2d(x, _c(3, 3, 4, 6), data_layout="NHWC", kernel_layout="HWIO") * const(S[:, 0, 0]),
    ),
    "line": ((2, 4, 7), lambda x: nn.conv1d(x, _c(6, 4, 3)) * const(S[:, 0])),
    "volume": ((1, 2, 3, 4, 4), lambda x: nn.conv3d(x, _c(6, 2, 2, 2, 2)) * const(S[..., None])),
    "dense": ((3, 4), lambda x: nn.dense(x, _c(6, 4)) * const(S[:, 0, 0])),
    "dense, free rows": ((3, 4), lambda x: nn.dense(x, _c(6, 4)) * const(S[:, 0, 0]), (relay.Any(), 4)),
}
FORWARD = {
    "conv": (IMAGE, lambda x: _conv(x * const(-S4))),
    "one number": (IMAGE, lambda x: _conv(const(0.0) * x)),
    "free batch and pixels": (IMAGE, lambda x: _conv(x * const(S4)), (relay.Any(), 4, relay.Any(), 5)),
    "activation": (IMAGE, lambda x: _conv(nn.relu(x * const(S4)))),
    "sums": (IMAGE, lambda x: _conv(_c(4, 1, 1) - nn.bias_add(x * const(-S4), _c(4)))),
    "two factors": (IMAGE, lambda x: _conv(nn.relu(x * const(S4)) * const(-S4))),
    "shared": (IMAGE, _scaled_pair),
    "depthwise": (IMAGE, lambda x: nn.conv2d(x * const(-S4), _c(4, 1, 3, 3), groups=4)),
    "transposed, groups": (IMAGE, lambda x: nn.conv2d_transpose(x * const(S4), _c(4, 3, 3, 3), groups=2)),
    "channels last": (
        (2, 5, 5, 4),
        lambda x: nn.conv2d(x * const(S4[:, 0, 0]), _c(3, 3, 4, 6), data_layout="NHWC", kernel_layout="HWIO"),
    ),
    "dense": ((3, 4), lambda x: nn.dense(x * const(S4[:, 0, 0]), _c(6, 4))),
}
REFUSED = {
    "backward, negative before an activation": (IMAGE, lambda x: nn.relu(_conv(x)) * const(-S)),
    "backward, zero before an activation": (IMAGE, lambda x: nn.relu(_conv(x)) * const(0.0)),
    "backward, no number": (IMAGE, lambda x: _conv(x) * const(np.array(np.inf, "float32"))),
    "backward, used twice": (IMAGE, lambda x: (lambda y: y * const(S) + y)(_conv(x))),
    "backward, of pixels": (IMAGE, lambda x: _conv(x) * _c(5)),
    "backward, of batches": (IMAGE, lambda x: _conv(x) * _c(2, 1, 1, 1)),
    "backward, of several axes": (IMAGE, lambda x: _conv(x) * _c(6, 5, 1)),
    "backward, broadcast": ((1, 4, 5, 5), lambda x: _conv(x) * _c(2, 6, 1, 1)),
    "backward, through the softmax": ((3, 4), lambda x: nn.softmax(nn.dense(x, _c(6, 4))) * const(2.0)),
    "backward, sum of pixels": (IMAGE, lambda x: (_conv(x) + _c(5)) * const(S)),
    "backward, groups transposed": (
        IMAGE,
        lambda x: nn.conv2d_transpose(x, _c(4, 3, 3, 3), groups=2, channels=6) * const(S),
    ),
    "forward, negative before an activation": (IMAGE, lambda x: _conv(nn.relu(x * const(-S4)))),
    "forward, zero before a sum": (IMAGE, lambda x: _conv(x * const(0.0) + _c(4, 1, 1))),
    "forward, used otherwise": ((1, 4, 3, 3), lambda x: (lambda y: _conv(y) + relay.sum(y))(x * const(S4))),
    "forward, its own weight": ((4, 4), lambda x: (lambda y: nn.dense(y, y))(x * const(S4[:, 0, 0]))),
    "forward, groups": (IMAGE, lambda x: nn.conv2d(x * const(S4), _c(6, 2, 3, 3), groups=2)),
    "forward, of pixels": (IMAGE, lambda x: _conv(x * _c(5))),
}


def _module(case: Any) -> tuple[IRModule, Any]:
    shape, make, *declared = case
    x = _x(*(declared[0] if declared else shape))
    mod = passes.InferType()(IRModule.from_expr(relay.Function([x], make(x))))
    return mod, RNG.standard_normal(shape).astype("float32")


def _factors(mod: IRModule) -> int:
    return sum(is_call(node, "multiply") for node in post_order(mod["main"].body))


@pytest.mark.parametrize(
    ("step", "case"),
    [(passes.BackwardFoldScaleAxis(), case) for case in BACKWARD.values()]
    + [(passes.ForwardFoldScaleAxis(), case) for case in FORWARD.values()],
    ids=[f"backward, {name}" for name in BACKWARD] + [f"forward, {name}" for name in FORWARD],
)
def test_factors_become_part_of_weights(step: Any, case: Any) -> None:
    mod, x = _module(case)
    made = passes.FoldConstant()(step.transform(mod, None))
    assert _factors(mod) > 0 and _factors(made) == 0
    np.testing.assert_allclose(run(made, x), run(mod, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", REFUSED)
def test_factors_stay_where_values_would_change(name: str) -> None:
    mod, _ = _module(REFUSED[name])
    step = passes.BackwardFoldScaleAxis() if name.startswith("back") else passes.ForwardFoldScaleAxis()
    assert step.transform(mod, None) is mod  # type: ignore[arg-type]


def test_factors_and_weights_may_be_parameters() -> None:
    x, w, s, r = (
        relay.var(n, shape=d) for n, d in zip("xwsr", (IMAGE, WEIGHT, S.shape, S4.shape), strict=True)
    )
    func = relay.Function([x, w, s, r], nn.conv2d(x * r, w) * s)
    mod = passes.InferType()(IRModule.from_expr(func))
    made = passes.FoldScaleAxis().transform(mod, None)  # type: ignore[arg-type]
    (conv,) = (node for node in post_order(made["main"].body) if is_call(node, "nn.conv2d"))
    assert conv is made["main"].body and conv.args[0] is made["main"].params[0]
    args = [RNG.standard_normal(d).astype("float32") for d in (IMAGE, WEIGHT, S.shape, S4.shape)]
    np.testing.assert_allclose(run(made, *args), run(mod, *args), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_integers_stay(dtype: str) -> None:
    x = relay.var("x", shape=(3, 4), dtype=dtype)
    w, s = relay.const(np.ones((6, 4), dtype), dtype), relay.const(np.full((6,), 2), dtype)
    mod = passes.InferType()(IRModule.from_expr(relay.Function([x], nn.dense(x, w) * s)))
    made = passes.FoldScaleAxis().transform(mod, None)  # type: ignore[arg-type]
    assert _factors(made) == (dtype == "int32")
    args = np.arange(12).reshape(3, 4).astype(dtype)
    np.testing.assert_array_equal(run(made, args), run(mod, args))


def test_a_normalised_network_has_no_factor_left() -> None:
    """A batch norm as arithmetic, behind and before convolutions."""
    y = _x(*IMAGE)
    x = y
    for channels in (4, 6):
        y = nn.conv2d(y, _c(6, channels, 3, 3), padding=(1, 1))
        y = nn.batch_norm(y, _c(6), _c(6), _c(6), relay.const(np.ones(6, "float32")))[0]
        y = nn.relu(y)
    mod = IRModule.from_expr(relay.Function([x], y))
    steps = [passes.SimplifyInference(), passes.CanonicalizeOps(), passes.FoldConstant()]
    for step in steps:
        mod = step.transform(passes.InferType()(mod), None)  # type: ignore[arg-type]
    made = passes.FoldScaleAxis().transform(mod, None)  # type: ignore[arg-type]
    value = RNG.standard_normal(IMAGE).astype("float32")
    assert _factors(mod) == 2 and _factors(made) == 0
    np.testing.assert_allclose(run(made, value), run(mod, value), rtol=1e-4, atol=1e-4)
