"""Functions that hand their results on: `relay.transform.to_cps` and `un_cps`."""

from __future__ import annotations

from typing import Any

from heddle.ir.attrs import NO_ATTRS
from heddle.ir.expr import Call, Function, GlobalVar, If, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.type_data import Constructor, GlobalTypeVar
from heddle.ir.types import FuncType, TypeVar
from heddle.ir.visitor import rebuild
from heddle.relay.codes import Q0503
from heddle.relay.functor import TypeMutator
from heddle.relay.nodes import Let, Match
from heddle.relay.transform.copying import Lines, branched, lets, map_parts
from heddle.relay.transform.derived_functions import DerivedFunctions
from heddle.relay.transform.effects import is_known
from heddle.relay.transform.recursion import types_within
from heddle.relay.transform.to_a_normal_form import ToANormalFormExpr, is_atomic
from heddle.relay.typed import infer_expr
from heddle.support.diagnostics import UsageError
from heddle.support.trampoline import Recursion, run


def ToCPS(expr: Any, mod: IRModule | None = None) -> Function:
    """As `to_cps`."""
    return to_cps(expr, mod)


def to_cps(func: Any, mod: IRModule | None = None) -> Function:
    """A function that gives its result to a function, its last parameter.

        fn (%x: float32) -> float32 { @f(%x) * 2f }

    becomes

        fn [answer](%x: float32, %k: fn(float32) -> answer) -> answer {
          let %then = fn (%y: float32) { let %z = %y * 2f; %k(%z) };
          @f_cps(%x, %then)
        }

    Functions inside, and those in types, take one more parameter as well. Functions of `mod` that are used
    get such a one beside them there. Operators and kernels are called as before.

    Raises: UsageError Q0503 for what is no function, and for data types with functions in their definition;
    IRTypeError Q0307 for variables that are not bound.
    """
    module = mod if mod is not None else IRModule()
    typed = infer_expr(module[func] if isinstance(func, GlobalVar) else func, module)
    if not isinstance(typed, Function):
        raise UsageError(Q0503, f"expected a function, got {type(func).__name__}", span=func.span)
    derived = DerivedFunctions(module, module.names(), "cps", Q0503)

    def make(func: Function) -> Function:
        answer = TypeVar("answer")
        made: Function = run(_Body(derived, _Types(answer, module)).function(func))
        attrs = func.attrs.without("global_symbol")
        return replace(made, type_params=(*func.type_params, answer), attrs=attrs)

    top = make(infer_expr(ToANormalFormExpr(typed), module, is_closed=True))
    derived.finish(make)
    found: Function = infer_expr(top, module)
    return found


def un_cps(func: Any) -> Function:
    """The function that `to_cps` made, with its result as its result: it is given the identity. What its
    parameters are stays.

        fn [answer](%x: float32, %k: fn(float32) -> answer) -> answer { ... }

    becomes

        fn (%x: float32) -> float32 {
          let %cps = fn [answer](%x: float32, %k: fn(float32) -> answer) -> answer { ... };
          %cps(%x, fn (%y: float32) { %y })
        }

    Raises: UsageError Q0503 for another function.
    """
    last: Any = func.params[-1].ty if isinstance(func, Function) and func.params else None
    is_fit = isinstance(last, FuncType) and func.type_params and last.ret is func.type_params[-1]
    if not is_fit or len(last.params or ()) != 1:
        raise UsageError(Q0503, "expected a function that `to_cps` made", span=func.span)
    result, name = last.params[0], Var("cps", dialect="relay")
    inner = replace(func, type_params=func.type_params[-1:], attrs=NO_ATTRS, ty=None)
    given = Var("y", result, dialect="relay")
    params = tuple(replace(param) for param in func.params[:-1])
    call = Call(name, (*params, Function((given,), given, result, dialect="relay")))
    body = Let(name, inner, call)
    return Function(
        params, body, result, attrs=func.attrs, type_params=func.type_params[:-1], dialect="relay"
    )


class _Types(TypeMutator):
    """Types of functions that hand on to an answer. Raises: UsageError Q0503."""

    def __init__(self, answer: TypeVar, mod: IRModule) -> None:
        self._answer, self._mod = answer, mod

    def visit_func_type(self, typ: Any) -> FuncType:
        params = tuple(map(self.visit, typ.params))
        return FuncType((*params, self.then(typ.ret)), self._answer, True, typ.type_params)

    def then(self, result: Any) -> FuncType:
        """The type of what a result is given to."""
        return FuncType((self.visit(result),), self._answer, True)

    def visit_global_type_var(self, typ: GlobalTypeVar) -> GlobalTypeVar:
        if any(isinstance(node, FuncType) for node in types_within(self._mod, typ)):
            raise UsageError(Q0503, f"data type {typ.name_hint} is defined with functions")
        return typ


class _Body:
    """One function of the module, in A-normal form and typed."""

    def __init__(self, derived: DerivedFunctions, types: _Types) -> None:
        self._derived, self._types = derived, types
        self._vars: dict[Var, Any] = {}
        """What stands for the variables of the program."""

    def function(self, func: Any) -> Recursion:
        params = tuple(map(self._bound, func.params))
        then = Var("k", self._types.then(func.ret_ty), dialect="relay")
        body = yield self._scope(func.body, then)
        ret = self._types.visit_func_type(FuncType((), func.ret_ty, True)).ret
        return Function(
            (*params, then), body, ret, type_params=func.type_params, dialect="relay", span=func.span
        )

    def _bound(self, var: Var) -> Var:
        made = self._vars[var] = replace(var, ty=self._types.visit(var.ty))
        return made

    def _pattern(self, pattern: Any) -> Any:
        return rebuild(pattern, lambda old, new: self._bound(old) if isinstance(old, Var) else new)

    def _scope(self, expr: Any, then: Var) -> Recursion:
        lines: Lines = []
        while isinstance(expr, Let) and not _hands_on(expr.value):
            if is_atomic(expr.value):
                self._vars[expr.var] = self._atom(expr.value)
            else:
                var, is_func = self._bound(expr.var), isinstance(expr.value, Function)
                lines.append((var, (yield self.function(expr.value)) if is_func else self._plain(expr.value)))
            expr = expr.body
        if isinstance(expr, Let):
            to = then
            if expr.body is not expr.var:
                to = Var("then", self._types.then(expr.var.ty), dialect="relay")
                param = self._bound(expr.var)
                rest = yield self._scope(expr.body, then)
                lines.append((to, Function((param,), rest, to.ty.ret, dialect="relay")))  # type: ignore[union-attr]
            found = yield self._handing_on(expr.value, to)
        else:
            found = Call(then, (self._atom(expr),))
        return lets(lines, found)

    def _handing_on(self, value: Any, to: Var) -> Recursion:
        """A value that comes out of a call, a branch or a clause."""
        if isinstance(value, Call):
            args = (*map(self._atom, value.args), to)
            return Call(self._atom(value.op), args, span=value.span)
        subject = self._atom(value.cond if isinstance(value, If) else value.data)
        return (yield branched(value, subject, lambda body: self._scope(body, to), self._pattern))

    def _plain(self, value: Any) -> Any:
        """A value made of others at once."""
        if isinstance(value, Call):
            return Call(value.op, tuple(map(self._atom, value.args)), value.attrs, span=value.span)
        return map_parts(value, self._atom)

    def _atom(self, atom: Any) -> Any:
        if isinstance(atom, Var):
            return self._vars[atom]
        return self._derived.of(atom) if isinstance(atom, (GlobalVar, Constructor)) else atom


def _hands_on(value: Any) -> bool:
    """Whether a value comes out of a function, a branch or a clause."""
    return isinstance(value, (If, Match)) or (isinstance(value, Call) and not is_known(value.op))
