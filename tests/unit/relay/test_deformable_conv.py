"""nn.deformable_conv2d by its definition, tap by tap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.module import IRModule
from heddle.relay.transform import InferType
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import run

RNG = np.random.default_rng(11)


def _read(image: Any, y: float, x: float) -> Any:
    """An image (c, h, w) between its pixels; 0 outside; at the last row and column what is there."""
    height, width = image.shape[1:]
    if not (0 <= y < height and 0 <= x < width):
        return np.zeros(len(image))
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, u = y - top, x - left
    above = image[:, top, left] * (1 - u) + image[:, top, right] * u
    below = image[:, bottom, left] * (1 - u) + image[:, bottom, right] * u
    return above * (1 - v) + below * v


def _wanted(data: Any, offset: Any, weight: Any, **attrs: Any) -> Any:
    strides, padding, dilation = (
        attrs.get(k, d)
        for k, d in zip(("strides", "padding", "dilation"), ((1, 1), (0, 0), (1, 1)), strict=True)
    )
    groups, parts = attrs.get("groups", 1), attrs.get("deformable_groups", 1)
    (batch, channels, *_), (outputs, inner, kh, kw) = data.shape, weight.shape
    rows, columns = offset.shape[2:]
    moved = offset.reshape(batch, parts, kh, kw, 2, rows, columns)
    made = np.zeros((batch, outputs, rows, columns))
    own = channels // parts
    for n, r, c, i, j in np.ndindex(batch, rows, columns, kh, kw):
        read = np.concatenate([
            _read(
                data[n, p * own : (p + 1) * own],
                r * strides[0] - padding[0] + i * dilation[0] + moved[n, p, i, j, 0, r, c],
                c * strides[1] - padding[1] + j * dilation[1] + moved[n, p, i, j, 1, r, c],
            )
            for p in range(parts)
        ])  # fmt: skip
        for o in range(outputs):
            start = o // (outputs // groups) * inner
            made[n, o, r, c] += read[start : start + inner] @ weight[o, :, i, j]
    return made


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "strides": {"strides": (2, 1), "padding": (1, 2)},
    "dilation": {"dilation": (1, 2), "padding": (1, 1)},
    "groups": {"groups": 2},
    "parts": {"deformable_groups": 2, "padding": (1, 1)},
    "both": {"deformable_groups": 4, "groups": 2},
}


def _sizes(size: int, kernel: int, attrs: dict[str, Any], axis: int) -> int:
    pad, gap, step = (
        attrs.get(k, d)[axis] for k, d in (("padding", (0, 0)), ("dilation", (1, 1)), ("strides", (1, 1)))
    )
    return int((size + 2 * pad - gap * (kernel - 1) - 1) // step + 1)


def _given(attrs: dict[str, Any], batch: int = 2) -> tuple[Any, Any, Any]:
    data, kernel = RNG.standard_normal((batch, 4, 6, 5)).astype("float32"), (3, 2)
    weight = RNG.standard_normal((2, 4 // attrs.get("groups", 1), *kernel)).astype("float32")
    rows, columns = (
        _sizes(size, k, attrs, axis) for axis, (size, k) in enumerate(zip((6, 5), kernel, strict=True))
    )
    count = 2 * attrs.get("deformable_groups", 1) * 6
    return data, RNG.uniform(-3, 3, (batch, count, rows, columns)).astype("float32"), weight


def _module(shapes: Any, **attrs: Any) -> IRModule:
    params = [relay.var(name, shape=shape) for name, shape in zip("dow", shapes, strict=True)]
    return InferType()(
        IRModule.from_expr(relay.Function(params, relay.nn.deformable_conv2d(*params, **attrs)))
    )


@pytest.mark.parametrize("is_free", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_taps_have_offsets(name: str, is_free: bool) -> None:
    attrs = CASES[name]
    args = _given(attrs)
    shapes = [(relay.Any() if is_free and k < 2 else len(arg), *arg.shape[1:]) for k, arg in enumerate(args)]
    mod, wanted = _module(shapes, **attrs), _wanted(*args, **attrs)
    np.testing.assert_allclose(run(mod, *args), wanted, rtol=1e-3, atol=1e-3)
    vm = heddle.relax.VirtualMachine(heddle.compile(mod), heddle.cpu())
    found = vm["main"](*map(heddle.tensor, args)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("batch", [0, 1])
def test_without_offsets_it_is_a_convolution(batch: int) -> None:
    data, offset, weight = _given({"padding": (1, 1)}, batch)
    found = run(_module([data.shape, offset.shape, weight.shape], padding=(1, 1)), data, offset * 0, weight)
    x, w = relay.var("x", shape=data.shape), relay.const(weight)
    plain = IRModule.from_expr(relay.Function([x], relay.nn.conv2d(x, w, padding=(1, 1))))
    np.testing.assert_allclose(found, run(plain, data), rtol=1e-3, atol=1e-3)


def test_channels_last() -> None:
    data, offset, weight = _given({})
    args = [data.transpose(0, 2, 3, 1), offset.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0)]
    args = [np.ascontiguousarray(arg) for arg in args]
    mod = _module([arg.shape for arg in args], data_layout="NHWC", kernel_layout="HWIO")
    np.testing.assert_allclose(
        run(mod, *args), _wanted(data, offset, weight).transpose(0, 2, 3, 1), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((1, 4, 6, 5), (1, 11, 4, 4), (2, 4, 3, 2)), "not 12"),
        (((1, 3, 6, 5), (1, 12, 4, 4), (2, 4, 3, 2)), "does not fit 3 channels"),
        (((1, 4, relay.Any(), 5), (1, 12, 4, 4), (2, 4, 3, 2)), "sizes that are known"),
    ],
)
def test_what_does_not_fit_is_refused(shapes: Any, words: str) -> None:
    with pytest.raises(HeddleError, match=words):
        _module(shapes)
