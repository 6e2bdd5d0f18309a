"""Values with their gradients: what the types of a program become where gradients are computed.

A float tensor becomes `(tensor, ref(gradient))`. A function gives its result with a function that sends the
gradients of the result on to the arguments: `fn (T) -> U` becomes `fn (T') -> (U', fn () -> ())`. A data type
becomes one of such values. All else stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.graph.gradient import is_differentiable
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Function, GlobalVar, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.type_data import Constructor, GlobalTypeVar, TypeCall, TypeData
from heddle.ir.types import FuncType, TupleType
from heddle.relay.builders import replace_vars
from heddle.relay.codes import Q0501
from heddle.relay.functor import TypeMutator
from heddle.relay.nodes import (
    Clause,
    Let,
    Match,
    PatternConstructor,
    PatternVar,
    RefCreate,
    RefRead,
    RefType,
    RefWrite,
)
from heddle.relay.op import relay_call
from heddle.relay.text_values import type_text
from heddle.relay.transform.recursion import types_within
from heddle.support.diagnostics import UsageError
from heddle.support.names import NameSupply

UNIT = TupleType(())
BACK = FuncType((), UNIT)
"""The type of what sends gradients back."""


def sequence(steps: list[Any], result: Any) -> Any:
    """Expressions for their effects, then a result."""
    for step in reversed(steps):
        result = Let(Var("done"), step, result)
    return result


class DualTypes(TypeMutator):
    """The types of one module's gradients. New data types and functions go into the module."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.names = mod.names()
        self._type_names = NameSupply(header.name_hint for header in mod.type_definitions)
        self._headers: dict[GlobalTypeVar, GlobalTypeVar] = {}
        self._functions: dict[tuple[str, str], GlobalVar] = {}

    # ---- types

    def visit_tensor_type(self, typ: Any) -> Any:
        return TupleType((typ, RefType(typ))) if is_differentiable(typ) else typ

    def visit_func_type(self, typ: Any) -> FuncType:
        params = tuple(map(self.visit, typ.arg_types))
        return FuncType(params, TupleType((self.visit(typ.ret), BACK)), True, typ.type_params)

    def visit_global_type_var(self, typ: GlobalTypeVar) -> GlobalTypeVar:
        """The data type of values with gradients; the same where only variables for types change."""
        if typ not in self._headers:
            definition = self.mod.type_definition(typ)
            if not any(map(_is_changed, types_within(self.mod, typ))):
                self._headers[typ] = typ
                return typ
            made = self._headers[typ] = GlobalTypeVar(self._type_names.fresh(f"{typ.name_hint}_dual"))
            constructors = tuple(
                Constructor(f"{item.name_hint}_dual", tuple(map(self.visit, item.inputs)), made)
                for item in definition.constructors
            )
            self.mod[made] = TypeData(made, definition.type_vars, constructors)
        return self._headers[typ]

    def constructor(self, given: Constructor) -> Constructor:
        """The constructor of values with gradients."""
        header = self.visit(given.belong_to)
        names = [item.name_hint for item in self.mod.type_definition(given.belong_to).constructors]
        return self.mod.type_definition(header).constructors[names.index(given.name_hint)]

    # ---- values

    def lifted(self, ty: Any, expr: Any) -> Any:
        """A value with zeros as its gradient."""
        return self._over("lift", ty, expr)

    def value(self, ty: Any, expr: Any) -> Any:
        """A value without its gradient."""
        return self._over("value", ty, expr)

    def gradient(self, ty: Any, expr: Any) -> Any:
        """The gradient of a value, of the type of the value."""
        return self._over("gradient", ty, expr)

    def seeded(self, ty: Any, expr: Any) -> Any:
        """Set the gradients of a value to ones."""
        return self._over("seed", ty, expr)

    def _over(self, kind: str, ty: Any, expr: Any) -> Any:
        if isinstance(ty, TensorType):
            return _LEAVES[kind](ty, expr)
        if isinstance(ty, TupleType):
            parts = [self._over(kind, item, TupleGetItem(expr, k)) for k, item in enumerate(ty.fields)]
            return sequence(parts, Tuple(())) if kind == "seed" else Tuple(tuple(parts))
        if isinstance(ty, (GlobalTypeVar, TypeCall)):
            return Call(self._function(kind, ty), (expr,))
        raise UsageError(Q0501, f"a value of type {type_text(ty)} has no gradient")

    def _function(self, kind: str, ty: Any) -> GlobalVar:
        """The function that does it for a data type."""
        key = kind, type_text(ty)
        known = self._functions.get(key)
        if known is None:
            header: Any = ty.func if isinstance(ty, TypeCall) else ty
            known = self._functions[key] = GlobalVar(self.names.fresh(f"{kind}_{header.name_hint}"))
            self.mod[known] = self._body(kind, ty, header)
        return known

    def _body(self, kind: str, ty: Any, header: GlobalTypeVar) -> Function:
        definition, dual = self.mod.type_definition(header), self.visit(ty)
        types = dict(zip(definition.type_vars, getattr(ty, "args", ()), strict=True))
        given, wanted = (ty, dual) if kind == "lift" else (dual, UNIT if kind == "seed" else ty)
        clauses = []
        for own in definition.constructors:
            pair = (own, self.constructor(own))
            source, target = pair if kind == "lift" else (pair[1], pair[0])
            fields = [replace_vars(item, types) for item in own.inputs]
            parts = [Var("x", dialect="relay") for _ in fields]
            made = [self._over(kind, item, var) for item, var in zip(fields, parts, strict=True)]
            result = sequence(made, Tuple(())) if kind == "seed" else Call(target, tuple(made))
            pattern = PatternConstructor(source, tuple(map(PatternVar, parts)))
            clauses.append(Clause(pattern, result))
        param = Var("x", given, dialect="relay")
        return Function((param,), Match(param, tuple(clauses)), wanted, dialect="relay")


def _is_changed(ty: Any) -> bool:
    """Whether a type by itself becomes another one."""
    return isinstance(ty, FuncType) or (isinstance(ty, TensorType) and is_differentiable(ty))


def _lift(ty: TensorType, expr: Any) -> Any:
    if not is_differentiable(ty):
        return expr
    return Tuple((expr, RefCreate(relay_call("zeros_like", (expr,), {}))))


def _value(ty: TensorType, expr: Any) -> Any:
    return TupleGetItem(expr, 0) if is_differentiable(ty) else expr


def _gradient(ty: TensorType, expr: Any) -> Any:
    if not is_differentiable(ty):
        return relay_call("zeros_like", (expr,), {})
    return RefRead(TupleGetItem(expr, 1))


def _seed(ty: TensorType, expr: Any) -> Any:
    if not is_differentiable(ty):
        return Tuple(())
    return RefWrite(TupleGetItem(expr, 1), relay_call("ones_like", (TupleGetItem(expr, 0),), {}))


_LEAVES: dict[str, Callable[[TensorType, Any], Any]] = {
    "lift": _lift,
    "value": _value,
    "gradient": _gradient,
    "seed": _seed,
}
