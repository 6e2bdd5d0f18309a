"""Verify graph functions: return the violated rules as findings.

Every variable and symbolic dimension is defined once, and before its use; arguments are leaves (the normal
form); dataflow blocks are pure and have no control flow; a pure function calls nothing impure; every
expression has a type; no stated type is provably wrong (`graph.claims`); conditions are scalars.
"""

from __future__ import annotations

from typing import Any

from heddle.arith import Analyzer
from heddle.graph.claims import Claim, condition_problem, loop_call_claims, loop_call_problem, operands_of
from heddle.graph.codes import R0102, R0201, R0301, R0302, R0305, R0306, R0307, R0308
from heddle.graph.infer import function_type
from heddle.graph.nodes import Binding, BindingBlock, MatchCast, SeqExpr
from heddle.graph.normalize import is_impure_call
from heddle.graph.type_relations import BaseCheck, symbolic_vars
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
from heddle.ir.op import Op
from heddle.ir.types import Type
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import free_vars
from heddle.relax.codes import R0303, R0304
from heddle.support.diagnostics import Code, Diagnostic

_LEAVES = (Var, GlobalVar, Constant, ShapeExpr, PrimExpr, StringImm, DataTypeImm, ExternFunc, Op)


def verify_graph_function(func: Function, mod: IRModule) -> list[Diagnostic]:
    """The findings for one function."""
    checker = _Checker(mod)
    checker.function(func)
    return checker.findings


class _Checker:
    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.findings: list[Diagnostic] = []
        self._vars: set[Var] = set()
        self._dims: set[PrimVar] = set()
        self._ever: set[Var] = set()
        self._analyzer = Analyzer()

    def _report(self, code: Code, message: str, node: Any) -> None:
        self.findings.append(Diagnostic(code, message, node.span))

    # ---- functions and sequences

    def function(self, func: Function) -> None:
        outer = set(self._vars), set(self._dims)
        for param in func.params:
            self._define(param)
            if param.ty is not None:
                self._dims.update(symbolic_vars(param.ty))
        self._sequence(func.body, func.is_pure and not func.attrs.get("relax.force_pure"))
        if func.ret_ty is not None:
            self._claim("the result", func.ret_ty, getattr(func.body, "ty", None), func)
        self._vars, self._dims = outer

    def _define(self, var: Var) -> None:
        if var in self._ever:
            self._report(R0302, f"variable {var.name_hint!r} is bound twice", var)
        if var.ty is None:
            self._report(R0102, f"variable {var.name_hint!r} has no type", var)
        self._vars.add(var)
        self._ever.add(var)

    def _sequence(self, body: Expr, is_pure: bool) -> None:
        if not isinstance(body, SeqExpr):
            self._report(R0303, "a body must be a sequence", body)
            return
        for block in body.blocks:
            self._block(block, is_pure)
        self._leaf(body.body)

    def _block(self, block: BindingBlock, is_pure: bool) -> None:
        inner: list[Var] = []
        for binding in block.bindings:
            self._binding(binding, block.is_dataflow, is_pure)
            if binding.var.is_dataflow:
                if not block.is_dataflow:
                    self._report(
                        R0304,
                        f"dataflow variable {binding.var.name_hint!r} outside a dataflow block",
                        binding.var,
                    )
                inner.append(binding.var)
        self._vars.difference_update(inner)

    def _binding(self, binding: Binding, in_dataflow: bool, is_pure: bool) -> None:
        value = binding.value
        if isinstance(value, Function):
            self._define(binding.var)
            self.function(value)
            self._claim(
                f"variable {binding.var.name_hint!r}", binding.var.ty, function_type(value), binding.var
            )
            return
        self._value(value, in_dataflow, is_pure)
        known: Type | None = getattr(value, "ty", None)
        if isinstance(binding, MatchCast):
            self._dims.update(symbolic_vars(binding.ty))
            known = binding.ty
        self._define(binding.var)
        self._claim(f"variable {binding.var.name_hint!r}", binding.var.ty, known, binding.var)

    def _claim(self, who: str, stated: Type | None, known: Type | None, node: Any) -> None:
        if stated is not None and known is not None and stated is not known:
            self._check_claim(Claim(who, stated, known), node)

    def _check_claim(self, claim: Claim, node: Any) -> None:
        if claim.check(self._analyzer) is BaseCheck.FAIL_L0:
            self._report(R0307, str(claim), node)

    # ---- expressions

    def _value(self, value: Expr, in_dataflow: bool, is_pure: bool) -> None:
        if isinstance(value, If):
            if in_dataflow:
                self._report(R0304, "an if inside a dataflow block", value)
            self._leaf(value.cond)
            self._condition(value.cond)
            for branch in (value.true_branch, value.false_branch):
                outer = set(self._vars), set(self._dims)
                self._sequence(branch, is_pure)
                self._vars, self._dims = outer
        elif isinstance(value, Call):
            self._call(value, in_dataflow, is_pure)
        elif isinstance(value, TupleGetItem):
            self._leaf(value.tuple_value)
        else:
            self._leaf(value)

    def _condition(self, cond: Expr) -> None:
        known = getattr(cond, "ty", None)
        problem = condition_problem(known, self._analyzer) if known is not None else None
        if problem is not None:
            self._report(R0308, problem, cond)

    def _call(self, value: Call, in_dataflow: bool, is_pure: bool) -> None:
        if value.ty is None:
            self._report(R0102, f"the call {value} has no type", value)
        if is_impure_call(value, self.mod) and (in_dataflow or is_pure):
            code = R0304 if in_dataflow else R0305
            self._report(code, f"impure call {value}", value)
        if isinstance(value.op, GlobalVar) and value.op not in self.mod:
            self._report(R0301, f"function {value.op.name_hint!r} is not in the module", value)
        for part in (value.op, *value.args):
            self._leaf(part)
        if value.ty is None or any(getattr(arg, "ty", None) is None for arg in operands_of(value)):
            return
        problem = loop_call_problem(value, self.mod)
        if problem is not None:
            self._report(R0201, problem, value)
            return
        for claim in loop_call_claims(value, self.mod):
            self._check_claim(claim, value)

    def _leaf(self, expr: Expr) -> None:
        if isinstance(expr, Tuple):
            for item in expr.fields:
                self._leaf(item)
        elif isinstance(expr, Var):
            if expr not in self._vars:
                self._report(R0301, f"variable {expr.name_hint!r} is not defined here", expr)
        elif isinstance(expr, (ShapeExpr, PrimExpr)):
            self._check_dims(expr)
        elif not isinstance(expr, _LEAVES) and not _is_null(expr):
            self._report(R0303, f"{type(expr).__name__} must be bound to a variable first", expr)

    def _check_dims(self, expr: Expr) -> None:
        for var in free_vars(expr):
            if var not in self._dims:
                self._report(R0306, f"symbolic dimension {var.name!r} is not defined here", expr)


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name == "relax.null_value"


def well_formed(mod: IRModule | Function) -> bool:
    """Whether a module or function obeys the rules of the dialect."""
    if isinstance(mod, Function):
        return not verify_graph_function(mod, IRModule())
    graphs = [func for func in mod.functions.values() if func.dialect == "relax"]
    return not any(verify_graph_function(func, mod) for func in graphs)
