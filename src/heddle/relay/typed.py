"""Programs with their types filled in."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Call, Expr, Function, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.nesting import refusing_deep_nesting
from heddle.ir.node import Node, replace
from heddle.ir.op import Op
from heddle.ir.structural import structural_equal
from heddle.ir.type_data import Constructor
from heddle.ir.types import Type
from heddle.ir.variables import free_vars
from heddle.ir.visitor import rebuild
from heddle.relay.codes import Q0101, Q0304, Q0307
from heddle.relay.infer import ANNOTATE, Inference, is_current
from heddle.relay.nodes import IncompleteType
from heddle.relay.op import full_attrs
from heddle.relay.text_values import type_text
from heddle.relay.unify import is_complete, with_own_variables
from heddle.support.diagnostics import UsageError
from heddle.support.trampoline import run


def infer_module(mod: IRModule) -> IRModule:
    """The module with the types of its Relay functions; the same object where all have theirs.

    Raises: IRTypeError with all findings; UsageError I0510 for types that nest too deep.
    """
    todo = {
        var: func
        for var, func in mod.functions.items()
        if func.dialect == "relay" and isinstance(func, Function) and not is_current(func, mod)
    }
    if not todo:
        return mod
    with refusing_deep_nesting("type inference", todo.values()):
        return _typed(mod, todo)


def _typed(mod: IRModule, todo: dict[GlobalVar, Function]) -> IRModule:
    """The module with the types of some of its functions."""
    inference = Inference(mod)
    for func in todo.values():
        _note_free(inference, func)
        run(inference.infer(func))
    inference.finish()
    writer = _Writer(inference)
    made = {var: writer.typed(func) if var in todo else func for var, func in mod.functions.items()}
    inference.raise_findings()
    return mod.with_functions(
        {GlobalVar(var.name_hint, func.ty, span=var.span): func for var, func in made.items()}
    )


def _note_free(inference: Inference, expr: Expr) -> None:
    for var in free_vars(expr):
        message = f"variable %{var.name_hint} is not bound in the function"
        inference.error(Q0307, message, var, help="make it a parameter, or bind it with let")


def infer_expr(expr: Any, mod: IRModule | None = None, is_closed: bool = False) -> Any:
    """An expression, with free variables or not, with its types; one that `is_closed` must have none (Q0307).

    Raises: IRTypeError with all findings; UsageError Q0101 for what is no expression.
    """
    if not isinstance(expr, Expr):
        raise UsageError(Q0101, f"expected an expression, got {type(expr).__name__}")
    inference = Inference(mod if mod is not None else IRModule())
    if is_closed:
        _note_free(inference, expr)
    run(inference.infer(expr))
    inference.finish()
    made = _Writer(inference).typed(expr)
    inference.raise_findings()
    return made


def infer_local(expr: Any, mod: IRModule | None = None) -> Type:
    """The type of an expression."""
    inference = Inference(mod if mod is not None else IRModule())
    found = run(inference.infer(expr))
    inference.finish()
    return inference.unifier.resolve(found)


class _Writer:
    """Makes nodes anew where a type is new in them."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self._types: dict[int, Type] = {}
        self._resolved: dict[int, Any] = {}
        self._vars: dict[Var, Var] = {}
        self._globals: dict[GlobalVar, GlobalVar] = {}

    def typed(self, expr: Any) -> Any:
        return rebuild(expr, self._change)

    def _change(self, old: Node, new: Any) -> Any:
        if isinstance(old, Var):
            return self._var(old)
        if isinstance(old, IncompleteType):
            return self.inference.unifier.resolve(old)
        if isinstance(old, GlobalVar):
            return self._global(old)
        has_type = isinstance(old, Expr) and not isinstance(old, Constructor) and "ty" in old.init_names
        known = self.inference.types.get(id(old)) if has_type else None
        return new if known is None else self._with_type(old, new, self._resolve(known, old))

    def _with_type(self, old: Any, new: Any, ty: Type) -> Any:
        changes: dict[str, Any] = {}
        if new.ty is None or not structural_equal(new.ty, ty):
            changes["ty"] = ty
        if isinstance(new, Function) and new.ret_ty is None:
            changes["ret_ty"] = with_own_variables(ty.ret)  # type: ignore[attr-defined]
        if isinstance(new, Call) and (given := self.inference.type_args.get(id(old))):
            resolved = tuple(self._resolve(item, old) for item in given)
            if not structural_equal(resolved, new.ty_args):
                changes["ty_args"] = resolved
        if isinstance(new, Call) and isinstance(new.op, Op) and (attrs := full_attrs(new)) is not new.attrs:
            changes["attrs"] = attrs
        return replace(new, **changes) if changes else new

    def _resolve(self, ty: Type, node: Any) -> Type:
        known = self._types.get(id(ty))
        if known is None:
            known = self.inference.unifier.resolve(ty, self._resolved)
            if not is_complete(known):
                what = f"%{node.name_hint}" if isinstance(node, Var) else "this expression"
                self.inference.error(
                    Q0304,
                    f"unable to infer a type: that of {what} is {type_text(known)}",
                    node,
                    help=ANNOTATE,
                )
            self._types[id(ty)] = known
        return known

    def _var(self, var: Var) -> Var:
        made = self._vars.get(var)
        if made is None:
            ty = self._resolve(self.inference.vars[var], var) if var in self.inference.vars else var.ty
            same = ty is None or (var.ty is not None and structural_equal(var.ty, ty))
            made = var if same or ty is None else replace(var, ty=with_own_variables(ty))
            self._vars[var] = made
        return made

    def _global(self, var: GlobalVar) -> GlobalVar:
        made = self._globals.get(var)
        if made is None:
            known = self.inference.globals.get(var)
            made = var
            if known is not None and not (var.ty is not None and structural_equal(var.ty, known)):
                made = GlobalVar(var.name_hint, self._resolve(known, var), span=var.span)
            self._globals[var] = made
        return made
