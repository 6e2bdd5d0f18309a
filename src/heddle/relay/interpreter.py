"""The Relay interpreter: programs run on numpy arrays, operators by the references of their records.

It is the oracle of passes and machines. Calls lie in a list, not on Python's stack: recursion goes as deep
as the limit `call_depth`, and a call in the last place takes no room. A shared expression is computed once,
where the text of the program has it (`relay.sharing`).

Values are arrays, tuples, `ConstructorValue`, `RefValue` and `Closure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from types import GeneratorType
from typing import Any

import numpy as np

from heddle.graph.infer import type_of
from heddle.graph.nodes import SeqExpr
from heddle.graph.normalize import Normalizer
from heddle.graph.types import ShapeExpr, TensorType
from heddle.graph.values import apply_operator, is_true, shape_value
from heddle.ir.attrs import Attrs
from heddle.ir.dialect import DIALECTS
from heddle.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    Function,
    GlobalVar,
    If,
    Tuple,
    TupleGetItem,
    Var,
    is_relay,
)
from heddle.ir.module import IRModule
from heddle.ir.op import Op
from heddle.ir.op_def import op_def
from heddle.ir.type_data import Constructor
from heddle.ir.types import TupleType, Type
from heddle.ir.variables import free_vars
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import PrimExpr
from heddle.relay.codes import Q0307, Q0401, Q0402, Q0403, Q0404
from heddle.relay.expand import expand, placeholder
from heddle.relay.functor import methods_by_class
from heddle.relay.nodes import (
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
)
from heddle.relay.sharing import Sharing
from heddle.runtime.data import ConstructorValue, RefValue
from heddle.runtime.dtype import DataType, dtype_of
from heddle.support.diagnostics import Code, Trap, TrapValueError
from heddle.support.limits import current_limits
from heddle.support.span import at
from heddle.support.trampoline import Recursion, TooDeepError, run


@dataclass(slots=True, eq=False)
class Closure:
    """A function of a program, with the values of its free variables and of the expressions that it shares
    with what is around it."""

    func: Function
    program: Sharing
    values: dict[Var, Any] = field(default_factory=dict)
    known: dict[int, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Frame:
    """A call in progress: its variables, and what was computed of shared expressions."""

    program: Sharing
    values: dict[Var, Any] = field(default_factory=dict)
    known: dict[int, Any] = field(default_factory=dict)


class RelayInterpreter:
    """Runs the Relay functions of one module."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self._free: dict[int, tuple[Function, tuple[Var, ...]]] = {}
        self._programs: dict[int, tuple[Function, Closure]] = {}
        self._plans: dict[Any, _Plan] = {}
        self._constants: dict[int, tuple[Constant, Any]] = {}

    def call(self, func: Any, args: Sequence[Any]) -> Any:
        """The value of a function, closure or constructor. Raises: TrapValueError Q0402, Trap Q0401,
        Q0403."""
        if isinstance(func, Constructor):
            return self._construct(func, args)
        callee = self._program(func) if isinstance(func, Function) else func
        if not is_relay(callee.func):
            return self._run_graph(callee.func, args)
        return self._run(callee.func.body, self._frame(callee, args, callee.func))

    def evaluate(self, expr: Expr) -> Any:
        """The value of an expression without free variables. Raises: as `call`."""
        program = Sharing(expr)
        return self._run(program.root, _Frame(program))

    def _program(self, func: Function) -> Closure:
        """A function that has nothing around it."""
        known = self._programs.get(id(func))
        if known is None:
            program = Sharing(func)
            known = self._programs[id(func)] = func, Closure(program.root, program)
        return known[1]

    def _run(self, expr: Expr, frame: _Frame) -> Any:
        most = current_limits().call_depth
        try:
            return run(self.eval(expr, frame), most)
        except TooDeepError as error:
            raise Trap(
                Q0403,
                f"call depth exceeded: {most} expressions are being computed inside one another",
                span=expr.span,
                help="a call in the last place takes no room; to raise the limit: "
                "with heddle.config.limits(call_depth=VALUE)",
            ) from error

    # ---- expressions

    def eval(self, expr: Any, frame: _Frame) -> Recursion:
        """The value of an expression. What stands in the last place of a body goes on in the same loop."""
        here = frame
        last: list[int] = []
        """The shared expressions that have the same value: each in the last place of the one before."""
        while True:
            if id(expr) in frame.program.shared:
                if id(expr) in frame.known:
                    value = frame.known[id(expr)]
                    break
                if frame is here:  # of a call in the last place nothing is left to compute
                    last.append(id(expr))
            cls = type(expr)
            if cls is Let:
                if expr.body is expr.var and not isinstance(expr.value, Function):
                    expr = expr.value  # the last place, also in A-normal form
                    continue
                if isinstance(expr.value, Function):
                    made = yield self._function(expr.value, frame)
                    made.values[expr.var] = frame.values[expr.var] = made
                else:
                    frame.values[expr.var] = yield self.eval(expr.value, frame)
                expr = expr.body
            elif cls is If:
                cond = yield self.eval(expr.cond, frame)
                yield self._before(expr, frame)
                expr = expr.true_branch if is_true(cond) else expr.false_branch
            elif cls is Match:
                data = yield self.eval(expr.data, frame)
                yield self._before(expr, frame)
                expr = self._chosen(expr, data, frame)
            elif cls is Call and not isinstance(expr.op, (Op, Constructor)):
                callee = yield self.eval(expr.op, frame)
                args = []
                for arg in expr.args:
                    args.append(frame.values[arg] if arg in frame.values else (yield self.eval(arg, frame)))
                if isinstance(callee, Constructor):
                    value = self._construct(callee, args)
                    break
                if isinstance(callee, Closure) and not is_relay(callee.func):
                    value = self._run_graph(callee.func, args)
                    break
                frame, expr = self._frame(callee, args, expr), callee.func.body
            else:
                value = yield self._value(expr, frame)
                break
        for key in last:
            here.known[key] = value
        return value

    def _before(self, expr: Expr, frame: _Frame) -> Recursion:
        """Compute what the scopes of an expression share with what is around it."""
        for shared in frame.program.before.get(id(expr), ()):
            yield self.eval(shared, frame)

    def _run_graph(self, func: Function, args: Sequence[Any]) -> Any:
        """What a function of another dialect gives; it may call closures of this one."""
        given = [partial(self._called, arg) if isinstance(arg, Closure) else arg for arg in args]
        return DIALECTS[func.dialect].run(func, self.mod, given)

    def _called(self, callee: Closure, *args: Any) -> Any:
        return self.call(callee, args)

    def _value(self, expr: Any, frame: _Frame) -> Recursion:
        """The value of an expression that calls no function."""
        method = _VALUES.get(type(expr))
        if method is None:
            raise self._fault(Q0404, f"{type(expr).__name__} has no value", expr)
        found = method(self, expr, frame)
        return (yield found) if isinstance(found, GeneratorType) else found

    def _var(self, expr: Var, frame: _Frame) -> Any:
        if expr not in frame.values:
            raise self._fault(Q0307, f"variable %{expr.name_hint} is not bound", expr)
        return frame.values[expr]

    def _global_var(self, expr: GlobalVar, _frame: _Frame) -> Any:
        func = self.mod.get(expr)
        if not isinstance(func, Function):
            raise self._fault(Q0307, f"the module has no Relay function @{expr.name_hint}", expr)
        return self._program(func)

    def _constant(self, expr: Constant, _frame: _Frame) -> Any:
        known = self._constants.get(id(expr))
        if known is None:
            known = expr, np.asarray(expr.data.numpy(), expr.data.dtype.numpy())
            self._constants[id(expr)] = known
        return known[1]

    def _constructor(self, expr: Constructor, _frame: _Frame) -> Any:
        return expr

    def _function(self, expr: Function, frame: _Frame) -> Recursion:
        yield self._before(expr, frame)
        free = self._free.get(id(expr))
        if free is None:
            free = self._free[id(expr)] = expr, free_vars(expr)
        values = {var: frame.values[var] for var in free[1] if var in frame.values}
        known = {key: frame.known[key] for key in frame.program.captured.get(id(expr), ())}
        return Closure(expr, frame.program, values, known)

    def _tuple(self, expr: Tuple, frame: _Frame) -> Recursion:
        items = []
        for item in expr.fields:
            items.append((yield self.eval(item, frame)))
        return tuple(items)

    def _tuple_getitem(self, expr: TupleGetItem, frame: _Frame) -> Recursion:
        return (yield self.eval(expr.tuple_value, frame))[expr.index]

    def _ref_create(self, expr: RefCreate, frame: _Frame) -> Recursion:
        return RefValue((yield self.eval(expr.value, frame)))

    def _ref_read(self, expr: RefRead, frame: _Frame) -> Recursion:
        return (yield self.eval(expr.ref, frame)).value

    def _ref_write(self, expr: RefWrite, frame: _Frame) -> Recursion:
        ref = yield self.eval(expr.ref, frame)
        ref.value = yield self.eval(expr.value, frame)
        return ()

    def _call(self, expr: Call, frame: _Frame) -> Recursion:
        args = []
        for arg in expr.args:
            args.append(frame.values[arg] if arg in frame.values else (yield self.eval(arg, frame)))
        if isinstance(expr.op, Constructor):
            return self._construct(expr.op, args)
        return self.operator(expr, args)

    # ---- functions

    def _frame(self, callee: Any, args: Sequence[Any], node: Any) -> _Frame:
        if not isinstance(callee, Closure):
            raise self._fault(Q0404, f"a value of kind {type(callee).__name__} is called", node)
        params = callee.func.params
        if len(params) != len(args):
            raise TrapValueError(
                Q0402, f"the function takes {len(params)} arguments, got {len(args)}", span=node.span
            )
        values = dict(callee.values)
        values.update(zip(params, args, strict=True))
        return _Frame(callee.program, values, dict(callee.known))

    def _construct(self, constructor: Constructor, args: Sequence[Any]) -> ConstructorValue:
        return ConstructorValue(constructor.tag, tuple(args), constructor)

    # ---- matching

    def _chosen(self, expr: Match, value: Any, frame: _Frame) -> Expr:
        """The right side of the first clause that fits; its variables are bound."""
        for clause in expr.clauses:
            bound: dict[Var, Any] = {}
            if _fits(clause.lhs, value, bound):
                frame.values.update(bound)
                return clause.rhs
        raise self._fault(Q0401, "no clause of the match fits the value", expr)

    # ---- operators

    def operator(self, call: Call, args: Sequence[Any]) -> Any:
        """The value of an operator's call, by the references of the records that it stands for."""
        assert isinstance(call.op, Op)
        key = call.op.name, id(call.attrs), tuple(_signature(arg) for arg in args)
        plan = self._plans.get(key)
        with at(call.span):
            if plan is None:
                plan = self._plans[key] = _Plan(call.op.name, call.attrs, args)
            return plan.run(args)

    @staticmethod
    def _fault(code: Code, message: str, node: Any) -> Trap:
        return Trap(code, message, span=node.span, help=_HELP.get(code.name))


_HELP = {
    "Q0401": "match? leaves cases out: add clauses for them",
    "Q0307": "relay.analysis.free_vars tells the variables that are not bound",
}


def _fits(pattern: Pattern, value: Any, bound: dict[Var, Any]) -> bool:
    if isinstance(pattern, PatternVar):
        bound[pattern.var] = value
        return True
    if isinstance(pattern, PatternConstructor):
        if not isinstance(value, ConstructorValue) or value.tag != pattern.constructor.tag:
            return False
        return all(
            _fits(item, part, bound) for item, part in zip(pattern.patterns, value.fields, strict=False)
        )
    if isinstance(pattern, PatternTuple):
        return all(_fits(item, part, bound) for item, part in zip(pattern.patterns, value, strict=False))
    return True


def _signature(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_signature(item) for item in value)
    return (value.shape, value.dtype) if isinstance(value, np.ndarray) else type(value)


def _type_of_value(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(_type_of_value(item) for item in value))
    if not isinstance(value, np.ndarray):
        raise TrapValueError(Q0404, f"an operator got a {type(value).__name__}: expected tensors")
    return TensorType(value.shape, dtype_of(value))


class _Plan:
    """The operators that a call is, in order, for arguments of certain shapes and element types."""

    def __init__(self, name: str, attrs: Attrs, args: Sequence[Any]) -> None:
        self.attrs = attrs  # which the key has by its identity
        self._params = [placeholder(_type_of_value(arg)) for arg in args]
        normalizer = Normalizer()
        with normalizer.scope():
            expr = expand(name, self._params, attrs)
            self._body: SeqExpr = normalizer.sequence(expr)
        type_of(self._body.body)

    def run(self, args: Sequence[Any]) -> Any:
        values: dict[Var, Any] = {}
        for param, arg in zip(self._params, args, strict=True):
            _bind(param, arg, values)
        for binding in self._body.bindings():
            values[binding.var] = self._value(binding.value, values)
        return self._value(self._body.body, values)

    def _value(self, expr: Any, values: dict[Var, Any]) -> Any:
        if isinstance(expr, Var):
            return values[expr]
        if isinstance(expr, Constant):
            return np.asarray(expr.data.numpy(), expr.data.dtype.numpy())
        if isinstance(expr, Tuple):
            return tuple(self._value(item, values) for item in expr.fields)
        if isinstance(expr, TupleGetItem):
            return self._value(expr.tuple_value, values)[expr.index]
        if isinstance(expr, ShapeExpr):
            return shape_value(expr.values, {})
        if isinstance(expr, PrimExpr):
            return evaluate(expr, {})
        if isinstance(expr, DataTypeImm):
            return DataType(expr.value)
        assert isinstance(expr, Call)
        record = op_def(expr.op)
        assert record is not None
        return apply_operator(record, expr.attrs, [self._value(arg, values) for arg in expr.args])


def _bind(param: Expr, arg: Any, values: dict[Var, Any]) -> None:
    if isinstance(param, Tuple):
        for item, part in zip(param.fields, arg, strict=True):
            _bind(item, part, values)
    elif isinstance(param, Var):
        values[param] = arg


_VALUES = methods_by_class(RelayInterpreter)
