"""The graph interpreter: runs functions on numpy arrays with the reference implementations of operators.

It is the (slow, simple) oracle of graph passes. Loop functions in the module run on the loop interpreter,
so that a program can be executed at every stage of its way down to call_tir.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heddle.graph.codes import R0601, R0602, R0603
from heddle.graph.nodes import MatchCast, SeqExpr
from heddle.graph.types import ShapeExpr, TensorType
from heddle.graph.values import (
    Dims,
    apply_operator,
    as_value,
    call_with_outputs,
    is_true,
    match_value,
    shape_value,
)
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
from heddle.ir.op_def import op_def
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import PrimExpr
from heddle.runtime.dtype import DataType
from heddle.runtime.function import get_global_func
from heddle.support.diagnostics import Trap, TrapValueError, VerifyError
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc


class GraphInterpreter:
    """Runs functions of one module on the values of `graph.values`.

    `run_loops(func, *arrays and scalars)` runs a loop function, which writes its results in place.
    """

    def __init__(self, mod: IRModule, run_loops: Callable[..., Any] = run_primfunc) -> None:
        self.mod, self.run_loops = mod, run_loops

    def __getitem__(self, name: str) -> Callable[..., Any]:
        func = self.mod[name]
        return lambda *args: self.call(func, [as_value(arg) for arg in args])

    def call(self, func: Function | PrimFunc, args: Sequence[Any]) -> Any:
        """Raises: TrapValueError R0601 where arguments do not fit the parameters; Trap R0603."""
        if isinstance(func, PrimFunc):
            return self.run_loops(func, *args)
        try:
            return _Frame(self, {}, {}).function(func, args)
        except RecursionError as error:
            raise Trap(
                R0603, "call depth exceeded: functions call each other too deeply", span=func.span
            ) from error


class _Frame:
    """The variables of one call."""

    def __init__(self, machine: GraphInterpreter, values: dict[Var, Any], dims: Dims) -> None:
        self.machine, self.values, self.dims = machine, values, dims

    def function(self, func: Function, args: Sequence[Any]) -> Any:
        if len(args) != len(func.params):
            raise TrapValueError(
                R0601, f"expected {len(func.params)} arguments, got {len(args)}", span=func.span
            )
        for param, arg in zip(func.params, args, strict=True):
            match_value(arg, param.ty, f"parameter {param.name_hint}", self.dims)
            self.values[param] = arg
        return self.eval(func.body)

    def eval(self, expr: Expr) -> Any:
        return _EVAL[type(expr)](self, expr) if type(expr) in _EVAL else self._scalar(expr)

    def _scalar(self, expr: Expr) -> Any:
        if isinstance(expr, PrimExpr):
            return evaluate(expr, self.dims)
        raise VerifyError(R0602, f"{type(expr).__name__} cannot be interpreted", span=expr.span)

    def _sequence(self, expr: SeqExpr) -> Any:
        for binding in expr.bindings():
            value = self.eval(binding.value)
            if isinstance(binding, MatchCast):
                match_value(value, binding.ty, "match_cast", self.dims)
            self.values[binding.var] = value
        return self.eval(expr.body)

    def _if(self, expr: If) -> Any:
        return self.eval(expr.true_branch if is_true(self.eval(expr.cond)) else expr.false_branch)

    def _closure(self, expr: Function) -> Any:
        """Captured variables are looked up when the closure is called, so that it may refer to itself."""
        return lambda *args: _Frame(self.machine, dict(self.values), dict(self.dims)).function(expr, args)

    def _global(self, expr: GlobalVar) -> Any:
        return lambda *args: self.machine.call(self.machine.mod[expr], args)

    def _call(self, expr: Call) -> Any:
        record = op_def(expr.op)
        if record is None:
            callee = self.eval(expr.op)
            return as_value(callee(*(self.eval(arg) for arg in expr.args)))
        if record.name in ("call_tir", "call_dps_packed", "call_tir_inplace"):
            return self._call_loops(expr)
        if record.name == "call_pure_packed":
            return as_value(self.eval(expr.args[0])(*(self.eval(arg) for arg in expr.args[1:])))
        if record.name == "make_closure":
            return self._bound(*(self.eval(arg) for arg in expr.args))
        if record.name in ("invoke_closure", "invoke_pure_closure"):
            return as_value(self.eval(expr.args[0])(*self.eval(expr.args[1])))
        values = [self.eval(arg) for arg in expr.args]
        if record.name == "reshape" and isinstance(expr.ty, TensorType) and expr.ty.dims is not None:
            values[1] = shape_value(expr.ty.dims, self.dims)  # a free size that is 0 is no sign for another
        return apply_operator(record, expr.attrs, values, expr.span)

    @staticmethod
    def _bound(function: Callable[..., Any], last: tuple[Any, ...]) -> Callable[..., Any]:
        """A function with its last parameters bound."""
        return lambda *args: function(*args, *last)

    def _call_loops(self, expr: Call) -> Any:
        callee = expr.args[0]
        if isinstance(callee, GlobalVar):
            func = self.machine.mod[callee]
            run: Callable[..., Any] = lambda *args: self.machine.run_loops(func, *args)  # noqa: E731
        else:
            run = self.eval(callee)
        assert expr.ty is not None
        return call_with_outputs(
            run,
            expr.ty,
            self.eval(expr.args[1]),
            self.dims,
            places=expr.attrs.get("inplace_indices") or (),
            scalars=self.eval(expr.args[2]) if len(expr.args) > 2 else (),
        )


_EVAL: dict[type, Callable[[_Frame, Any], Any]] = {
    SeqExpr: _Frame._sequence,
    If: _Frame._if,
    Function: _Frame._closure,
    GlobalVar: _Frame._global,
    Call: _Frame._call,
    Var: lambda frame, expr: frame.values[expr],
    Constant: lambda frame, expr: np.asarray(expr.data.numpy(), expr.data.dtype.numpy()),
    Tuple: lambda frame, expr: tuple(frame.eval(item) for item in expr.fields),
    TupleGetItem: lambda frame, expr: frame.eval(expr.tuple_value)[expr.index],
    ShapeExpr: lambda frame, expr: shape_value(expr.values, frame.dims),
    StringImm: lambda _frame, expr: expr.value,
    DataTypeImm: lambda _frame, expr: DataType(expr.value),
    ExternFunc: lambda _frame, expr: get_global_func(expr.global_symbol),
}
