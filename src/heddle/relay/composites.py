"""Functions of Relay that are several operators: `relay.logsumexp`, `relay.mean_std`, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.ir.expr import Tuple
from heddle.relay.builders import TupleWrapper
from heddle.relay.op import relay_call

_Axes = int | Sequence[int] | None


def _reduced(name: str, data: Any, axis: _Axes, keepdims: bool, exclude: bool = False) -> Any:
    return relay_call(name, (data,), {"axis": axis, "keepdims": keepdims, "exclude": exclude})


def mean_variance(
    data: Any, axis: _Axes = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> TupleWrapper:
    """The mean and the variance over axes. Raises: IRTypeError where they do not fit the operators."""
    whole = _reduced("mean", data, axis, True, exclude)
    attrs = {"axis": axis, "keepdims": keepdims, "exclude": exclude, "unbiased": unbiased}
    variance = relay_call("variance", (data, whole), attrs)
    return TupleWrapper(Tuple((_reduced("mean", data, axis, keepdims, exclude), variance)), 2)


def mean_std(data: Any, axis: _Axes = None, keepdims: bool = False, exclude: bool = False) -> TupleWrapper:
    """The mean and the standard deviation over axes. Raises: as `mean_variance`."""
    mean, variance = mean_variance(data, axis, keepdims, exclude)
    return TupleWrapper(Tuple((mean, relay_call("sqrt", (variance,), {}))), 2)


def std(
    data: Any, axis: _Axes = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> Any:
    """The standard deviation over axes. Raises: as `mean_variance`."""
    return relay_call("sqrt", (mean_variance(data, axis, keepdims, exclude, unbiased)[1],), {})


def logsumexp(data: Any, axis: _Axes = None, keepdims: bool = False) -> Any:
    """`log(sum(exp(data)))` over axes, without overflow."""
    most = _reduced("max", data, axis, True)
    powers = relay_call("exp", (relay_call("subtract", (data, most), {}),), {})
    found = relay_call("log", (_reduced("sum", powers, axis, keepdims),), {})
    return relay_call("add", (found, most if keepdims else _reduced("max", data, axis, False)), {})
