"""LambdaLift: move local functions to the module; captured variables become their last parameters.

    @R.function                                     @R.function
    def main(x, y):                                 def main(x, y):
        @R.function                                     inner = R.make_closure(cls.main_inner, (x,))
        def inner(z):                          →        return R.invoke_pure_closure(inner, (y,))
            return R.add(x, z)                      @R.function(private=True)
        return inner(y)                             def main_inner(z, x):
                                                        return R.add(x, z)

A local function that captures nothing is called directly. One that calls itself calls the lifted function
with what it captured as last arguments. A symbolic dimension that no parameter of the lifted function gives
is captured as a shape.
"""

from __future__ import annotations

from typing import Any

from heddle.graph.copying import Copier
from heddle.graph.infer import function_type, type_of
from heddle.graph.nodes import Binding, BindingBlock, MatchCast, SeqExpr, VarBinding, body_of
from heddle.graph.rewriter import BindingRewriter
from heddle.graph.type_relations import definable_vars, symbolic_vars
from heddle.graph.types import ShapeExpr, ShapeType
from heddle.ir.expr import Call, Expr, Function, GlobalVar, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import Node, children, replace
from heddle.ir.op import Op
from heddle.ir.transform import Pass, PassContext
from heddle.ir.types import AnyType, FuncType
from heddle.ir.visitor import Rewriter, walk_distinct
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars


class LambdaLift(Pass):
    """Establishes: no nested functions."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        lifter = _Lifter(mod)
        changed = False
        for var, func in mod.functions.items():
            if func.dialect == "relax" and any(
                isinstance(node, Function) for node in walk_distinct(func.body)
            ):
                lifter.update_func(var, lifter.lift_inside(var.name_hint, func))
                changed = True
        return lifter.get() if changed else mod


class _Lifter(BindingRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._closures: set[Var] = set()
        self._outer_name = ""
        self._outer_dims: set[PrimVar] = set()

    def lift_inside(self, name: str, func: Function) -> Function:
        """The function without local functions; these are in the module then."""
        saved = self._outer_name, self._outer_dims
        self._outer_name, self._outer_dims = name, _defined_dims(func)
        result = self.run(func)
        self._outer_name, self._outer_dims = saved
        return result

    def binding(self, binding: Binding) -> None:
        if isinstance(binding, VarBinding) and isinstance(binding.value, Function):
            self._lift(binding.var, self.substitute(binding.value))
        else:
            super().binding(binding)

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        """A call of a variable that holds a closure goes through it."""
        if not isinstance(value, Call) or value.op not in self._closures:
            return value
        name = "invoke_pure_closure" if getattr(type_of(value.op), "is_pure", False) else "invoke_closure"
        types = (var.ty if var.ty is not None else type_of(value),)
        return Call(Op.get(f"relax.{name}"), (value.op, Tuple(value.args)), value.attrs, types)

    def _lift(self, var: Var, func: Function) -> None:
        name = self.global_names.fresh(f"{self._outer_name}_{var.name_hint}")
        captured = _free_variables(func, var)
        dims = sorted(_used_dims(func, captured) & self._outer_dims, key=lambda dim: dim.name)
        dims = [dim for dim in dims if dim not in _given_dims((*func.params, *captured))]
        shapes = [Var(dim.name, ShapeType((dim,))) for dim in dims]
        closed = _closed(func, var, GlobalVar(name), (*captured, *shapes))
        self.module[name] = closed
        self.module[name] = lifted = self.lift_inside(name, self.normalize_function(closed))
        target = GlobalVar(name, function_type(lifted))
        if not captured and not dims:
            self.renamed[var] = target
            return
        arguments = (*captured, *(ShapeExpr((dim,)) for dim in dims))
        closure = self.value(Call(Op.get("relax.make_closure"), (target, Tuple(arguments))))
        made = Var(var.name_hint, type_of(closure), var.is_dataflow, span=var.span)
        self.add(VarBinding(made, closure))
        self.renamed[var] = made
        self._closures.add(made)


def _closed(func: Function, own: Var, target: GlobalVar, extra: tuple[Var, ...]) -> Function:
    """The function with more, last parameters, which calls `target` where it called itself."""
    ret = func.ret_ty if func.ret_ty is not None else AnyType()
    ty = FuncType(tuple(type_of(param) for param in (*func.params, *extra)), ret, func.is_pure)
    itself = _SelfCalls(own, replace(target, ty=ty), extra)
    body = itself.with_closure(itself.visit(body_of(func)))
    whole = replace(func, params=(*func.params, *extra), body=body, ty=None)
    copied: Function = Copier().visit(whole)
    return copied


class _SelfCalls(Rewriter):
    """Inside a function that is lifted: calls of itself pass on what it captured."""

    def __init__(self, own: Var, target: GlobalVar, extra: tuple[Var, ...]) -> None:
        self._own, self._target, self._extra = own, target, extra
        self._closure: Var | None = None

    def visit_Call(self, node: Any) -> Any:
        if not isinstance(node, Call) or node.op is not self._own:
            return self.default(node)
        args = tuple(self.visit(arg) for arg in node.args)
        return replace(node, op=self._target, args=(*args, *self._extra))

    def visit_Var(self, node: Any) -> Any:
        """The function as a value."""
        if node is not self._own:
            return node
        if not self._extra:
            return self._target
        if self._closure is None:
            self._closure = Var(self._own.name_hint, self._own.ty)
        return self._closure

    def with_closure(self, body: SeqExpr) -> SeqExpr:
        if self._closure is None:
            return body
        value = Call(Op.get("relax.make_closure"), (self._target, Tuple(self._extra)), ty=self._closure.ty)
        return replace(body, blocks=(BindingBlock((VarBinding(self._closure, value),)), *body.blocks))


def _free_variables(func: Function, own: Var) -> tuple[Var, ...]:
    """The graph variables that a function uses and does not define, in order of use."""
    defined = {own}
    for node in walk_distinct(func):
        if isinstance(node, Function):
            defined.update(node.params)
        elif isinstance(node, Binding):
            defined.add(node.var)
    used = (node for node in walk_distinct(func) if isinstance(node, Var))
    return tuple(var for var in dict.fromkeys(used) if var not in defined)


def _given_dims(params: tuple[Var, ...]) -> set[PrimVar]:
    return {dim for param in params for dim in definable_vars(type_of(param))}


def _used_dims(func: Function, captured: tuple[Var, ...]) -> set[PrimVar]:
    """The symbolic dimensions that a function mentions anywhere."""
    types = [type_of(var) for var in (*func.params, *captured)]
    if func.ret_ty is not None:
        types.append(func.ret_ty)
    return set(free_vars(func.body, *types))


def _defined_dims(func: Function) -> set[PrimVar]:
    """The symbolic dimensions that a function itself defines, by parameters and match_casts."""
    found = {dim for param in func.params for dim in symbolic_vars(type_of(param))}
    stack: list[Node] = [func.body]
    while stack:
        node = stack.pop()
        if isinstance(node, MatchCast):
            found.update(symbolic_vars(node.ty))
        elif not isinstance(node, Function):
            stack.extend(children(node))
    return found
