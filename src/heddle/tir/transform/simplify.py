"""Simplify: index arithmetic, conditions and control flow, with what is known at each place.

    for i in 0 .. 8:                               for i in 0 .. 8:
        if i < n and i >= 0:                           if i < n:
            A[i // 8 + i] = 1.0            →               A[i] = 1.0
        for j in 0 .. 1: B[i + j] = 2.0                B[i] = 2.0

Ranges of loops and conditions of enclosing branches are constraints. Branches whose condition is decided,
loops of one or no iteration and asserts that hold are resolved; variables bound to constants or variables are
replaced. Arithmetic on values (as against indices, bounds and conditions without loads) is left alone: it
wraps.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk
from heddle.prim.intrinsics import is_as_computed
from heddle.prim.nodes import Call, FloatImm, IntImm, PrimExpr, Range, Select, Var
from heddle.prim.ops import const, greater, logical_not
from heddle.tir.nodes import (
    AssertStmt,
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    is_no_op,
    seq,
)
from heddle.tir.substitute import StmtSubstituter, substitute_stmt

MAX_REPEATED = 8
"""Nodes of a bound value that may stand in the place of its variable. Of a larger one the bounds are known:
repeated at every use it would cost more than what it lets one simplify."""

_NOTHING = Evaluate(const(0), span=None)


class Simplify(FunctionPass):
    """Value-preserving and idempotent; the same function where nothing changes."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        analyzer = Analyzer()
        for buffer in func.buffers:
            for dim in buffer.shape:
                if isinstance(dim, Var):
                    analyzer.mark_global_non_neg(dim)
        return func.with_body(_Simplifier(analyzer).visit(func.body))


def is_analysable(expr: PrimExpr) -> bool:
    """Whether an expression is index arithmetic: no loads, no calls whose value is not plain."""
    return not any(isinstance(node, (BufferLoad, FloatImm)) or is_as_computed(node) for node in walk(expr))


class _Simplifier(Rewriter):
    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer

    def index(self, expr: PrimExpr) -> Any:
        """Simplify index arithmetic; loads inside have their indices simplified."""
        if isinstance(expr, (IntImm, Var)) or not is_analysable(expr):
            return self.visit(expr)
        return self._analyzer.simplify(expr)

    # ---- values

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        indices = tuple(self.index(index) for index in node.indices)
        predicate = None if node.predicate is None else self.index(node.predicate)
        same = all(a is b for a, b in zip(indices, node.indices, strict=True)) and predicate is node.predicate
        return node if same else BufferLoad(node.buffer, indices, predicate)

    def visit_Select(self, node: Select) -> Any:
        condition = self.index(node.condition)
        yes, no = self.visit(node.true_value), self.visit(node.false_value)
        if isinstance(condition, IntImm):
            return yes if condition.value else no
        same = condition is node.condition and yes is node.true_value and no is node.false_value
        return node if same else Select(condition, yes, no)

    def visit_Call(self, node: Call) -> Any:
        if node.op.name != "tir.if_then_else":
            return self.default(node)
        condition, yes, no = node.args
        assert isinstance(condition, PrimExpr)
        test = self.index(condition)
        if isinstance(test, IntImm):
            return self.visit(yes if test.value else no)
        yes, no = self._under(test, yes), self._under(logical_not(test), no)
        same = test is condition and yes is node.args[1] and no is node.args[2]
        return node if same else Call(node.dtype, node.op, (test, yes, no))

    def _under(self, condition: PrimExpr, node: Any) -> Any:
        if condition.dtype.lanes > 1 or not is_analysable(condition):
            return self.visit(node)
        with self._analyzer.constraint_scope(condition):
            return self.visit(node)

    # ---- statements

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        value, indices = self.visit(node.value), tuple(self.index(index) for index in node.indices)
        predicate = None if node.predicate is None else self.index(node.predicate)
        same = all(a is b for a, b in zip(indices, node.indices, strict=True))
        if same and value is node.value and predicate is node.predicate:
            return node
        return BufferStore(node.buffer, value, indices, predicate)

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        """Later statements see what binds and asserts before them establish."""
        done: list[Stmt] = []
        rest = list(node.seq)
        changed = False
        while rest:
            stmt = rest.pop(0)
            if isinstance(stmt, Bind):
                value = self._value(stmt.value)
                if isinstance(value, (IntImm, FloatImm, Var)):
                    replace_var = StmtSubstituter({stmt.var: value})
                    rest = [replace_var.visit(item) for item in rest]
                    changed = True
                    continue
            made = self.visit(stmt)
            changed = changed or made is not stmt or is_no_op(made)
            done.append(made)
        return seq(*done) if changed else node

    def _value(self, value: PrimExpr) -> Any:
        if (value.dtype.is_int or value.dtype.is_bool) and is_analysable(value):
            return self.index(value)
        return self.visit(value)

    def visit_Bind(self, node: Bind) -> Bind:
        value = self._value(node.value)
        if node.var.dtype.is_int and node.var.dtype.lanes == 1 and is_analysable(value):
            if sum(1 for _ in walk(value)) <= MAX_REPEATED:
                self._analyzer.bind(node.var, value, allow_override=True)
            else:
                self._analyzer.update(node.var, self._analyzer.const_int_bound(value), override=True)
                self._analyzer.update(node.var, self._analyzer.modular_set(value))
        return node if value is node.value else Bind(node.var, value)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.index(node.condition)
        if isinstance(condition, IntImm) and condition.value:
            taken: Stmt = self.visit(node.then_case)
            return taken
        if isinstance(condition, IntImm) and node.else_case is None:
            return _NOTHING
        if isinstance(condition, IntImm):
            otherwise: Stmt = self.visit(node.else_case)
            return otherwise
        then = self._under(condition, node.then_case)
        other: Stmt | None = node.else_case and self._under(logical_not(condition), node.else_case)
        if other is not None and is_no_op(other):
            other = None
        if is_no_op(then):
            return _NOTHING if other is None else IfThenElse(logical_not(condition), other)
        same = condition is node.condition and then is node.then_case and other is node.else_case
        return node if same else IfThenElse(condition, then, other)

    def visit_For(self, node: For) -> Stmt:
        low, extent = self.index(node.min), self.index(node.extent)
        plain = node.kind is not ForKind.THREAD_BINDING
        if plain and isinstance(extent, IntImm) and extent.value <= 0:
            return _NOTHING
        if plain and isinstance(extent, IntImm) and extent.value == 1:
            once: Stmt = self.visit(substitute_stmt(node.body, {node.loop_var: low}))
            return once
        if is_analysable(low) and is_analysable(extent):
            self._analyzer.bind(node.loop_var, Range.from_min_extent(low, extent), allow_override=True)
            body = self._under(greater(extent, const(0, extent.dtype)), node.body)
        else:
            body = self.visit(node.body)
        if is_no_op(body):
            return _NOTHING
        if low is node.min and extent is node.extent and body is node.body:
            return node
        return replace(node, min=low, extent=extent, body=body)

    def visit_While(self, node: While) -> Stmt:
        condition, body = self.visit(node.condition), self.visit(node.body)
        same = condition is node.condition and body is node.body
        return node if same else While(condition, body)

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self.index(node.condition)
        if isinstance(condition, IntImm) and condition.value:
            return _NOTHING
        return node if condition is node.condition else replace(node, condition=condition)
