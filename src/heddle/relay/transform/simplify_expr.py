"""Algebra of operators: identities, chains, and calls whose sizes are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_equal
from heddle.relay.builders import const
from heddle.relay.transform.rewriting import (
    TypedPass,
    array_of,
    call,
    dtype_of,
    is_all,
    is_call,
    number,
    rank,
    rewrite_nodes,
    sizes,
)
from heddle.relay.typed import infer_expr
from heddle.support.frozen import frozen

_ROUNDS = 20


@frozen
class SimplifyExpr(TypedPass):
    """Apply the table of rules until none fits.

        reshape(reshape(%x, newshape=[6]), newshape=[3, 2]) + zeros_like(%y)

    becomes, where `%x` has shape (3, 2),

        %x

    Rules: additive and multiplicative identities; chains of reshapes, transposes, casts and clips; `x + x`;
    constants of sums and products merged; `1 / sqrt(x)`; operators like another tensor whose sizes are known.
    """

    def change(self, func: Function, mod: IRModule) -> Function:
        for _ in range(_ROUNDS):
            made = rewrite_nodes(func, _simplify)
            if made is func:
                break
            func = infer_expr(made, mod)
        return func


def _simplify(old: Any, new: Any) -> Any:
    """A rule looks at types in `old` and takes operands from `new`."""
    for rule in _RULES.get(old.op.name, ()) if is_call(old) else ():
        found = rule(old, new)
        if found is not None:
            return found
    return new


def _same_type(old: Any, operand: Any) -> bool:
    return structural_equal(old.ty, operand.ty) and sizes(old) is not None


_MADE = {0: ("zeros", "zeros_like"), 1: ("ones", "ones_like")}
"""Operators that give a number everywhere."""


def _drop(neutral: int, both_sides: bool) -> Callable[[Any, Any], Any]:
    """`x op neutral` is `x`, where the type stays the same."""

    def rule(old: Any, new: Any) -> Any:
        for side in (0, 1) if both_sides else (0,):
            other = old.args[1 - side]
            if is_all(other, neutral) or (side == 0 and is_call(other, *_MADE[neutral])):
                return new.args[side] if _same_type(old, old.args[side]) else None
        return None

    return rule


def _twice(old: Any, new: Any) -> Any:
    """x + x → x * 2"""
    if new.args[0] is not new.args[1] or dtype_of(old) == "bool":
        return None
    return call("multiply", new.args[0], number(2, old))


def _merge_constants(old: Any, new: Any) -> Any:
    """(x op c1) op c2 → x op (c1 op c2), for integers: floats would be rounded otherwise."""
    inner = old.args[0]
    is_chain = is_call(inner, old.op.name) and is_call(new.args[0], old.op.name)
    if not is_chain or not dtype_of(old).startswith(("int", "uint")):
        return None
    one, two = array_of(inner.args[1]), array_of(old.args[1])
    if one is None or two is None:
        return None
    merged = np.asarray(np.add(one, two) if old.op.name == "add" else np.multiply(one, two), one.dtype)
    return call(old.op.name, new.args[0].args[0], const(merged, dtype_of(old)))


def _reshape(old: Any, new: Any) -> Any:
    """reshape(reshape(x)) → reshape(x); reshape to the same sizes → x"""
    known, source = sizes(old), new.args[0]
    if known is None or old.attrs.get("allowzero"):
        return None
    if sizes(old.args[0]) == known:
        return source
    if not is_call(source, "reshape", "nn.batch_flatten", "squeeze", "expand_dims") or 0 in known:
        return None
    return call("reshape", source.args[0], newshape=list(known))


def _axes(expr: Any, ndim: int) -> list[int]:
    given = expr.attrs.axes
    return [axis % ndim for axis in given] if given else list(range(ndim))[::-1]


def _transpose(old: Any, new: Any) -> Any:
    """transpose(transpose(x)) → one of both; one that moves nothing → x"""
    ndim, source = rank(old), new.args[0]
    axes = _axes(old, ndim)
    if axes == sorted(axes):
        return source
    if not is_call(source, "transpose"):
        return None
    before = _axes(source, ndim)
    return call("transpose", source.args[0], axes=[before[axis] for axis in axes])


_EXACT = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
    "int8": ("int16", "int32", "int64", "float16", "float32", "float64"),
    "uint8": ("int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32", "float64"),
    "int16": ("int32", "int64", "float32", "float64"),
    "uint16": ("int32", "int64", "uint32", "uint64", "float32", "float64"),
    "int32": ("int64", "float64"),
    "uint32": ("int64", "uint64", "float64"),
    "bool": ("int8", "uint8", "int16", "int32", "int64", "float32", "float64"),
}
"""To which dtypes all values of a dtype go without change."""


def _cast(old: Any, new: Any) -> Any:
    """cast to the same dtype → x; cast(cast(x)) → cast(x) where the inner one loses nothing"""
    source = old.args[0]
    if dtype_of(source) == dtype_of(old):
        return new.args[0]
    if not is_call(source, "cast") or not is_call(new.args[0], "cast"):
        return None
    first, middle, last = dtype_of(source.args[0]), dtype_of(source), dtype_of(old)
    exact = _EXACT.get(first, ())
    # An integer wraps where a float has no integer to go to: then the two ways differ.
    if middle not in exact or ("float" in middle and "float" not in last and last not in exact):
        return None
    return call("cast", new.args[0].args[0], dtype=dtype_of(old))


def _clip(old: Any, new: Any) -> Any:
    """clip(clip(x)) → one clip, where the bounds overlap"""
    source = new.args[0]
    if not is_call(source, "clip"):
        return None
    low, high = max(old.attrs.a_min, source.attrs.a_min), min(old.attrs.a_max, source.attrs.a_max)
    return call("clip", source.args[0], a_min=low, a_max=high) if low <= high else None


def _rsqrt(old: Any, new: Any) -> Any:
    """1 / sqrt(x) → rsqrt(x)"""
    lhs, rhs = old.args
    if not is_all(lhs, 1) or not is_call(rhs, "sqrt") or not _same_type(old, rhs):
        return None
    return call("rsqrt", new.args[1].args[0]) if is_call(new.args[1], "sqrt") else None


def _concrete(old: Any, new: Any) -> Any:
    """Operators like another tensor → operators with sizes"""
    known = sizes(old)
    if known is None or (0 in known and is_call(old, "reshape_like")):
        return None
    name, operands, *attrs = _SIZED[old.op.name]
    said = {"shape": list(known), "newshape": list(known), "dtype": dtype_of(old)}
    return call(name, *(new.args[k] for k in operands), **{key: said[key] for key in attrs})


_SIZED: dict[str, tuple[Any, ...]] = {
    "zeros_like": ("zeros", (), "shape", "dtype"),
    "ones_like": ("ones", (), "shape", "dtype"),
    "full_like": ("full", (1,), "shape", "dtype"),
    "cast_like": ("cast", (0,), "dtype"),
    "reshape_like": ("reshape", (0,), "newshape"),
    "broadcast_to_like": ("broadcast_to", (0,), "shape"),
    "collapse_sum_like": ("collapse_sum_to", (0,), "shape"),
}
"""What operators like another tensor are: the name, which operands stay, and the attributes."""


_Rule = Callable[[Any, Any], Any]
_RULES: dict[str, tuple[_Rule, ...]] = {
    "add": (_drop(0, True), _twice, _merge_constants),
    "subtract": (_drop(0, False),),
    "multiply": (_drop(1, True), _merge_constants),
    "divide": (_drop(1, False), _rsqrt),
    "reshape": (_reshape,),
    "transpose": (_transpose,),
    "cast": (_cast,),
    "clip": (_clip,),
    **dict.fromkeys(_SIZED, (_concrete,)),
}
