"""Zeros and ones of gradients that are made only where they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Function, GlobalVar, If, Tuple, TupleGetItem, Var, is_relay
from heddle.ir.module import IRModule
from heddle.ir.node import Node, children, replace
from heddle.ir.op import Op
from heddle.ir.structural import structural_equal
from heddle.ir.transform import Pass, PassContext
from heddle.ir.type_data import Constructor, GlobalTypeVar, TypeCall
from heddle.ir.types import TupleType, TypeVar
from heddle.ir.visitor import rebuild, walk_distinct
from heddle.relay.builders import without_type
from heddle.relay.nodes import Let, RefCreate, RefRead, RefType, RefWrite
from heddle.relay.placement import parts, post_order
from heddle.relay.transform.rewriting import is_call, map_relay, sizes
from heddle.relay.transform.to_a_normal_form import PRIMITIVE
from heddle.relay.typed import infer_module
from heddle.support.frozen import frozen

_CELL = GlobalTypeVar("GradCell")
_MADE = {"zeros": "Zero", "zeros_like": "Zero", "ones": "One", "ones_like": "One"}
_JOINED = {"add": "AddGradCell", "multiply": "MultiplyGradCell"}


@frozen
class LazyGradientInit(Pass):
    """Make zeros and ones only where an operator other than a sum or product needs them.

        fn (%x: float32) { let %z = zeros_like(%x); %x + %z }

    becomes

        fn (%x: float32) {
          let %c = Raw(%x);
          let %z = Zero(fn () -> float32 { zeros_like(@FromGradCell(%c)) });
          @FromGradCell(@AddGradCell(fn (%a: float32, %b: float32) { %a + %b }, %c, %z))
        }

    Inside of a function every tensor is a `GradCell` of gradient.rly; its parameters, its result and what
    references hold stay tensors, so that `PartialEvaluate`, which follows references, comes before this.
    Zeros times infinity or NaN are zeros then. A function stays as it is where it makes no zeros or ones,
    where its parameters or result have tensors in functions or data, and where it hands tensors to functions,
    references or data types that know them in such places.
    """

    opt_level = 2

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        typed = infer_module(mod)
        wanted = {
            var.name_hint
            for var, func in typed.functions.items()
            if is_relay(func) and _is_wanted(func, typed)
        }
        if not wanted:
            return typed
        made = typed.clone()
        made.import_from_std("gradient.rly")
        made = infer_module(made)
        names = {id(func): var.name_hint for var, func in made.functions.items()}
        return map_relay(
            made, lambda func: _Cells(made).function(func) if names[id(func)] in wanted else func
        )


# ---- which functions


def _is_wanted(func: Function, mod: IRModule) -> bool:
    order = post_order(func.body)
    if not any(is_call(expr, *_MADE) for expr in order):
        return False
    if not all(map(_is_plain, (*(param.ty for param in func.params), func.ret_ty))):
        return False
    return all(_is_convertible(expr, mod) for expr in order)


def _is_convertible(expr: Any, mod: IRModule) -> bool:
    """Whether an expression can be one of cells, and is none."""
    if isinstance(expr, Function) and expr.attrs.get(PRIMITIVE):
        return False
    if isinstance(expr, Call) and isinstance(expr.op, Constructor) and expr.op.belong_to == _CELL:
        return False
    if isinstance(expr, (RefCreate, RefRead, RefWrite)):
        held = expr.ty if isinstance(expr, RefRead) else expr.value.ty
        return _is_plain(held) and not _is_open(held)
    for child, _ in parts(expr):
        is_callee = isinstance(expr, Call) and child is expr.op
        if isinstance(child, (GlobalVar, Constructor)):
            types = _declared(child, mod)
            if not all(_is_plain(ty) if is_callee else not _has_tensors(ty) for ty in types):
                return False
    return not any(_has_tensors(ty) for constructor in _matched(expr) for ty in constructor.inputs)


def _matched(expr: Any) -> Iterator[Constructor]:
    """The constructors of the patterns of an expression."""
    for clause in getattr(expr, "clauses", ()):
        yield from (node for node in walk_distinct(clause.lhs) if isinstance(node, Constructor))


def _declared(callee: Any, mod: IRModule) -> tuple[Any, ...]:
    """The types of the parameters of a global function and of its result; of the fields of a constructor."""
    if isinstance(callee, Constructor):
        return callee.inputs
    func = mod[callee]
    return (*(param.ty for param in func.params), func.ret_ty)


def _is_plain(ty: Any) -> bool:
    """Whether a type has tensors at most in tuples."""
    if isinstance(ty, TupleType):
        return all(map(_is_plain, ty.fields))
    return isinstance(ty, TensorType) or not _has_tensors(ty)


def _has_tensors(ty: Any) -> bool:
    """Whether there are tensors that would be in cells, or may be."""
    if isinstance(ty, RefType):
        return _is_open(ty)
    return isinstance(ty, TensorType) or any(map(_has_tensors, children(ty)))


def _is_open(ty: Any) -> bool:
    return any(isinstance(node, TypeVar) for node in walk_distinct(ty))


# ---- cells


class _Cells:
    """Makes a function over cells."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._makers = {item.name_hint: item for item in mod.type_definition(_CELL).constructors}

    def function(self, func: Function) -> Function:
        inner = rebuild(func, self._change)
        params = tuple(map(replace, func.params))
        body = self._tensors(func.ret_ty, inner.body)
        for cell, param in reversed(list(zip(inner.params, params, strict=True))):
            body = Let(cell, self._cells(param.ty, param), body, span=param.span)
        return replace(func, params=params, body=body, ty=None)

    def _change(self, old: Node, new: Any) -> Any:
        if isinstance(old, (Constructor, GlobalVar, Op, RefType)):
            return old
        if isinstance(old, Var):
            return replace(old, ty=rebuild(old.ty, self._change)) if old.ty is not None else old
        if isinstance(old, TensorType):
            return TypeCall(_CELL, (old,))
        new = without_type(new) if new is not old else old
        if isinstance(old, Constant):
            return self._made("Raw", old)
        if isinstance(old, If):
            return replace(new, cond=self._tensors(old.cond.ty, new.cond))
        if isinstance(old, (RefCreate, RefWrite)):
            return replace(new, value=self._tensors(old.value.ty, new.value))
        if isinstance(old, RefRead):
            return self._cells(old.ty, new)
        return self._call(old, new) if isinstance(old, Call) else new

    def _call(self, old: Call, new: Call) -> Any:
        if isinstance(old.op, Op):
            return self._operator(old, new)
        if not isinstance(old.op, (GlobalVar, Constructor)):
            return new
        *params, result = (*_declared(old.op, self._mod), None)[: len(old.args) + 1]
        args = tuple(self._tensors(ty, arg) for ty, arg in zip(params, new.args, strict=True))
        made = Call(old.op, args, ty_args=new.ty_args if not args else (), span=old.span)
        return made if result is None else self._cells(result, made)

    def _operator(self, old: Call, new: Call) -> Any:
        name = old.op.name  # type: ignore[attr-defined]
        same = all(structural_equal(arg.ty, old.ty) for arg in old.args) and sizes(old) is not None
        if name in _JOINED and same:
            a, b = (Var(hint, old.ty, dialect="relay") for hint in "ab")
            step = Function((a, b), Call(old.op, (a, b), old.attrs, span=old.span), old.ty, dialect="relay")
            return Call(self._mod.get_global_var(_JOINED[name]), (step, *new.args), span=old.span)
        args = tuple(self._tensors(mine.ty, arg) for mine, arg in zip(old.args, new.args, strict=True))
        made = Call(old.op, args, old.attrs, span=old.span)
        if name in _MADE:
            return self._made(_MADE[name], Function((), made, old.ty, dialect="relay"))
        return self._cells(old.ty, made)

    def _made(self, name: str, value: Any) -> Call:
        return Call(self._makers[name], (value,), span=value.span)

    def _tensors(self, ty: Any, expr: Any) -> Any:
        """What is in the cells of a value of type `ty`."""
        if isinstance(ty, TensorType):
            return Call(self._mod.get_global_var("FromGradCell"), (expr,), span=expr.span)
        return self._fields(ty, expr, self._tensors)

    def _cells(self, ty: Any, expr: Any) -> Any:
        """A value of type `ty` with its tensors in cells."""
        return self._made("Raw", expr) if isinstance(ty, TensorType) else self._fields(ty, expr, self._cells)

    def _fields(self, ty: Any, expr: Any, change: Any) -> Any:
        if not isinstance(ty, TupleType) or not _has_tensors(ty):
            return expr
        parts = (change(item, TupleGetItem(expr, place)) for place, item in enumerate(ty.fields))
        return Tuple(tuple(parts))
