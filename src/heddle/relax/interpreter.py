"""The graph interpreter: functions run on numpy arrays, operators by their references.

It is the oracle of graph passes, slow and plain. Loop functions in the module run on the loop interpreter,
so that a
program can be executed at every stage of its way down to call_tir.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

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
from heddle.ir.op_def import Without, op_def
from heddle.ir.types import PrimType, TupleType, Type
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.relax.codes import R0601, R0602, R0603
from heddle.relax.nodes import MatchCast, SeqExpr
from heddle.relax.types import ShapeExpr, ShapeType, TensorType
from heddle.runtime.dtype import DataType
from heddle.runtime.function import get_global_func
from heddle.support.diagnostics import HeddleError, Trap, TrapValueError, VerifyError
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc


class GraphInterpreter:
    """Runs functions of one module. Values: numpy arrays, tuples, shapes (tuples of ints), Python scalars,
    closures.

    `run_loops(func, *arrays and scalars)` runs a loop function, which writes its results in place.
    """

    def __init__(self, mod: IRModule, run_loops: Callable[..., Any] = run_primfunc) -> None:
        self.mod, self.run_loops = mod, run_loops

    def __getitem__(self, name: str) -> Callable[..., Any]:
        func = self.mod[name]
        return lambda *args: self.call(func, [_as_value(arg) for arg in args])

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

    def __init__(self, machine: GraphInterpreter, values: dict[Var, Any], dims: dict[PrimVar, int]) -> None:
        self.machine, self.values, self.dims = machine, values, dims

    def function(self, func: Function, args: Sequence[Any]) -> Any:
        if len(args) != len(func.params):
            raise TrapValueError(
                R0601, f"expected {len(func.params)} arguments, got {len(args)}", span=func.span
            )
        for param, arg in zip(func.params, args, strict=True):
            self.match(arg, param.ty, f"parameter {param.name_hint}")
            self.values[param] = arg
        return self.eval(func.body)

    # ---- symbolic dimensions

    def match(self, value: Any, ty: Type | None, where: str) -> None:
        """Check a value against a type, binding the dimensions that are new."""
        if isinstance(ty, TupleType):
            for item, part in zip(value, ty.fields, strict=True):
                self.match(item, part, where)
        elif isinstance(ty, TensorType):
            self._match_tensor(value, ty, where)
        elif isinstance(ty, PrimType) and ty.value is not None:
            self._match_dims((value,), (ty.value,), where)
        elif isinstance(ty, ShapeType) and ty.values is not None:
            self._match_dims(tuple(value), ty.values, where)

    def _match_tensor(self, value: Any, ty: TensorType, where: str) -> None:
        if ty.dtype is not None and value.dtype != ty.dtype.numpy():  # 4-bit integers take a byte each
            raise TrapValueError(R0601, f"{where}: expected dtype {ty.dtype}, got {value.dtype}")
        if ty.ndim >= 0 and value.ndim != ty.ndim:
            raise TrapValueError(R0601, f"{where}: expected {ty.ndim} dimensions, got {value.ndim}")
        if ty.dims is not None:
            self._match_dims(value.shape, ty.dims, where)

    def _match_dims(self, sizes: tuple[int, ...], dims: tuple[PrimExpr, ...], where: str) -> None:
        for dim, size in zip(dims, sizes, strict=True):
            if isinstance(dim, PrimVar):
                self.dims.setdefault(dim, size)
        for axis, (dim, size) in enumerate(zip(dims, sizes, strict=True)):
            expected = evaluate(dim, self.dims)
            if expected != size:
                raise TrapValueError(R0601, f"{where}: dimension {axis} expected {expected}, got {size}")

    # ---- expressions

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
                self.match(value, binding.ty, "match_cast")
            self.values[binding.var] = value
        return self.eval(expr.body)

    def _if(self, expr: If) -> Any:
        return self.eval(
            expr.true_branch if bool(np.asarray(self.eval(expr.cond)).all()) else expr.false_branch
        )

    def _closure(self, expr: Function) -> Any:
        """Captured variables are looked up when the closure is called, so that it may refer to itself."""
        return lambda *args: _Frame(self.machine, dict(self.values), dict(self.dims)).function(expr, args)

    def _global(self, expr: GlobalVar) -> Any:
        return lambda *args: self.machine.call(self.machine.mod[expr], args)

    def _call(self, expr: Call) -> Any:
        record = op_def(expr.op)
        if record is None:
            callee = self.eval(expr.op)
            return _as_value(callee(*(self.eval(arg) for arg in expr.args)))
        if record.name in ("call_tir", "call_dps_packed", "call_tir_inplace"):
            return self._call_loops(expr)
        if record.name == "call_pure_packed":
            return _as_value(self.eval(expr.args[0])(*(self.eval(arg) for arg in expr.args[1:])))
        if record.name == "make_closure":
            return self._bound(*(self.eval(arg) for arg in expr.args))
        if record.name in ("invoke_closure", "invoke_pure_closure"):
            return _as_value(self.eval(expr.args[0])(*self.eval(expr.args[1])))
        if isinstance(record.reference, Without):
            raise VerifyError(
                R0602, f"operator {record.name} has no reference: {record.reference.reason}", span=expr.span
            )
        values = [self.eval(arg) for arg in expr.args]
        try:
            return _as_value(record.reference(expr.attrs, *values))
        except HeddleError:
            raise
        except ValueError as error:  # numpy's, and the references' own: sizes that do not fit
            raise TrapValueError(R0601, f"{record.name}: {error}", span=expr.span) from error

    @staticmethod
    def _bound(function: Callable[..., Any], last: tuple[Any, ...]) -> Callable[..., Any]:
        """A function with its last parameters bound."""
        return lambda *args: function(*args, *last)

    def _call_loops(self, expr: Call) -> Any:
        """Allocate outputs that are no arguments, run the loop function, give the outputs."""
        ty = expr.ty
        types = ty.fields if isinstance(ty, TupleType) else (ty,)
        given = tuple(_dense(item) for item in self.eval(expr.args[1]))
        places = tuple(expr.attrs.get("inplace_indices") or (-1,) * len(types))
        outputs = [
            self._empty(t) if place < 0 else given[place] for t, place in zip(types, places, strict=True)
        ]
        fresh = [out for out, place in zip(outputs, places, strict=True) if place < 0]
        scalars = self.eval(expr.args[2]) if len(expr.args) > 2 else ()
        args = [*given, *fresh, *scalars]
        callee = expr.args[0]
        if isinstance(callee, GlobalVar):
            self.machine.run_loops(self.machine.mod[callee], *args)
        else:
            self.eval(callee)(*args)
        return tuple(outputs) if isinstance(ty, TupleType) else outputs[0]

    def _empty(self, ty: Any) -> Any:
        assert isinstance(ty, TensorType) and ty.dims is not None and ty.dtype is not None
        shape = tuple(int(evaluate(dim, self.dims)) for dim in ty.dims)
        return np.zeros(shape, ty.dtype.numpy())


def _dense(value: Any) -> Any:
    """An array as loop functions take it; references of operators may give views."""
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value


def _as_value(value: Any) -> Any:
    """Results of any kind as the interpreter's values: arrays are numpy arrays."""
    if isinstance(value, (tuple, list)):
        return tuple(_as_value(item) for item in value)
    if hasattr(value, "numpy") and not isinstance(value, np.ndarray):
        return value.numpy()
    return np.asarray(value) if isinstance(value, np.generic) else value


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
    ShapeExpr: lambda frame, expr: tuple(int(evaluate(dim, frame.dims)) for dim in expr.values),
    StringImm: lambda _frame, expr: expr.value,
    DataTypeImm: lambda _frame, expr: DataType(expr.value),
    ExternFunc: lambda _frame, expr: get_global_func(expr.global_symbol),
}
