"""Rewriting graph functions binding by binding.

    class DropRelu(BindingRewriter):
        def rewrite(self, var: Var, value: Expr) -> Expr | None:
            return value.args[0] if is_call(value, "relax.nn.relu") else value

The rewriter keeps what it is given: a function in which nothing changes stays the same object, and a variable
is made anew only where its type changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.graph.block_builder import BlockBuilder
from heddle.graph.core_ops import CALL_TIR
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, BindingBlock, MatchCast, SeqExpr, VarBinding
from heddle.ir.expr import Call, Expr, Function, GlobalVar, If, Tuple, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.op import is_op
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import Rewriter
from heddle.support.span import at


class _Renamer(Rewriter):
    """Replaces graph variables inside leaves and calls."""

    def __init__(self, mapping: dict[Var, Expr]) -> None:
        self._mapping = mapping

    def visit_Var(self, node: Any) -> Any:
        return self._mapping.get(node, node)

    def visit_Constant(self, node: Any) -> Any:
        return node

    def visit_Type(self, node: Any) -> Any:
        return node

    def visit_Call(self, node: Any) -> Any:
        changed = self.default(node)
        return changed if changed is node or not isinstance(node, Call) else replace(changed, ty=None)

    def visit_Tuple(self, node: Tuple) -> Any:
        changed = self.default(node)
        return changed if changed is node else replace(changed, ty=None)


class BindingRewriter(BlockBuilder):
    """The base class of graph rewrites. `rewrite` returns the new value of a binding, or None to drop the
    binding."""

    def __init__(self, mod: IRModule | None = None) -> None:
        super().__init__(mod)
        self.renamed: dict[Var, Expr] = {}
        self._renamer = _Renamer(self.renamed)

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        """Return the value to bind. It may be nested, and bindings may be emitted before it."""
        return value

    # ---- functions and sequences

    def run(self, func: Function) -> Function:
        """Return the rewritten function; the same object if nothing changed."""
        body = self.rewrite_sequence(func.body)
        if body is func.body:
            return func
        ret = func.ret_ty
        made = replace(func, body=body, ret_ty=ret, ty=None)
        return self.normalize_function(made) if ret is None else replace(made, ty=func.ty)

    def rewrite_sequence(self, expr: Any) -> SeqExpr:
        """Rewrite the bindings of a sequence in turn; the same object where nothing changes."""
        assert isinstance(expr, SeqExpr)
        with self.scope() as scope:
            for block in expr.blocks:
                scope.close_block()
                scope.is_dataflow = block.is_dataflow
                self.rewrite_block(block)
            scope.close_block()
            result = self.leaf(self.substitute(expr.body))
            scope.close_block()
        if result is expr.body and self._same_blocks(scope.blocks, expr):
            return expr
        return SeqExpr(tuple(scope.blocks), result, type_of(result), span=expr.span)

    def rewrite_block(self, block: BindingBlock) -> None:
        """Rewrite the bindings of a block in turn."""
        for binding in block.bindings:
            with at(binding.span):
                self.binding(binding)

    def _same_blocks(self, made: list[Any], expr: SeqExpr) -> bool:
        if len(made) != len(expr.blocks):
            return False
        return all(
            a.is_dataflow == b.is_dataflow
            and len(a.bindings) == len(b.bindings)
            and all(x is y for x, y in zip(a.bindings, b.bindings, strict=True))
            for a, b in zip(made, expr.blocks, strict=True)
        )

    def substitute(self, expr: Expr) -> Any:
        """An expression with variables that were made anew replaced."""
        return self._renamer.visit(expr) if self.renamed else expr

    # ---- bindings

    def binding(self, binding: Binding) -> None:
        """Rewrite one binding and add what comes of it."""
        if isinstance(binding, MatchCast):
            self._match_cast(binding)
            return
        value = binding.value
        if isinstance(value, If):
            new: Expr | None = self._if(value)
        elif isinstance(value, Function):
            new = self.run(value)
        else:
            renamed = self.substitute(value)
            new = self.rewrite(binding.var, renamed if renamed is value else self.value(renamed))
            if new is not None and new is not value:
                new = self.value(new)
        if new is not None:
            self._rebind(binding, new)

    def _if(self, value: If) -> If:
        """A branch of normal parts needs no further visit: each enclosing one would visit it again."""
        condition = self.substitute(value.cond)
        branches = self.rewrite_sequence(value.true_branch), self.rewrite_sequence(value.false_branch)
        if condition is value.cond and branches[0] is value.true_branch and branches[1] is value.false_branch:
            return value
        return self._typed(If(condition, *branches, span=value.span))  # type: ignore[no-any-return]

    def _match_cast(self, binding: MatchCast) -> None:
        value = self.leaf(self.substitute(binding.value))
        self.add(
            binding
            if value is binding.value
            else MatchCast(binding.var, value, binding.ty, span=binding.span)
        )

    def _rebind(self, binding: Binding, value: Expr) -> None:
        if value is binding.value:
            self.add(binding)
            return
        var = binding.var
        ty = type_of(value)
        if not _same_signature(binding.value, value) and (var.ty is None or not structural_equal(ty, var.ty)):
            var = Var(var.name_hint, ty, var.is_dataflow, span=var.span)
            self.renamed[binding.var] = var
        self.add(VarBinding(var, value, span=binding.span))

    def run_inner(self, var: Var, build: Callable[[], Expr]) -> Expr | None:
        """Normalise what `build` gives for `var`; rewrite the bindings that this makes, and the value."""
        with self.scope() as inner:
            inner.is_dataflow = self.scopes[-2].is_dataflow
            value = self.value(build())
            inner.close_block()
        for block in inner.blocks:
            for binding in block.bindings:
                self.binding(binding)
        return self.rewrite(var, self.value(self.substitute(value)))


def _same_signature(before: Expr, after: Expr) -> bool:
    """Whether a local function is called as before: its variable stays, which its own body may name."""
    if not isinstance(before, Function) or not isinstance(after, Function):
        return False
    return (
        len(before.params) == len(after.params)
        and all(a is b for a, b in zip(before.params, after.params, strict=True))
        and (before.ret_ty is after.ret_ty and before.is_pure == after.is_pure)
    )


def is_call(expr: object, name: str) -> bool:
    """Whether an expression is a call of the operator with this name ("relax.add")."""
    return isinstance(expr, Call) and is_op(expr.op, name)


def loop_call(expr: object) -> tuple[GlobalVar, Tuple] | None:
    """Return the loop function and the tensor arguments of a `call_tir`; None for another expression."""
    if not isinstance(expr, Call) or not is_call(expr, CALL_TIR):
        return None
    callee, args = expr.args[0], expr.args[1]
    return (callee, args) if isinstance(callee, GlobalVar) and isinstance(args, Tuple) else None
