"""Base classes for user-written visitors and mutators of Relax programs, with TVM's method names.

    @mutator
    class AddToMultiply(PyExprMutator):
        def visit_call_(self, call: Call) -> Expr:
            call = self.visit_expr_post_order(call)
            return op.multiply(*call.args) if call.op == Op.get("relax.add") else call

`visit_expr` calls the method for a node's class (`visit_call_`). The default methods visit the children.
"""

from __future__ import annotations

from typing import Any

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, BindingBlock, MatchCast, SeqExpr, VarBinding
from heddle.graph.types import ShapeExpr
from heddle.ir.codes import I0401
from heddle.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from heddle.ir.module import IRModule
from heddle.ir.node import children, map_children, replace
from heddle.ir.op import Op
from heddle.ir.structural import structural_equal
from heddle.ir.types import Type
from heddle.prim.nodes import PrimExpr
from heddle.support.diagnostics import UsageError

_METHODS: dict[type, str] = {
    Constant: "visit_generic_const_",
    Tuple: "visit_tuple_",
    ShapeExpr: "visit_shape_expr_",
    ExternFunc: "visit_extern_func_",
    GlobalVar: "visit_global_var_",
    Function: "visit_function_",
    Call: "visit_call_",
    SeqExpr: "visit_seq_expr_",
    If: "visit_if_",
    Op: "visit_op_",
    TupleGetItem: "visit_tuple_getitem_",
    StringImm: "visit_string_imm_",
    DataTypeImm: "visit_data_type_imm_",
}


class _Functor:
    """Maps nodes to visit methods."""

    def _name(self, expr: Any) -> str:
        if isinstance(expr, Var):
            return "visit_dataflow_var_" if expr.is_dataflow else "visit_var_"
        if isinstance(expr, PrimExpr):
            return "visit_prim_expr_"
        name = _METHODS.get(type(expr))
        if name is None:
            raise UsageError(I0401, f"{type(expr).__name__} is no expression of Relax")
        return name

    def _leaf(self, expr: Any) -> Any:
        raise NotImplementedError

    def visit_binding(self, binding: Binding) -> None:
        """Call the method of a binding's class."""
        (self.visit_match_cast_ if isinstance(binding, MatchCast) else self.visit_var_binding_)(binding)

    def visit_binding_block(self, block: BindingBlock) -> Any:
        """Call the method of a block's kind."""
        return (self.visit_dataflow_block_ if block.is_dataflow else self.visit_binding_block_)(block)

    def visit_var_def(self, var: Var) -> Any:
        """Call the method for the definition of a variable."""
        return (self.visit_dataflow_var_def_ if var.is_dataflow else self.visit_var_def_)(var)

    def visit_constant_(self, op: Constant) -> Any:
        return self._leaf(op)

    def visit_generic_const_(self, op: Constant) -> Any:
        return self.visit_constant_(op)

    def _below(self, op: Any) -> Any:
        raise NotImplementedError

    def visit_var_(self, op: Var) -> Any:
        return self._leaf(op)

    def visit_dataflow_var_(self, op: Var) -> Any:
        return self._leaf(op)

    def visit_leaf_(self, op: Any) -> Any:
        return self._leaf(op)

    def visit_parts_(self, op: Any) -> Any:
        return self._below(op)

    visit_shape_expr_ = visit_extern_func_ = visit_global_var_ = visit_op_ = visit_leaf_
    visit_string_imm_ = visit_data_type_imm_ = visit_prim_expr_ = visit_leaf_
    visit_call_ = visit_tuple_ = visit_tuple_getitem_ = visit_if_ = visit_function_ = visit_seq_expr_ = (
        visit_parts_
    )
    visit_var_binding_ = visit_match_cast_ = visit_binding_block_ = visit_dataflow_block_ = visit_parts_
    visit_var_def_ = visit_dataflow_var_def_ = visit_leaf_


class PyExprVisitor(_Functor):
    """Visits a program without changing it."""

    def visit_expr(self, expr: Expr) -> None:
        """Call the method of the expression's class."""
        getattr(self, self._name(expr))(expr)

    def _leaf(self, expr: Any) -> None:
        """A leaf has no children."""

    def _below(self, op: Any) -> None:
        for child in children(op):
            if isinstance(child, Expr):
                self.visit_expr(child)

    def visit_function_(self, op: Function) -> None:
        for param in op.params:
            self.visit_var_def(param)
        self.visit_expr(op.body)

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)

    def visit_bindings_(self, op: BindingBlock) -> None:
        for binding in op.bindings:
            self.visit_binding(binding)

    def visit_value_(self, op: Binding) -> None:
        self.visit_expr(op.value)
        self.visit_var_def(op.var)

    visit_binding_block_ = visit_dataflow_block_ = visit_bindings_
    visit_var_binding_ = visit_match_cast_ = visit_value_


class PyExprMutator(_Functor):
    """Rewrites a program. `builder_` is a BlockBuilder of the module: bindings that methods emit there come
    before the binding that is being rewritten. A function without changes stays the same object."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.builder_ = BlockBuilder(mod)
        self._remap: dict[Var, Any] = {}
        self._bound: dict[Var, Expr] = {}

    def visit_expr(self, expr: Expr) -> Any:
        """Return the result of the method for the expression's class, in normal form."""
        made = getattr(self, self._name(expr))(expr)
        is_nested = isinstance(made, (Function, SeqExpr, If))
        return made if is_nested or not self.builder_.scopes else self.builder_.value(made)

    def visit_expr_post_order(self, expr: Expr) -> Any:
        """Visit the children only, not the expression itself. Return the result in normal form."""
        if isinstance(expr, Constant):  # it has two methods, one of which calls the other
            return expr
        made = getattr(PyExprMutator, self._name(expr))(self, expr)
        is_nested = isinstance(made, (Function, SeqExpr, If))
        return made if is_nested or not self.builder_.scopes else self.builder_.value(made)

    def _leaf(self, expr: Any) -> Any:
        return self._remap.get(expr, expr) if isinstance(expr, Var) else expr

    def _child(self, child: Any) -> Any:
        return self.visit_expr(child) if isinstance(child, Expr) else child

    def _below(self, op: Any) -> Any:
        made = map_children(op, self._child)
        return made if made is op else replace(made, ty=None)

    def visit_function_(self, op: Function) -> Any:
        params = tuple(self.visit_var_def(param) for param in op.params)
        body = self.visit_with_new_scope(op.body, params)
        if body is op.body and all(new is old for new, old in zip(params, op.params, strict=True)):
            return op
        made = replace(op, params=params, body=body, ret_ty=type_of(body.body), ty=None)
        return self.builder_.normalize_function(made)

    def visit_with_new_scope(self, expr: Expr, params: Any = ()) -> Any:
        """Visit a body or branch. Return it as a sequence with its own bindings."""
        for param in params:
            self.builder_.names.reserve(param.name_hint)
        return self.visit_expr(expr if isinstance(expr, SeqExpr) else SeqExpr((), expr))

    def visit_if_(self, op: If) -> Any:
        cond = self.builder_.leaf(self.visit_expr(op.cond))
        branches = self.visit_with_new_scope(op.true_branch), self.visit_with_new_scope(op.false_branch)
        if cond is op.cond and branches[0] is op.true_branch and branches[1] is op.false_branch:
            return op
        return If(cond, *branches, span=op.span)

    def visit_seq_expr_(self, op: SeqExpr) -> Any:
        blocks = [self.visit_binding_block(block) for block in op.blocks]
        with self.builder_.scope() as scope:
            body = self.builder_.leaf(self.visit_expr(op.body))
            scope.close_block()
        if body is op.body and all(new is old for new, old in zip(blocks, op.blocks, strict=True)):
            return op if op.ty is not None else replace(op, ty=type_of(body))
        kept = [block for block in (*blocks, *scope.blocks) if block.bindings]
        return SeqExpr(tuple(kept), body, type_of(body), span=op.span)

    def visit_bindings_(self, op: BindingBlock) -> Any:
        with self.builder_.scope() as scope:
            scope.is_dataflow = op.is_dataflow
            for binding in op.bindings:
                self.visit_binding(binding)
        made = scope.bindings
        is_same = len(made) == len(op.bindings)
        is_same = is_same and all(new is old for new, old in zip(made, op.bindings, strict=True))
        return op if is_same else BindingBlock(tuple(made), op.is_dataflow, span=op.span)

    visit_binding_block_ = visit_dataflow_block_ = visit_bindings_

    def visit_var_binding_(self, binding: VarBinding) -> None:
        value = self.visit_expr(binding.value)
        if value is not binding.value and not isinstance(value, Function):
            value = self.builder_.value(value)
        var = self.visit_var_def(binding.var)
        if value is not binding.value or var is not binding.var:
            var = self.with_type(var, type_of(value))
            self._remap[binding.var] = var
            binding = VarBinding(var, value, span=binding.span)
        self._emit(binding, var)

    def _emit(self, binding: Binding, var: Var) -> None:
        self._bound[var] = binding.value
        self.builder_.emit_normalized(binding)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        value = self.builder_.leaf(self.visit_expr(binding.value))
        var = self.visit_var_def(binding.var)
        if value is not binding.value or var is not binding.var:
            self._remap[binding.var] = var
            binding = MatchCast(var, value, binding.ty, span=binding.span)
        self._emit(binding, var)

    def with_type(self, var: Var, ty: Type) -> Var:
        """Return the variable; if its type is another one, a new variable of the same name with type `ty`."""
        return var if var.ty is not None and structural_equal(var.ty, ty) else replace(var, ty=ty)

    def set_var_remap(self, vid: Var, var: Expr) -> None:
        """Replace a variable from now on."""
        self._remap[vid] = var

    def get_var_remap(self, vid: Var) -> Any:
        """Return the replacement of a variable; the variable itself if there is none."""
        return self._remap.get(vid, vid)

    def lookup_binding(self, var: Var) -> Expr | None:
        """Return the value to which a variable is bound in the new program."""
        return self._bound.get(var) or self.builder_.lookup_binding(var)


def visitor(cls: type) -> type:
    """Decorate a subclass of PyExprVisitor, as in TVM."""
    return cls


def mutator(cls: type) -> type:
    """Decorate a subclass of PyExprMutator, as in TVM."""
    return cls
