"""How Relay writes what the records of operators are called: gradients, and other rules of the records, say
what they mean in the records' words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.graph.codes import R0210
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Call, Expr, Tuple
from heddle.ir.types import Type
from heddle.prim.nodes import IntImm
from heddle.relay.builders import const
from heddle.relay.op import relay_call
from heddle.support.diagnostics import IRTypeError

Attributes = Mapping[str, Any]


def _integers(value: Any) -> list[int]:
    """Numbers of an argument or attribute that lists them. Raises: IRTypeError R0210 for free ones."""
    given: Any = value.values if isinstance(value, ShapeExpr) else getattr(value, "fields", value)
    items = given if isinstance(given, (tuple, list)) else (given,)
    if not all(isinstance(item, (int, IntImm)) for item in items):
        raise IRTypeError(R0210, "Relay's text has no place for a size that is free")
    return [item if isinstance(item, int) else int(item.value) for item in items]


def _expand_dims(args: Sequence[Any], attrs: Attributes) -> Expr:
    made = args[0]
    for axis in sorted(_integers(attrs["axis"])):
        made = relay_call("expand_dims", (made,), {"axis": axis, "num_newaxis": 1})
    return made  # type: ignore[no-any-return]


def _reshape(args: Sequence[Any], attrs: Attributes) -> Call:
    return relay_call("reshape", (args[0],), {"newshape": _integers(args[1]), "allowzero": True})


def _strided_slice(args: Sequence[Any], attrs: Attributes) -> Call:
    axes, begin, end = map(_integers, args[1:4])
    lists = {"axes": axes, "begin": begin, "end": end}
    lists["strides"] = _integers(args[4]) if len(args) > 4 else [1] * len(axes)
    return relay_call("strided_slice", (args[0],), lists)


def _pad(args: Sequence[Any], attrs: Attributes) -> Call:
    widths = _integers(attrs["pad_width"])
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    return relay_call("nn.pad", (args[0], const(float(attrs.get("pad_value", 0)))), {"pad_width": pairs})


def _flip(args: Sequence[Any], attrs: Attributes) -> Expr:
    made = args[0]
    for axis in _integers(attrs["axis"]):
        made = relay_call("reverse", (made,), {"axis": axis})
    return made  # type: ignore[no-any-return]


def _clip(args: Sequence[Any], attrs: Attributes) -> Call:
    low, high = (float(getattr(arg, "value", arg)) for arg in args[1:])
    return relay_call("clip", (args[0],), {"a_min": low, "a_max": high})


def _nd(name: str) -> Callable[[Sequence[Any], Attributes], Call]:
    """Index vectors lie along the last axis in the records, along the first in Relay."""

    def make(args: Sequence[Any], attrs: Attributes) -> Call:
        kinds = {"mode": attrs["reduction"]} if "reduction" in attrs else {}
        return relay_call(name, (args[0], _last_to_first(args[1]), *args[2:]), kinds)

    return make


def _last_to_first(indices: Any) -> Any:
    """Index vectors of one element, which rules make of an `expand_dims` at the end, get it at the front."""
    name = getattr(indices.op, "name", "") if isinstance(indices, Call) else ""
    if name == "expand_dims":
        return relay_call("expand_dims", (indices.args[0],), {"axis": 0, "num_newaxis": 1})
    if name == "transpose":
        return indices.args[0]
    raise IRTypeError(R0210, "index vectors must lie along the first axis")


def _renamed(name: str, **names: str) -> Callable[[Sequence[Any], Attributes], Call]:
    """The same operator of another name; attributes that are named have other names too, others go."""
    return lambda args, attrs: relay_call(name, args, {own: attrs[key] for key, own in names.items()})


def _fields(name: str) -> Callable[[Sequence[Any], Attributes], Call]:
    return lambda args, attrs: relay_call(name, args, {"axis": int(attrs.get("axis", 0))})


def _reduction(name: str) -> Callable[[Sequence[Any], Attributes], Expr]:
    def make(args: Sequence[Any], attrs: Attributes) -> Expr:
        axis = attrs.get("axis")
        if isinstance(axis, (tuple, list)) and not axis:
            return args[0]  # type: ignore[no-any-return]
        return relay_call(name, args, {"axis": axis, "keepdims": bool(attrs.get("keepdims", False))})

    return make


def _ordered(args: Sequence[Any], attrs: Attributes) -> Call:
    given = {"axis": attrs["axis"], "is_ascend": not attrs["descending"], "dtype": "int32"}
    return relay_call("argsort", args, given)


def _topk(args: Sequence[Any], attrs: Attributes) -> Call:
    given = {"k": attrs["k"], "axis": attrs["axis"], "ret_type": attrs["ret_type"], "dtype": attrs["dtype"]}
    return relay_call("topk", args, {**given, "is_ascend": not attrs["largest"]})


_OTHERS: dict[str, Callable[[Sequence[Any], Attributes], Expr]] = {
    "permute_dims": _renamed("transpose", axes="axes"),
    "astype": _renamed("cast", dtype="dtype"),
    "bitcast": _renamed("reinterpret", dtype="dtype"),
    "nn.leakyrelu": _renamed("nn.leaky_relu", alpha="alpha"),
    "expand_dims": _expand_dims,
    "squeeze": _renamed("squeeze", axis="axis"),
    "reshape": _reshape,
    "strided_slice": _strided_slice,
    "nn.pad": _pad,
    "flip": _flip,
    "clip": _clip,
    "concat": _fields("concatenate"),
    "stack": _fields("stack"),
    "scatter_nd": _nd("scatter_nd"),
    "gather_nd": _nd("gather_nd"),
    "gather_elements": _renamed("gather", axis="axis"),
    "argsort": _ordered,
    "topk": _topk,
    "nn.pixel_shuffle": _renamed("nn.depth_to_space", upscale_factor="block_size"),
    "nn.pixel_unshuffle": _renamed("nn.space_to_depth", downscale_factor="block_size"),
    "square": lambda args, attrs: relay_call("multiply", (args[0], args[0]), {}),
    **{name: _reduction(name) for name in ("sum", "mean", "max")},
    **{name: _renamed(name) for name in ("zeros_like", "ones_like")},
    "einsum": _renamed("einsum", subscripts="equation"),
}
"""Records whose name, arguments or attributes differ in Relay. The others are what their records say."""


class RelayWords:
    """The words of `graph.gradient` as Relay's expressions."""

    def call(self, name: str, args: Sequence[Any], attrs: Mapping[str, Any]) -> Expr:
        """A call of the Relay operator that a record is."""
        other = _OTHERS.get(name)
        return relay_call(name, args, attrs) if other is None else other(args, attrs)

    def matmul(self, a: Expr, b: Expr, ranks: tuple[int, int]) -> Expr:
        """The product of matrices, or of stacks of them."""
        if ranks == (2, 2):
            return relay_call("nn.matmul", (a, b), {})
        if ranks == (3, 3):
            return relay_call("nn.batch_matmul", (a, b), {"transpose_b": False})
        if ranks[1] == 2:
            return relay_call("nn.dense", (a, relay_call("transpose", (b,), {"axes": [1, 0]})), {})
        letters = "abcdefgh"[: max(ranks) - 2]
        one, two = (
            f"{letters[len(letters) - rank + 2 :]}{pair}"
            for rank, pair in zip(ranks, ("xy", "yz"), strict=True)
        )
        return relay_call("einsum", (Tuple((a, b)),), {"equation": f"{one},{two}->{letters}xz"})

    def shaped(self, kind: str, x: Expr, like: Expr, like_type: Type) -> Expr:
        """`x` in the shape of `like`."""
        names = {"reshape": "reshape_like", "broadcast": "broadcast_to_like", "sum": "collapse_sum_like"}
        return relay_call(names[kind], (x, like), {})

    def cut(self, x: Expr, like: Expr, like_type: Type) -> Expr:
        """The first elements along each axis, as many as `like` has."""
        return relay_call("slice_like", (x, like), {})

    def split_axis(self, x: Expr, dims: Sequence[Any], axis: int, first: int, second: int) -> Expr:
        """An axis as two, by a reshape."""
        return relay_call("reshape", (x,), {"newshape": [0] * axis + [-4, first, second, -2]})

    def join_axes(self, x: Expr, dims: Sequence[Any], axis: int) -> Expr:
        """An axis and the next as one, by a reshape."""
        return relay_call("reshape", (x,), {"newshape": [0] * axis + [-3, -2]})
