"""What passes over expressions share: rules for single nodes, types before and after, and building blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, If, Var, is_relay
from heddle.ir.module import IRModule
from heddle.ir.node import N, Node, replace
from heddle.ir.op import Op
from heddle.ir.op_def import AnyLayout, op_def
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import TupleType
from heddle.ir.visitor import rebuild
from heddle.prim.nodes import IntImm
from heddle.relay.builders import const, without_type
from heddle.relay.nodes import Let, Match, RefCreate, RefWrite
from heddle.relay.op import find, relay_call
from heddle.relay.typed import infer_module
from heddle.relay.types import is_dynamic
from heddle.support.diagnostics import IRTypeError


class TypedPass(Pass):
    """A pass that is given Relay functions with types, and whose results have them again."""

    @abstractmethod
    def change(self, func: Function, mod: IRModule) -> Function:
        """A function anew; the same object where nothing changed."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return map_typed(mod, self.change)


class RewritePass(TypedPass):
    """A pass that looks at one node at a time, operands first."""

    @abstractmethod
    def rewrite(self, old: Any, new: Any) -> Any:
        """What stands for a node: `old` has types, `new` has its operands rewritten. `new` where no rule
        fits."""

    def change(self, func: Function, mod: IRModule) -> Function:
        return rewrite_nodes(func, self.rewrite)


def _with_open_sizes(old: Any, new: Any) -> Any:
    """Where values of several places come together, each that leaves sizes open has a let that says so."""

    def opened(child: Any, made: Any) -> Any:
        if isinstance(child, Var) or child.ty is None or not is_dynamic(child.ty):
            return made
        var = Var("open", child.ty, dialect="relay")
        return Let(var, made, var)

    if isinstance(old, If):
        true, false = (opened(old.true_branch, new.true_branch), opened(old.false_branch, new.false_branch))
        return replace(new, true_branch=true, false_branch=false)
    if isinstance(old, Match):
        pairs = zip(old.clauses, new.clauses, strict=True)
        return replace(new, clauses=tuple(replace(b, rhs=opened(a.rhs, b.rhs)) for a, b in pairs))
    if isinstance(old, Call) and not isinstance(old.op, Op):
        args = tuple(opened(a, b) for a, b in zip(old.args, new.args, strict=True))
        return replace(new, args=args)
    if isinstance(old, (RefCreate, RefWrite)):
        return replace(new, value=opened(old.value, new.value))
    return new


def map_typed(mod: IRModule, change: Callable[[Function, IRModule], Function]) -> IRModule:
    """The module with its Relay functions changed, which have types before and after; `change` is given the
    module too."""
    typed = infer_module(mod)
    try:
        return map_relay(typed, lambda func: change(func, typed))
    except IRTypeError:  # sizes are known now that were not, and differ where values come together
        typed = map_relay(typed, lambda func: rewrite_nodes(func, _with_open_sizes))
        return map_relay(typed, lambda func: change(func, typed))


def map_relay(mod: IRModule, change: Callable[[Function], Function]) -> IRModule:
    """The module with its Relay functions changed, and their types; the same object where none did."""
    made = {var: change(func) if is_relay(func) else func for var, func in mod.functions.items()}
    same = all(made[var] is func for var, func in mod.functions.items())
    return mod if same else infer_module(mod.with_functions(made))


def rewrite_nodes(root: N, rule: Callable[[Any, Any], Any]) -> N:
    """Each expression anew of its operands, then the rule's answer, which is a function's for a function.
    What changed has no types."""

    def change(old: Node, new: Any) -> Any:
        if not isinstance(old, Expr):
            return new
        return rule(old, without_type(new) if new is not old else new)

    made: N = rebuild(root, change)
    return made


# ---- asking


def is_call(expr: Any, *names: str) -> bool:
    """Whether an expression is a call of one of the operators; of any where none is named."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and (not names or expr.op.name in names)


def is_pure_operator(op: Any) -> bool:
    """Whether a call of an operator may be moved, shared or dropped."""
    if not isinstance(op, Op):
        return False
    found = find(op.name)
    record = found[0] if found is not None else op_def(op)
    return record is not None and record.is_pure


_ON_ELEMENTS = ("clip", "copy", "cast_like", "where", "trunc_divide", "annotation.stop_fusion")


def works_on_elements(op: Any) -> bool:
    """Whether an operator makes each element of the elements in the same place, shapes broadcast: it works in
    any layout."""
    found = find(op.name) if isinstance(op, Op) else None
    if found is None:
        return False
    record, alias = found
    is_direct = alias.expression is None and all(isinstance(given, str) for given in alias.arguments.values())
    return op.name in _ON_ELEMENTS or (isinstance(record.layout, AnyLayout) and is_direct)


def is_of_tensors(ty: Any) -> bool:
    """Whether values of a type are tensors, or tuples of them."""
    return all(map(is_of_tensors, ty.fields)) if isinstance(ty, TupleType) else isinstance(ty, TensorType)


def sizes(expr: Any) -> tuple[int, ...] | None:
    """The sizes of a typed expression; None where they are not all known."""
    ty = expr.ty
    if not isinstance(ty, TensorType) or ty.dims is None:
        return None
    known = tuple(dim.value for dim in ty.dims if isinstance(dim, IntImm))
    return known if len(known) == ty.ndim else None


def rank(expr: Any) -> int:
    """The number of dimensions of a typed expression."""
    return int(expr.ty.ndim)


def dtype_of(expr: Any) -> str:
    """The dtype of a typed expression."""
    return str(expr.ty.dtype)


def array_of(expr: Any) -> Any:
    """The value of a constant; None for any other expression."""
    return np.asarray(expr.data.numpy()) if isinstance(expr, Constant) else None


def is_all(expr: Any, value: float) -> bool:
    """Whether an expression is a constant whose elements are all one number."""
    found = array_of(expr)
    return found is not None and found.size > 0 and bool(np.all(found == value))


# ---- building


def call(name: str, *args: Any, **attrs: Any) -> Call:
    """A call of an operator."""
    return relay_call(name, args, attrs)


def recalled(old: Any, *args: Any, name: str | None = None, **changed: Any) -> Call:
    """A call of the same operator, or that of another name, with the attributes of an old one but for those
    that change."""
    return relay_call(name or old.op.name, args, {**dict(old.attrs.items()), **changed})


def number(value: Any, like: Any) -> Constant:
    """A scalar of the dtype of a typed expression."""
    return const(np.asarray(value, like.ty.dtype.numpy()), dtype_of(like))


def along(vector: Any, axis: int, ndim: int) -> Any:
    """A vector with axes of size 1 after it, so that it broadcasts along `axis` of `ndim` axes."""
    axis = axis % ndim
    return vector if axis == ndim - 1 else call("expand_dims", vector, axis=1, num_newaxis=ndim - axis - 1)
