"""A cache of lowered operators, so that equal layers of a model are lowered once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from heddle.graph.infer import type_of
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Call, Constant, Expr, Tuple, Var
from heddle.ir.structural import structural_digest
from heddle.prim.nodes import PrimExpr


class LoweringMemo:
    """Calls of operators of equal attributes and argument types become calls of the same loop function.

    Types are equal where their symbolic dimensions are the same variables. Scalar constants count by their
    values, because they end up inside the loop function.
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, tuple[Call, Call]] = {}  # the operator's call keeps its variables alive

    def find(self, key: Hashable | None, call: Call) -> Call | None:
        """The lowered form of a call, with its own arguments, where one like it was lowered before. `key` is
        the call's `memo_key`."""
        if key is None or key not in self._calls:
            return None
        like, lowered = self._calls[key]
        places = {id(arg): k for k, arg in enumerate(_leaves(like.args))}
        own = _leaves(call.args)
        tensors = lowered.args[1]
        assert isinstance(tensors, Tuple)
        args = tuple(own[places[id(arg)]] for arg in tensors.fields)
        return Call(
            lowered.op, (lowered.args[0], Tuple(args), *lowered.args[2:]), lowered.attrs, lowered.ty_args
        )

    def note(self, key: Hashable | None, call: Call, lowered: Call) -> None:
        """Remember what a call was lowered to, where its tensors are operands of the call, and a key says
        what it is."""
        places = {id(arg) for arg in _leaves(call.args)}
        tensors = lowered.args[1]
        if key is not None and isinstance(tensors, Tuple) and all(id(a) in places for a in tensors.fields):
            self._calls[key] = call, lowered


def _leaves(args: Sequence[Expr]) -> list[Expr]:
    return [leaf for arg in args for leaf in (_leaves(arg.fields) if isinstance(arg, Tuple) else (arg,))]


def memo_key(call: Call) -> Hashable | None:
    """Equal for calls that are lowered alike; None for arguments that this does not know about."""
    seen: dict[int, int] = {}
    parts = tuple(_describe(arg, seen) for arg in call.args)
    if any(part is None for part in parts):
        return None
    return (call.op, structural_digest(call.attrs), structural_digest(call.ty_args), parts)


def _describe(arg: Any, seen: dict[int, int]) -> Hashable | None:
    if isinstance(arg, Tuple):
        parts = tuple(_describe(item, seen) for item in arg.fields)
        return None if any(part is None for part in parts) else parts
    if isinstance(arg, (ShapeExpr, PrimExpr)):
        return structural_digest(arg)
    if isinstance(arg, Constant) and arg.data.ndim == 0:
        return structural_digest(arg)
    ty = type_of(arg)
    if isinstance(arg, (Var, Constant)) and isinstance(ty, TensorType):
        return (seen.setdefault(id(arg), len(seen)), structural_digest(ty))
    return None
