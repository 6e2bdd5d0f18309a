"""References against another implementation: PyTorch, where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from heddle.ir.attrs import attrs_of
from heddle.ir.op import OP_RECORDS
from heddle.topi.nn.window import spread
from tests.ops.cases import Case, cases, flat
from tests.ops.tolerances import assert_close

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional

Oracle = Callable[..., Any]
NCHW = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _symmetric(padding: Any, ndim: int) -> Any:
    """PyTorch's padding, or None where both sides differ."""
    given = list(padding) if isinstance(padding, (tuple, list)) else [padding] * ndim
    if len(given) == 1:
        return given * ndim
    return given[:ndim] if len(given) == ndim or given[:ndim] == given[ndim:] else None


def _conv(ndim: int, transposed: bool) -> Oracle:
    function = getattr(F, f"conv_transpose{ndim}d" if transposed else f"conv{ndim}d")

    def run(attrs: Any, data: Any, weight: Any) -> Any:
        padding = _symmetric(attrs.padding, ndim)
        if padding is None or attrs.data_layout != NCHW[ndim] or attrs.out_layout or 0 in data.shape:
            return None
        options = {
            "stride": attrs.strides,
            "padding": padding,
            "dilation": attrs.dilation,
            "groups": attrs.groups,
        }
        if transposed:
            options["output_padding"] = attrs.output_padding
        return function(data, weight, None, **options)

    return run


def _pool(kind: str, ndim: int) -> Oracle:
    function = getattr(F, f"{kind}_pool{ndim}d")

    def run(attrs: Any, data: Any) -> Any:
        padding = _symmetric(attrs.padding, ndim)
        is_dilated = attrs.dilation not in (1, (1,) * ndim)
        if (
            padding is None
            or attrs.layout != NCHW[ndim]
            or (kind == "avg" and is_dilated)
            or data.dtype != torch.float32
            or any(2 * pad > size for pad, size in zip(padding, spread(attrs.pool_size, ndim), strict=True))
        ):
            return None
        options = {"stride": attrs.strides, "padding": padding, "ceil_mode": bool(attrs.ceil_mode)}
        options |= (
            {"dilation": attrs.dilation}
            if kind == "max"
            else {"count_include_pad": bool(attrs.count_include_pad)}
        )
        return function(data, attrs.pool_size, **options)

    return run


def _sum_pool(ndim: int) -> Oracle:
    """The norm of order 1 of what is not negative. PyTorch's has no padding, and scales windows over the edge
    as if they were whole."""
    norm = getattr(F, f"lp_pool{ndim}d")

    def run(attrs: Any, data: Any) -> Any:
        is_plain = not any(_symmetric(attrs.padding, ndim) or (1,)) and attrs.dilation in (1, (1,) * ndim)
        if (
            not is_plain
            or attrs.ceil_mode
            or attrs.layout != NCHW[ndim]
            or data.dtype != torch.float32
            or not data.numel()
        ):
            return None
        sums = [
            norm(part, 1, attrs.pool_size, attrs.strides)
            for part in (data.clamp(min=0), (-data).clamp(min=0))
        ]
        return sums[0] - sums[1]

    return run


def _adaptive(kind: str, ndim: int) -> Oracle:
    function = getattr(F, f"adaptive_{kind}_pool{ndim}d")

    def run(attrs: Any, data: Any) -> Any:
        if attrs.layout != NCHW[ndim] or attrs.output_size is None:
            return None
        return function(data, attrs.output_size)

    return run


def _resize(attrs: Any, data: Any, size: Any, *geometry: Any) -> Any:
    modes = {"linear": "bilinear", "cubic": "bicubic"}
    if attrs.layout != "NCHW" or attrs.method not in modes or attrs.cubic_exclude or geometry:
        return None
    if attrs.coordinate_transformation_mode not in ("half_pixel", "align_corners"):
        return None
    corners = attrs.coordinate_transformation_mode == "align_corners"
    return F.interpolate(data, tuple(size), mode=modes[attrs.method], align_corners=corners)


def _attention(attrs: Any, q: Any, k: Any, v: Any, *bias: Any) -> Any:
    if attrs.causal_mask == "BottomRight":
        return None
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    mask = bias[0] if bias else None
    made = F.scaled_dot_product_attention(q, k, v, mask, 0.0, bool(attrs.causal_mask), scale=attrs.scale)
    return made.transpose(1, 2)


def _layer_norm(attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    gamma, beta = (gamma if attrs.scale else None), (beta if attrs.center else None)
    shape = x.shape[-1:] if isinstance(attrs.axes, int) else x.shape[-len(attrs.axes) :]
    return F.layer_norm(x, shape, gamma, beta, attrs.epsilon)


def _group_norm(attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    if attrs.channel_axis != 1:
        return None
    gamma, beta = (gamma if attrs.scale else None), (beta if attrs.center else None)
    return F.group_norm(x, attrs.num_groups, gamma, beta, attrs.epsilon)


def _rms_norm(attrs: Any, x: Any, weight: Any) -> Any:
    axes = attrs.axes if isinstance(attrs.axes, (tuple, list)) else (attrs.axes,)
    if sorted(axis % x.ndim for axis in axes) != list(range(x.ndim - len(axes), x.ndim)):
        return None
    return F.rms_norm(x, weight.shape, weight, attrs.epsilon)


def _batch_norm(attrs: Any, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any) -> Any:
    """The result and the moving statistics; in training PyTorch's variance is of samples."""
    if attrs.axis != 1 or attrs.training:
        return None
    gamma, beta = (gamma if attrs.scale else None), (beta if attrs.center else None)
    return F.batch_norm(x, mean, variance, gamma, beta, False, 0.0, attrs.epsilon), mean, variance


def _instance_norm(attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    if attrs.channel_axis != 1 or list(attrs.axes) != list(range(2, x.ndim)):
        return None
    gamma, beta = (gamma if attrs.scale else None), (beta if attrs.center else None)
    return F.instance_norm(x, None, None, gamma, beta, eps=attrs.epsilon)


def _scan(function: Any) -> Oracle:
    def run(attrs: Any, x: Any) -> Any:
        if attrs.exclusive or attrs.dtype:
            return None
        return function(x.flatten(), 0) if attrs.axis is None else function(x, attrs.axis)

    return run


def _topk(attrs: Any, x: Any) -> Any:
    if attrs.ret_type != "both" or attrs.k < 1 or len(x.unique()) < x.numel():
        return None  # of equal values either may come first
    values, indices = torch.topk(x, min(attrs.k, x.shape[attrs.axis]), attrs.axis, attrs.largest)
    return values, indices.to(getattr(torch, attrs.dtype))


def _scatter_elements(attrs: Any, x: Any, indices: Any, updates: Any) -> Any:
    kinds = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax", "mean": "mean"}
    if attrs.reduction not in kinds:
        return None  # PyTorch leaves open which of several updates wins
    positions = torch.where(indices < 0, indices + x.shape[attrs.axis], indices)
    return x.scatter_reduce(attrs.axis, positions, updates, kinds[attrs.reduction])


def _pad(attrs: Any, x: Any) -> Any:
    if attrs.pad_mode != "constant":
        return None
    widths = list(attrs.pad_width)
    return F.pad(
        x, [w for k in reversed(range(x.ndim)) for w in widths[2 * k : 2 * k + 2]], value=attrs.pad_value
    )


def _lrn(attrs: Any, x: Any) -> Any:
    if attrs.axis != 1 or x.ndim < 3:
        return None
    return F.local_response_norm(x, attrs.size, attrs.alpha, attrs.beta, attrs.bias)


ORACLES: dict[str, Oracle] = {
    "matmul": lambda a, x, y: torch.matmul(x, y),
    "linear": lambda a, x, w, b=None: F.linear(x, w, b),
    "einsum": lambda a, xs: torch.einsum(a.subscripts, *xs),
    "erf": lambda a, x: torch.erf(x),
    "cumsum": _scan(torch.cumsum),
    "cumprod": _scan(torch.cumprod),
    "topk": _topk,
    "scatter_elements": _scatter_elements,
    "bucketize": lambda a, x, b: torch.searchsorted(b, x, out_int32=bool(a.out_int32), right=bool(a.right)),
    "nn.rms_norm": _rms_norm,
    "nn.batch_norm": _batch_norm,
    "nn.instance_norm": _instance_norm,
    "nn.lrn": _lrn,
    "nn.prelu": lambda a, x, w: F.prelu(x, w) if a.axis == 1 else None,
    "nn.leakyrelu": lambda a, x: F.leaky_relu(x, a.alpha),
    "nn.hardtanh": lambda a, x: F.hardtanh(x, a.min_val, a.max_val),
    "nn.relu6": lambda a, x: F.relu6(x),
    "nn.pad": _pad,
    "nn.softmax": lambda a, x: F.softmax(x, a.axis),
    "nn.log_softmax": lambda a, x: F.log_softmax(x, a.axis),
    "nn.gelu": lambda a, x: F.gelu(x),
    "nn.gelu_tanh": lambda a, x: F.gelu(x, approximate="tanh"),
    "nn.silu": lambda a, x: F.silu(x),
    "nn.softplus": lambda a, x: F.softplus(x, a.beta, a.threshold),
    "nn.elu": lambda a, x: F.elu(x, a.alpha),
    "nn.celu": lambda a, x: F.celu(x, a.alpha),
    "nn.selu": lambda a, x: F.selu(x),
    "nn.mish": lambda a, x: F.mish(x),
    "nn.hardswish": lambda a, x: F.hardswish(x),
    "nn.log_sigmoid": lambda a, x: F.logsigmoid(x),
    "nn.softsign": lambda a, x: F.softsign(x),
    "nn.layer_norm": _layer_norm,
    "nn.group_norm": _group_norm,
    "nn.pixel_shuffle": lambda a, x: None if a.blocks_first else F.pixel_shuffle(x, a.upscale_factor),
    "nn.pixel_unshuffle": lambda a, x: None if a.blocks_first else F.pixel_unshuffle(x, a.downscale_factor),
    "nn.attention": _attention,
    "image.resize2d": _resize,
    "nn.nll_loss": lambda a, p, t, w=None: F.nll_loss(
        p, t, w, reduction=a.reduction, ignore_index=a.ignore_index
    ),
}
for _ndim in (1, 2, 3):
    ORACLES[f"nn.conv{_ndim}d"], ORACLES[f"nn.conv{_ndim}d_transpose"] = (
        _conv(_ndim, False),
        _conv(_ndim, True),
    )
    ORACLES[f"nn.sum_pool{_ndim}d"] = _sum_pool(_ndim)
    for _kind in ("max", "avg"):
        ORACLES[f"nn.{_kind}_pool{_ndim}d"] = _pool(_kind, _ndim)
        ORACLES[f"nn.adaptive_{_kind}_pool{_ndim}d"] = _adaptive(_kind, _ndim)

CASES = [case for case in cases() if case.record.name in ORACLES and case.dtype == "float32"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reference_agrees_with_pytorch(case: Case) -> None:
    arguments = case.arguments()
    attrs = attrs_of(OP_RECORDS[f"relax.{case.record.name}"].bind_attrs(dict(case.sample.attrs)))
    tensors = [_to_torch(argument) for argument in arguments]
    result = ORACLES[case.record.name](attrs, *tensors)
    if result is None:
        pytest.skip("PyTorch lacks this mode")
    results = result if isinstance(result, tuple) else (result,)
    for want, got in zip(flat(case.record.reference(attrs, *arguments)), results, strict=True):
        assert_close(np.array(got.numpy()), want, case.record.name)


def _to_torch(argument: Any) -> Any:
    if isinstance(argument, tuple) and argument and isinstance(argument[0], np.ndarray):
        return [_to_torch(item) for item in argument]
    return torch.from_numpy(np.array(argument)) if isinstance(argument, np.ndarray) else argument
