"""What passes over rows, columns or all elements: reductions, softmax and the norms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heddle.ir.expr import Expr, TupleGetItem
from tests.accuracy.forms import Dims, Expected, Form, Reference, call, exact, oracle, relative
from tests.accuracy.values import ALL, FINITE, ROWS

Sizes = tuple[Mapping[str, int], ...]
_GRID: Sizes = tuple(
    {"m": m, "n": n}
    for m, n in (
        (1, 1),
        (7, 13),
        (0, 5),
        (1, 4099),
        (33, 16),
        (1031, 3),
        (64, 769),
        (700, 257),
        (65537, 17),
        (2, 300_007),
    )
)
_NOT_EMPTY = tuple(sizes for sizes in _GRID if sizes["m"])
_WITH_NONE: Sizes = (*_GRID, {"m": 3, "n": 0})
_PLACES: tuple[tuple[str, Any], ...] = (("rows", -1), ("columns", 0), ("all", None))
_IMAGES: Sizes = tuple({"n": n, "h": h} for n, h in ((1, 1), (0, 3), (2, 7), (3, 31), (1, 56)))


def _reduction(
    name: str,
    place: str,
    axis: Any,
    kind: str,
    values: tuple[str, ...],
    sizes: Sizes,
    reference: Reference,
) -> Form:
    return Form(
        name, f"{name} of {place}", (("m", "n"),), call(name, axis=axis), reference, kind, values, sizes,
        in_ci=place == "rows" or (name, place) == ("sum", "columns"),
    )  # fmt: skip


def _count(x: Any, axis: Any) -> int:
    return x.size if axis is None else x.shape[axis]


def _sum(axis: Any) -> Reference:
    def reference(x: Any) -> Expected:
        scale = np.sqrt(np.sum(x * x, axis))
        return Expected((np.sum(x, axis),), (scale,), 0)  # sums of subnormal numbers are exact

    return _quietly(reference)


def _mean(axis: Any) -> Reference:
    def reference(x: Any) -> Expected:
        return Expected((np.mean(x, axis),), (np.sqrt(np.sum(x * x, axis)) / _count(x, axis),), 1)

    return _quietly(reference)


def _prod(axis: Any) -> Reference:
    """Every factor rounds the product: errors grow as the root of their number."""
    function = oracle("prod", axis=axis)
    return relative(function, lambda x: np.abs(function(x)) * np.sqrt(_count(x, axis)) / 100)


def _variance(function: Callable[..., Any], axis: Any) -> Reference:
    """The mean is rounded: that shows where the elements are close to each other."""

    def reference(x: Any) -> Expected:
        mean, std = np.abs(np.mean(x, axis)), np.std(x, axis)
        scale = 0.02 * mean * (std + 1e-7 * mean) if function is np.var else 0.02 * mean
        return Expected((function(x, axis),), (scale,), 2)

    return _quietly(reference)


def _quietly(function: Reference) -> Reference:
    def reference(*arrays: Any) -> Expected:
        with np.errstate(all="ignore"):
            return function(*arrays)

    return reference


def _reductions() -> list[Form]:
    found = []
    for place, axis in _PLACES:
        found += [
            _reduction("sum", place, axis, "accumulated", ALL, _WITH_NONE, _sum(axis)),
            _reduction("mean", place, axis, "accumulated", ALL, _NOT_EMPTY, _mean(axis)),
            *(
                _reduction(name, place, axis, "rounded", (*FINITE, "infinite"),
                           _WITH_NONE if axis != 0 else _GRID, relative(oracle(name, axis=axis), steps=0))
                for name in ("max", "min")
            ),
            _reduction("prod", place, axis, "accumulated", ("factors",), _WITH_NONE, _prod(axis)),
            *(
                _reduction(name, place, axis, "exact", ("normal", "subnormal", "mixed", "wide", "ties"),
                           _NOT_EMPTY, exact(oracle(name, axis=axis)))
                for name in ("argmax", "argmin")
            ),
            *(
                _reduction(name, place, axis, "accumulated", ("normal", "positive", "large", "small"),
                           _NOT_EMPTY, _variance(function, axis))
                for name, function in (("variance", np.var), ("std", np.std))
            ),
        ]  # fmt: skip
    return found


def _softmax(axis: int) -> Reference:
    """The rounding of x - max is an error of the exponent: it counts relative to the result."""

    def reference(x: Any) -> Expected:
        below = x - x.max(axis, keepdims=True, initial=-np.inf)
        e = np.exp(below)
        want = e / e.sum(axis, keepdims=True)
        return Expected((want,), (want * np.abs(below) / 10,), 4)

    return _quietly(reference)


def _log_softmax(axis: int) -> Reference:
    def reference(x: Any) -> Expected:
        below = x - x.max(axis, keepdims=True, initial=-np.inf)
        return Expected((below - np.log(np.exp(below).sum(axis, keepdims=True)),), (1.0,), 4)

    return _quietly(reference)


def _softmaxes() -> list[Form]:
    found = []
    for name, make in (("softmax", _softmax), ("log_softmax", _log_softmax)):
        for place, axis in (("rows", -1), ("columns", 0)):
            found.append(
                Form(
                    name.replace("_", "-"), f"{name} of {place}", (("m", "n"),),
                    call(f"nn.{name}", axis=axis), make(axis), "accumulated", ROWS, _GRID,
                    in_ci=place == "rows",
                )
            )  # fmt: skip
    return found


def _normalised(x: Any, axes: tuple[int, ...], epsilon: float, is_centred: bool = True) -> tuple[Any, Any]:
    """The result of a norm without factors, and its scale: subtracting the mean leaves its rounding."""
    mean = x.mean(axes, keepdims=True) if is_centred else np.zeros((1,) * x.ndim)
    middle = x - mean
    scaling = 1 / np.sqrt((middle * middle).mean(axes, keepdims=True) + epsilon)
    return middle * scaling, (np.abs(mean) + np.sqrt((x * x).mean(axes, keepdims=True)) / 8) * scaling


def _norm(axes: tuple[int, ...], channel: int | None, is_centred: bool = True, groups: int = 0) -> Reference:
    def reference(x: Any, gamma: Any, *beta: Any) -> Expected:
        shape = (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]) if groups else x.shape
        plain, scale = _normalised(x.reshape(shape), axes, 1e-5, is_centred)
        plain, scale = plain.reshape(x.shape), np.broadcast_to(scale, shape).reshape(x.shape)
        if channel is not None:
            gamma, *beta = (f.reshape(-1, *(1,) * (x.ndim - 1 - channel)) for f in (gamma, *beta))
        offset = beta[0] if beta else 0.0
        want = plain * gamma + offset
        return Expected((want,), (scale * np.abs(gamma) + np.abs(offset),), 8)

    return _quietly(reference)


def _norm_form(
    family: str,
    name: str,
    params: tuple[Dims, ...],
    reference: Reference,
    sizes: Sizes,
    body: Callable[..., Expr] | None = None,
    in_ci: bool = False,
    **attrs: Any,
) -> Form:
    values = ("normal", "positive", "large", "small", "subnormal", "mixed", "NaN")
    return Form(
        family, name, params, body or call(f"nn.{family.replace(' ', '_')}", **attrs), reference,
        "accumulated", values, sizes, in_ci=in_ci,
    )  # fmt: skip


def _norms() -> list[Form]:
    image: Dims = ("n", 12, "h", 5)
    wide: Dims = ("n", 64, "h", 28)
    found = [
        _norm_form(
            "layer norm",
            "rows",
            (("m", "n"), ("n",), ("n",)),
            _norm((-1,), None),
            _GRID,
            axes=[-1],
            in_ci=True,
        ),
        _norm_form(
            "layer norm",
            "two axes",
            (("m", 3, "n"), (3, "n"), (3, "n")),
            _norm((-2, -1), None),
            _GRID,
            axes=[1, 2],
        ),
        _norm_form(
            "rms norm", "rows", (("m", "n"), ("n",)), _norm((-1,), None, False), _GRID, axes=[-1], in_ci=True
        ),
    ]
    for data in (image, wide):
        channels = int(data[1])
        two = ((channels,), (channels,))
        found += [
            _norm_form("group norm", f"4 groups of {channels // 4}", (data, *two),
                  _norm((2, 3, 4), 1, groups=4), _IMAGES, num_groups=4, axes=[2, 3], in_ci=data is image),
            _norm_form("instance norm", f"{channels} channels", (data, *two), _norm((2, 3), 1), _IMAGES,
                  axes=[2, 3], in_ci=data is image),
            _batch_norm(data, channels),
        ]  # fmt: skip
    return found


def _batch_norm(data: Dims, channels: int) -> Form:
    """Moving statistics: x - mean, times a factor a channel, plus an offset."""

    def reference(x: Any, gamma: Any, beta: Any, mean: Any, root: Any) -> Expected:
        gamma, beta, mean, var = (f.reshape(-1, 1, 1) for f in (gamma, beta, mean, root * root))
        scaling = gamma / np.sqrt(var + 1e-5)
        scale = (np.abs(x) + np.abs(mean)) * np.abs(scaling) + np.abs(beta)
        return Expected(((x - mean) * scaling + beta,), (scale,), 8)

    def body(x: Any, gamma: Any, beta: Any, mean: Any, root: Any) -> Expr:
        made = call("nn.batch_norm", axis=1, training=False)(x, gamma, beta, mean, call("square")(root))
        return TupleGetItem(made, 0)

    one: Dims = (channels,)
    params = (data, one, one, one, one)
    name = f"{channels} channels"
    return _norm_form("batch norm", name, params, _quietly(reference), _IMAGES, body, in_ci=channels == 12)


def _lrn(channels: int, size: int, beta: float, in_ci: bool = False) -> Form:
    attrs = {"size": size, "alpha": 0.1, "beta": beta, "bias": 1.0}
    return Form(
        "LRN", f"{channels} channels, {size} neighbours, beta {beta}", (("n", channels, "h", 5),),
        call("nn.lrn", **attrs), relative(oracle("nn.lrn", **attrs)), "accumulated",
        ("normal", "positive", "large", "small", "subnormal", "mixed"), _IMAGES, in_ci=in_ci,
    )  # fmt: skip


ROW_PASSES: tuple[Form, ...] = (
    *_reductions(),
    *_softmaxes(),
    *_norms(),
    _lrn(7, 3, 0.75, True),
    _lrn(64, 5, 0.75),
    _lrn(17, 5, 0.6),
)
