"""Convert graph functions to normal form: nested values are bound to variables, and every expression is
typed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from heddle.arith import Analyzer
from heddle.graph.core_ops import NULL_VALUE
from heddle.graph.infer import function_type, infer, type_of
from heddle.graph.nodes import Binding, BindingBlock, MatchCast, SeqExpr, VarBinding
from heddle.graph.types import ShapeExpr
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
from heddle.ir.node import replace
from heddle.ir.op import Op, is_op
from heddle.ir.op_def import op_def
from heddle.ir.types import Type
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import PrimExpr
from heddle.support.names import NameSupply
from heddle.support.span import at

_LEAVES = (Var, GlobalVar, Constant, ShapeExpr, PrimExpr, StringImm, DataTypeImm, ExternFunc, Op)


@dataclass(slots=True)
class Scope:
    """A sequence under construction: closed blocks and the open one. `bound` has, by identity, the
    expressions that the open block has variables for: one that is used twice is computed once."""

    blocks: list[BindingBlock] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    is_dataflow: bool = False
    bound: dict[int, tuple[Expr, Expr]] = field(default_factory=dict)

    def close_block(self) -> None:
        """Put the bindings made so far into a block; an ordinary block begins."""
        self.bound = {}
        if self.bindings:
            self.blocks.append(BindingBlock(tuple(self.bindings), self.is_dataflow))
        self.bindings, self.is_dataflow = [], False


class Normalizer:
    """Brings expressions into the normal form, adding bindings to the innermost scope."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = mod
        self.analyzer = Analyzer()
        self.names = NameSupply()
        self.scopes: list[Scope] = []
        self._typed_vars: dict[Var, Var] = {}
        """What stands for a variable that somebody made without a type."""

    # ---- scopes

    @contextmanager
    def scope(self) -> Iterator[Scope]:
        """What is bound inside goes to the scope that this gives."""
        opened = Scope()
        self.scopes.append(opened)
        try:
            yield opened
        finally:
            self.scopes.pop()

    def add(self, binding: Binding) -> None:
        """Add a binding to the innermost scope, as it is."""
        self.scopes[-1].bindings.append(binding)

    def bind(self, value: Expr, hint: str = "lv", output: bool = False) -> Var:
        """Bind a normalised value to a new variable."""
        is_dataflow = self.scopes[-1].is_dataflow and not output
        with at(value.span):
            var = Var(self.names.fresh(hint), type_of(value), is_dataflow)
            self.add(VarBinding(var, value))
        return var

    # ---- expressions

    def leaf(self, expr: Expr) -> Expr:
        """A leaf: the expression itself, or a variable bound to it."""
        if isinstance(expr, Tuple):
            return self._normal_tuple(expr)
        known = self.scopes[-1].bound.get(id(expr)) if self.scopes else None
        if known is not None:
            return known[1]
        value = self.value(expr)
        if isinstance(value, (_LEAVES, Tuple)) or _is_nothing(value):
            return value
        var = self.bind(value)
        if not is_impure_call(expr, self.mod):
            self.scopes[-1].bound[id(expr)] = expr, var
        return var

    def value(self, expr: Expr) -> Expr:
        """A typed value whose parts are leaves."""
        if isinstance(expr, GlobalVar) and expr.ty is None and self.mod is not None and expr in self.mod:
            return GlobalVar(expr.name_hint, function_type(self.mod[expr]), span=expr.span)
        if isinstance(expr, Constant) and expr.ty is None:
            return replace(expr, ty=infer(expr))
        if isinstance(expr, Var):
            return self._typed_vars.get(expr, expr)
        if isinstance(expr, _LEAVES):
            return expr
        with at(expr.span):
            method: Callable[[Any], Expr] = _METHODS[type(expr)].__get__(self)
            return method(expr)

    def _typed(self, expr: Any) -> Any:
        return replace(expr, ty=infer(expr, self.mod, self.analyzer)) if expr.ty is None else expr

    def _normal_tuple(self, expr: Tuple) -> Expr:
        fields = tuple(self.leaf(item) for item in expr.fields)
        same = all(a is b for a, b in zip(fields, expr.fields, strict=True))
        return self._typed(expr if same else Tuple(fields, span=expr.span))  # type: ignore[no-any-return]

    def _normal_item(self, expr: TupleGetItem) -> Expr:
        source = self.leaf(expr.tuple_value)
        same = source is expr.tuple_value
        return self._typed(expr if same else TupleGetItem(source, expr.index, span=expr.span))  # type: ignore[no-any-return]

    def _normal_call(self, expr: Call) -> Expr:
        callee = expr.op if isinstance(expr.op, (Op, ExternFunc)) else self.leaf(expr.op)
        args = tuple(self.leaf(arg) for arg in expr.args)
        same = callee is expr.op and all(a is b for a, b in zip(args, expr.args, strict=True))
        made = expr if same else Call(callee, args, expr.attrs, expr.ty_args, span=expr.span)
        return self._typed(made)  # type: ignore[no-any-return]

    def _normal_if(self, expr: If) -> Expr:
        condition = self.leaf(expr.cond)
        branches = self.sequence(expr.true_branch), self.sequence(expr.false_branch)
        return self._typed(If(condition, *branches, span=expr.span))  # type: ignore[no-any-return]

    def _normal_function(self, expr: Function) -> Expr:
        return self.normalize_function(expr)

    def _normal_seq(self, expr: SeqExpr) -> Expr:
        """A sequence in the place of a value: its bindings move out."""
        self._inline(expr)
        return self.value(expr.body)

    def _inline(self, expr: SeqExpr) -> None:
        for block in expr.blocks:
            for binding in block.bindings:
                self.rebind(binding)

    def rebind(self, binding: Binding) -> None:
        """Add a binding of an existing variable after normalising its value."""
        with at(binding.span):
            value = self.value(binding.value)
            var = binding.var
            if var.ty is None:
                ty = binding.ty if isinstance(binding, MatchCast) else type_of(value)
                self._typed_vars[var] = replace(var, ty=ty)
                var = self._typed_vars[var]
            if isinstance(binding, MatchCast):
                self.add(MatchCast(var, self.leaf(value), binding.ty))
            else:
                self.add(VarBinding(var, value))

    def sequence(self, expr: Expr) -> SeqExpr:
        """A function's body or a branch: blocks, then a leaf."""
        with self.scope() as scope:
            if isinstance(expr, SeqExpr):
                for block in expr.blocks:
                    self._copy_block(block, scope)
                result = self.leaf(expr.body)
            else:
                result = self.leaf(expr)
            scope.close_block()
            return SeqExpr(tuple(scope.blocks), result, type_of(result), span=expr.span)

    def _copy_block(self, block: BindingBlock, scope: Scope) -> None:
        if block.is_dataflow != scope.is_dataflow:
            scope.close_block()
        scope.is_dataflow = block.is_dataflow
        for binding in block.bindings:
            self.rebind(binding)
        if block.is_dataflow:
            scope.close_block()

    def normalize_function(self, func: Function) -> Function:
        """Return a function in normal form, with its return type."""
        body = self.sequence(func.body)
        ret: Type = func.ret_ty if func.ret_ty is not None else type_of(body.body)
        made = replace(func, body=replace(body, ty=type_of(body.body)), ret_ty=ret, ty=None)
        return replace(made, ty=infer(made))


_METHODS: dict[type, Any] = {
    Tuple: Normalizer._normal_tuple,
    TupleGetItem: Normalizer._normal_item,
    Call: Normalizer._normal_call,
    If: Normalizer._normal_if,
    Function: Normalizer._normal_function,
    SeqExpr: Normalizer._normal_seq,
}


def _is_nothing(expr: Expr) -> bool:
    """`null_value` is an operand of the machine, not a computation."""
    return isinstance(expr, Call) and is_op(expr.op, NULL_VALUE)


def is_impure_call(expr: Expr, mod: IRModule | None = None) -> bool:
    """Whether evaluating an expression has side effects."""
    if not isinstance(expr, Call):
        return False
    record = op_def(expr.op)
    if record is not None:
        return not record.is_pure
    ty = getattr(expr.op, "ty", None)
    if ty is None and isinstance(expr.op, GlobalVar) and mod is not None and expr.op in mod:
        ty = function_type(mod[expr.op])
    return not getattr(ty, "is_pure", False)


def known_functions(func: Function) -> set[Var]:
    """The variables in a function that stand for functions whose bodies are there to be read, as local ones
    are. What is passed as an argument or taken from a tuple is none of them: it is called as its type says,
    but nobody checked that it does no more."""
    known: set[Var] = set()
    for node in walk_distinct(func):
        if isinstance(node, VarBinding):
            value = node.value
            if isinstance(value, (Function, GlobalVar)) or (isinstance(value, Var) and value in known):
                known.add(node.var)
    return known


def is_unknown_call(expr: Expr, known: set[Var]) -> bool:
    """Whether an expression calls a function of which only the type is known."""
    return isinstance(expr, Call) and isinstance(expr.op, Var) and expr.op not in known
