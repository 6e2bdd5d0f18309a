"""Casts behind what is done element by element."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.relay.transform.rewriting import TypedPass, call, is_call, rewrite_nodes, works_on_elements
from heddle.support.frozen import frozen

_MOVES = (
    *("reshape", "transpose", "expand_dims", "squeeze", "strided_slice", "nn.batch_flatten"),
    *("nn.relu", "copy"),
)
"""Operators that give the same elements for every dtype."""


@frozen
class CanonicalizeCast(TypedPass):
    """Let casts to wider dtypes be part of what uses them, so that less is moved.

        transpose(cast(%x, dtype="float32"))

    becomes, where `%x` is of int8,

        cast(transpose(%x), dtype="float32")

    They follow what only moves elements, and each operator on elements has casts of its own.
    """

    opt_level = 3

    def change(self, func: Function, mod: IRModule) -> Function:
        seen: set[int] = set()
        return rewrite_nodes(func, lambda old, new: _sink(old, _with_own_casts(old, new, seen)))


def _with_own_casts(old: Any, new: Any, seen: set[int]) -> Any:
    """An operator on elements with copies of the casts that were seen as arguments before."""
    if not is_call(old) or not works_on_elements(old.op):
        return new
    again = [is_call(arg, "cast") and _is_wider(arg, arg.args[0]) and id(arg) in seen for arg in old.args]
    seen.update(map(id, old.args))
    args = (replace(arg) if is_again else arg for is_again, arg in zip(again, new.args, strict=True))
    return replace(new, args=tuple(args)) if any(again) else new


def _is_wider(expr: Any, other: Any) -> bool:
    return bool(expr.ty.dtype.itemsize > other.ty.dtype.itemsize)


def _sink(old: Any, new: Any) -> Any:
    source = new.args[0] if is_call(old, *_MOVES) else None
    if source is None or not is_call(source, "cast") or len(new.args) != 1:
        return new
    inner = _first(old.args[0])
    if inner is None or not _is_wider(old, inner) or (old.op.name == "nn.relu" and inner.ty.dtype.is_bool):
        return new
    moved = call(old.op.name, source.args[0], **dict(old.attrs.items()))
    return call("cast", moved, dtype=str(old.ty.dtype))


def _first(expr: Any) -> Any:
    """What is cast at the end of a chain of moves; None where nothing is."""
    while is_call(expr, *_MOVES):
        expr = expr.args[0]
    return expr.args[0] if is_call(expr, "cast") else None
