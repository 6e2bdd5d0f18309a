"""Calls of graphs' operators that are not one call of Relay with the same arguments: those whose sizes are
expressions, and those that are several calls there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from heddle.graph.infer import type_of
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Call, Constant, Expr, Tuple
from heddle.ir.op import is_op
from heddle.lower.relay_operators import is_call_of
from heddle.prim.nodes import FloatImm, IntImm, PrimExpr, constant
from heddle.relay.builders import const
from heddle.relay.op import relay_call
from heddle.runtime.tensor import tensor


class Maker(Protocol):
    """What forms need of who makes the function."""

    def leaf(self, expr: Expr) -> Expr:
        """What stands for a variable or constant of the graph."""

    def made_of(self, expr: Expr) -> Expr:
        """What a variable of the graph is bound to."""

    def size(self, dim: PrimExpr) -> int | Expr:
        """A size as a number, or as an int64 of rank 0."""

    def shape(self, dims: Sequence[PrimExpr]) -> Expr:
        """Sizes as an int64 vector."""


Form = Callable[[Maker, Call], Expr | None]
"""The Relay expression of a call; None where the call is one of Relay as it is."""


_zero, _one = constant(0, "int64"), constant(1, "int64")


def _whole(values: Sequence[Any]) -> list[int] | None:
    """Numbers, where all are."""
    found = [value.value for value in values if isinstance(value, IntImm)]
    return found if len(found) == len(values) else None


def _dims(call: Call, place: int) -> Sequence[PrimExpr] | None:
    """The sizes that an argument says; None where a tensor says them."""
    shape = call.args[place] if place < len(call.args) else None
    return shape.values if isinstance(shape, ShapeExpr) else None


# ---- shapes


def _reshape(maker: Maker, call: Call) -> Expr | None:
    dims = _dims(call, 1)
    if dims is None:
        return None
    data, source = maker.leaf(call.args[0]), call.args[0]
    for attrs in _codes(type_of(source), dims):
        if is_call_of(("reshape", [source], attrs), call):
            return relay_call("reshape", (data,), attrs)
    return None


def _codes(ty: Any, dims: Sequence[PrimExpr]) -> list[dict[str, Any]]:
    """New sizes as Relay writes them: 0 for the size of the data at that place, -1 for what is left."""
    whole = _whole(dims)
    if whole is not None:
        return [{"newshape": whole, **({"allowzero": True} if 0 in whole else {})}]
    own = ty.dims if isinstance(ty, TensorType) and ty.dims is not None else ()
    copied = [
        dim.value if isinstance(dim, IntImm) else 0 if k < len(own) and own[k] is dim else -1
        for k, dim in enumerate(dims)
    ]
    rest = [dim.value if isinstance(dim, IntImm) else -1 for dim in dims]
    return [{"newshape": codes} for codes in (copied, rest) if codes.count(-1) <= 1]


def _of_shape(name: str, place: int = 0) -> Form:
    """An operator that makes a tensor of a shape: `shape` is an attribute, or a tensor of `dyn.`."""

    def form(maker: Maker, call: Call) -> Expr | None:
        dims = _dims(call, place)
        if dims is None:
            return None
        whole = _whole(dims)
        others = [maker.leaf(arg) for k, arg in enumerate(call.args) if k != place]
        attrs = {"dtype": str(call.attrs["dtype"])} if call.attrs.get("dtype") else {}
        if whole is not None:
            return relay_call(name, others, {"shape": whole, **attrs})
        return relay_call(f"dyn.{name}", (*others, maker.shape(dims)), attrs)

    return form


def _strided_slice(maker: Maker, call: Call) -> Expr | None:
    fields = [arg.fields if isinstance(arg, Tuple) else None for arg in call.args[1:]]
    if None in fields:
        return None
    axes, begin, end, *given = [list(part or ()) for part in fields]
    strides = given[0] if given else [_one] * len(axes)
    whole = [_whole(part) for part in (axes, begin, end, strides)]
    data = maker.leaf(call.args[0])
    places = whole[0]
    ty = type_of(call.args[0])
    if places is None or not isinstance(ty, TensorType) or ty.dims is None:
        return None
    if None not in whole:
        attrs = dict(zip(("axes", "begin", "end", "strides"), whole, strict=True))
        return relay_call("strided_slice", (data,), attrs)
    full: list[list[Any]] = [[_zero] * ty.ndim, list(ty.dims), [_one] * ty.ndim]
    for k, axis in enumerate(places):
        for part, values in zip(full, (begin, end, strides), strict=True):
            part[axis] = values[k]
    return relay_call("dyn.strided_slice", (data, *map(maker.shape, full)), {})


def _expand_dims(maker: Maker, call: Call) -> Expr | None:
    given = call.attrs["axis"]
    axes = [int(axis) for axis in given] if isinstance(given, (tuple, list)) else [int(given)]
    ndim = type_of(call).ndim  # type: ignore[attr-defined]
    made = maker.leaf(call.args[0])
    for axis in sorted(axis % ndim for axis in axes):
        made = relay_call("expand_dims", (made,), {"axis": axis})
    return made


# ---- numbers as arguments


def _number(value: Any) -> Any:
    return value.value if isinstance(value, (IntImm, FloatImm)) else None


def _clip(maker: Maker, call: Call) -> Expr | None:
    low, high = map(_number, call.args[1:3])
    if low is None or high is None:
        return None
    found = ("clip", [call.args[0]], {"a_min": low, "a_max": high})
    if not is_call_of(found, call):
        return None
    return relay_call("clip", (maker.leaf(call.args[0]),), found[2])


def _arange(maker: Maker, call: Call) -> Expr | None:
    dtype = str(call.attrs["dtype"])
    given: dict[str, Any] = dict(zip(("start", "stop", "step"), call.args, strict=False))
    if "stop" not in given:
        given = {"stop": given["start"]}
    made: dict[str, Expr] = {}
    for name, value in given.items():
        number = _number(value)
        if number is None and (not isinstance(value, PrimExpr) or not value.dtype.is_int):
            return None
        size = number if number is not None else maker.size(value)
        made[name] = const(size, dtype) if not isinstance(size, Expr) else _cast(size, dtype)
    start, step = made.get("start", const(0, dtype)), made.get("step", const(1, dtype))
    return relay_call("arange", (start, made["stop"], step), {"dtype": dtype})


def _cast(value: Expr, dtype: str) -> Expr:
    return value if dtype == "int64" else relay_call("cast", (value,), {"dtype": dtype})


# ---- networks


def _matmul(maker: Maker, call: Call) -> Expr | None:
    """`nn.dense` where the second factor is a matrix of weights."""
    if call.attrs.get("out_dtype"):
        return None
    data, weight = call.args
    if type_of(weight).ndim != 2 or type_of(data).ndim < 2:  # type: ignore[attr-defined]
        return None
    if isinstance(weight, Constant):
        turned = tensor(np.ascontiguousarray(weight.data.numpy().T), dtype=str(weight.data.dtype))
        return relay_call("nn.dense", (maker.leaf(data), Constant(turned, span=weight.span)), {})
    made = maker.made_of(weight)
    if isinstance(made, Call) and is_op(made.op, "relax.permute_dims") and _exchanges(made.attrs["axes"]):
        return relay_call("nn.dense", (maker.leaf(data), maker.leaf(made.args[0])), {})
    return None


def _exchanges(axes: Any) -> bool:
    """Whether axes of a transposed matrix are not those that it has."""
    return axes is None or [int(axis) % 2 for axis in axes] == [1, 0]


def _square(maker: Maker, call: Call) -> Expr | None:
    data = maker.leaf(call.args[0])
    return relay_call("multiply", (data, data), {})


def _layer_norm(maker: Maker, call: Call) -> Expr | None:
    axes = call.attrs["axes"]
    if len(axes) != 1:
        return None
    attrs = {name: call.attrs[name] for name in ("epsilon", "center", "scale")}
    return relay_call(
        "nn.layer_norm", [maker.leaf(arg) for arg in call.args], {"axis": int(axes[0]), **attrs}
    )


def _resize(maker: Maker, call: Call) -> Expr | None:
    """The size as an attribute, or as a tensor of `dyn.`."""
    dims = _dims(call, 1)
    if dims is None or len(call.args) > 2:
        return None
    whole, data = _whole(dims), maker.leaf(call.args[0])
    attrs = {key: value for key, value in call.attrs.items() if value is not None}
    attrs["out_dtype"] = str(attrs["out_dtype"]) if attrs.get("out_dtype") else ""
    if whole is not None:
        found = ("image.resize2d", [call.args[0]], {"size": whole, **attrs})
        return relay_call("image.resize2d", (data,), found[2]) if is_call_of(found, call) else None
    attrs.pop("roi", None)
    roi = const([], "float32")
    return relay_call("dyn.image.resize2d", (data, maker.shape(dims), roi), attrs)


FORMS: Mapping[str, Form] = {
    "relax.reshape": _reshape,
    "relax.broadcast_to": _of_shape("broadcast_to", 1),
    "relax.zeros": _of_shape("zeros"),
    "relax.ones": _of_shape("ones"),
    "relax.full": _of_shape("full"),
    "relax.strided_slice": _strided_slice,
    "relax.expand_dims": _expand_dims,
    "relax.clip": _clip,
    "relax.arange": _arange,
    "relax.matmul": _matmul,
    "relax.square": _square,
    "relax.nn.layer_norm": _layer_norm,
    "relax.image.resize2d": _resize,
}
"""By the operator that graphs call."""
