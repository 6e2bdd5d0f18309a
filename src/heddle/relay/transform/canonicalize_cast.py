"""Casts behind what is done element by element."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.relay.transform.rewriting import TypedPass, call, dtype_of, is_call, rewrite_nodes
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen

_MOVES = (
    "reshape",
    "transpose",
    "expand_dims",
    "squeeze",
    "strided_slice",
    "nn.batch_flatten",
    "nn.relu",
    "copy",
)
"""Operators that give the same elements for every dtype."""


@frozen
class CanonicalizeCast(TypedPass):
    """Let casts to wider dtypes follow operators that only move elements, so that less is moved.

        transpose(cast(%x, dtype="float32"))

    becomes, where `%x` is of int8,

        cast(transpose(%x), dtype="float32")

    A value that several operators use is cast for each of them.
    """

    opt_level = 3

    def change(self, func: Function, mod: IRModule) -> Function:
        return rewrite_nodes(func, _sink)


def _sink(old: Any, new: Any) -> Any:
    source = new.args[0] if is_call(old, *_MOVES) else None
    if source is None or not is_call(source, "cast") or len(new.args) != 1:
        return new
    inner = _first(old.args[0])
    if inner is None or DataType(dtype_of(inner)).itemsize >= DataType(dtype_of(old)).itemsize:
        return new
    if old.op.name == "nn.relu" and dtype_of(inner) == "bool":
        return new
    moved = call(old.op.name, source.args[0], **dict(old.attrs.items()))
    return call("cast", moved, dtype=dtype_of(old))


def _first(expr: Any) -> Any:
    """What is cast at the end of a chain of moves; None where nothing is."""
    while is_call(expr, *_MOVES):
        expr = expr.args[0]
    return expr.args[0] if is_call(expr, "cast") else None
