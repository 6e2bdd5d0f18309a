"""Gradients of whole programs: control flow, closures, recursion, data types and references.

Every float goes with a cell for its gradient, and every function gives, beside its result, a function that
sends what has come to the cells of the result on to those of the arguments (see `dual_types`):

    fn (%x: float32) { let %y = tanh(%x); %y }

becomes

    fn (%x: (float32, ref(float32))) {
      let %v = tanh(%x.0);
      let %y = (%v, ref(zeros_like(%v)));
      let %back = fn () {
        let %g = ref_read(%y.1);
        ref_write(%x.1, ref_read(%x.1) + %g * (1f - %v * %v)); ()
      };
      (%y, %back)
    }

Cells hold tensors, so that machines, which refuse references that may lead to themselves, take the result.
"""

from __future__ import annotations

from typing import Any

from heddle.graph.gradient import Cotangent, flows_to, is_differentiable
from heddle.ir.expr import Call, Constant, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import map_children, replace
from heddle.ir.op import Op
from heddle.ir.type_data import Constructor
from heddle.ir.types import TupleType
from heddle.ir.visitor import rebuild
from heddle.relay.builders import without_type
from heddle.relay.codes import Q0501
from heddle.relay.nodes import Let, Match, RefCreate, RefRead, RefWrite
from heddle.relay.op import relay_call
from heddle.relay.transform.copying import Lines, branched, lets
from heddle.relay.transform.derived_functions import DerivedFunctions
from heddle.relay.transform.dual_types import BACK, DualTypes
from heddle.relay.transform.first_order_gradient import call_back
from heddle.relay.transform.to_a_normal_form import PRIMITIVE
from heddle.support.diagnostics import UsageError
from heddle.support.trampoline import Recursion, run


def higher_order(func: Function, mod: IRModule) -> Function:
    """The gradient of a typed function in A-normal form; what it needs goes into `mod`. Raises: UsageError
    Q0501."""
    types = DualTypes(mod)
    maker = _Maker(types)
    dual = run(maker.function(func))
    maker.finish()
    lines: Lines = []

    def bound(hint: str, value: Any) -> Var:
        lines.append((Var(hint), value))
        return lines[-1][0]

    params = tuple(map(replace, func.params))
    lifted = [bound(param.name_hint, types.lifted(param.ty, param)) for param in params]
    result = bound("result", Call(bound("dual", dual), tuple(lifted)))
    found = TupleGetItem(result, 0)
    bound("done", types.seeded(func.ret_ty, found))
    bound("done", Call(TupleGetItem(result, 1), ()))
    grads = Tuple(tuple(types.gradient(p.ty, v) for p, v in zip(params, lifted, strict=True)))
    body: Any = Tuple((types.value(func.ret_ty, found), grads))
    return Function(params, lets(lines, body), None, dialect="relay", span=func.span)


class _Scope:
    """A body or branch in the making: its lets, and what goes back, in the order of the way forth."""

    def __init__(self) -> None:
        self.lines: Lines = []
        self.backs: list[list[tuple[Var, Any]]] = []

    def bind(self, var: Var, value: Any) -> Var:
        self.lines.append((var, value))
        return var

    def finished(self, result: Any) -> Any:
        steps: Any = Tuple(())
        for lines in self.backs:
            steps = lets(lines, steps)
        back = self.bind(Var("back"), Function((), steps, BACK.ret, dialect="relay"))
        return lets(self.lines, Tuple((result, back)))


class _Maker:
    """Makes the functions that also go back."""

    def __init__(self, types: DualTypes) -> None:
        self._types = types
        self._derived = DerivedFunctions(types.mod, types.names, "gradient", Q0501)
        self._duals: dict[Var, Any] = {}
        self._values: dict[Var, Any] = {}
        """The tensors without gradients that are known of variables of the program."""

    def finish(self) -> None:
        """Make the functions of the module that are called."""
        self._derived.finish(lambda func: run(self.function(func)))

    # ---- functions and scopes

    def function(self, func: Function) -> Recursion:
        if func.attrs.get(PRIMITIVE):
            raise UsageError(Q0501, "the function is fused", span=func.span, help="run DefuseOps first")
        params = {param: replace(param, ty=self._types.visit(param.ty)) for param in func.params}
        self._duals |= params
        body = yield self._scope(func.body)
        result = TupleType((self._types.visit(func.ret_ty), BACK))
        return Function(tuple(params.values()), body, result, type_params=func.type_params, dialect="relay")

    def _scope(self, expr: Any) -> Recursion:
        scope = _Scope()
        while isinstance(expr, Let):
            yield self._let(scope, expr)
            expr = expr.body
        return scope.finished(self._dual(expr))

    def _let(self, scope: _Scope, let: Let) -> Recursion:
        var, value = let.var, let.value
        dual = self._bound(var)
        if isinstance(value, Call) and isinstance(value.op, Op):
            self._operator(scope, dual, var, value)
        elif isinstance(value, Function):
            scope.bind(dual, (yield self.function(value)))
        elif isinstance(value, Call) and not isinstance(value.op, Constructor):
            args = tuple(map(self._dual, value.args))
            self._both(scope, dual, Call(self._dual(value.op), args, span=value.span))
        elif isinstance(value, (If, Match)):
            subject = self._value(value.cond) if isinstance(value, If) else self._dual(value.data)
            self._both(scope, dual, (yield branched(value, subject, self._scope, self._pattern)))
        else:
            scope.bind(dual, self._plain(value))

    def _both(self, scope: _Scope, dual: Var, call: Any) -> None:
        """A value that comes with its way back."""
        pair = scope.bind(Var("pair"), call)
        scope.bind(dual, TupleGetItem(pair, 0))
        scope.backs.append([(Var("done"), Call(TupleGetItem(pair, 1), ()))])

    def _plain(self, value: Any) -> Any:
        """A value made of others, which keep their cells."""
        if isinstance(value, Call):
            maker: Any = value.op
            return Call(self._types.constructor(maker), tuple(map(self._dual, value.args)), span=value.span)
        if isinstance(value, (Tuple, TupleGetItem, RefCreate, RefRead, RefWrite)):
            return map_children(without_type(value), self._dual)
        return self._dual(value)

    def _bound(self, var: Var) -> Var:
        made = self._duals[var] = replace(var, ty=None)
        return made

    def _pattern(self, pattern: Any) -> Any:
        def change(old: Any, new: Any) -> Any:
            if isinstance(old, Constructor):
                return self._types.constructor(old)
            return self._bound(old) if isinstance(old, Var) else new

        return rebuild(pattern, change)

    # ---- atoms

    def _dual(self, atom: Any) -> Any:
        """An atom with its cells."""
        if isinstance(atom, Var):
            return self._duals[atom]
        if isinstance(atom, Constant):
            return self._types.lifted(atom.ty, atom)
        if isinstance(atom, (GlobalVar, Constructor)):
            return self._derived.of(atom)
        raise UsageError(Q0501, f"a gradient has no {type(atom).__name__}", span=atom.span)

    def _value(self, atom: Any) -> Any:
        """An atom of tensors without its cells."""
        if not isinstance(atom, Var):
            return atom
        known = self._values.get(atom)
        return self._types.value(atom.ty, self._duals[atom]) if known is None else known

    # ---- operators

    def _operator(self, scope: _Scope, dual: Var, var: Var, call: Call) -> None:
        args = tuple(map(self._value, call.args))
        value = scope.bind(Var("value"), Call(call.op, args, call.attrs, span=call.span))
        self._values[var] = value
        scope.bind(dual, self._types.lifted(call.ty, value))
        if not flows_to(call.ty):
            return
        lines: Lines = []
        grad = _read(lines, call.ty, dual)
        for arg, part in zip(call.args, call_back(call, args, value, grad), strict=True):
            if isinstance(arg, Var):
                _send(lines, arg.ty, self._duals[arg], part)
        if len(lines) > 1:
            scope.backs.append(lines)


def _read(lines: Lines, ty: Any, dual: Any) -> Cotangent:
    """What has come to the cells of a value."""
    if isinstance(ty, TupleType):
        return tuple(_read(lines, item, TupleGetItem(dual, k)) for k, item in enumerate(ty.fields))
    if not is_differentiable(ty):
        return None
    lines.append((Var("grad"), RefRead(TupleGetItem(dual, 1))))
    return lines[-1][0]


def _send(lines: Lines, ty: Any, dual: Any, grad: Cotangent) -> None:
    """Add what comes to the cells of a value."""
    if grad is None:
        return
    if isinstance(ty, TupleType):
        for k, (item, part) in enumerate(zip(ty.fields, grad, strict=True)):
            _send(lines, item, TupleGetItem(dual, k), part)
    elif is_differentiable(ty):
        cell = TupleGetItem(dual, 1)
        lines.append((Var("done"), RefWrite(cell, relay_call("add", (RefRead(cell), grad), {}))))
