"""Data types, matches and references of Relay in the shared normal form.

    match (%l) {                                  c = R.has_tag(l, Cons)
      Cons(%x, Cons(_, %r)) => a(%x, %r),         if c:
      _ => b,                                         r = R.get_field(l, 1); c1 = R.has_tag(r, Cons)
    }                                       →     else: c1 = False
                                                  if c1:
                                                      x = R.get_field(l, 0); ...; lv = a(x, ...)
                                                  else: lv = b

Clauses are tried in order, the parts of a pattern from left to right. What a clause tests is computed first,
so that its right side and the clauses after it stand in the program once. A value of a data type, and a
reference, has the type of any value; what is read from one has the type that Relay knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.graph.infer import infer, type_of
from heddle.graph.nodes import SeqExpr, VarBinding
from heddle.graph.types import TensorType, VDevice
from heddle.ir.attrs import NO_ATTRS
from heddle.ir.expr import Call, Expr, Function, GlobalVar, If, StringImm, Tuple, TupleGetItem, Var
from heddle.ir.module import IRModule
from heddle.ir.node import children, replace
from heddle.ir.op import Op
from heddle.ir.type_data import Constructor, GlobalTypeVar, TypeCall
from heddle.ir.types import AnyType, FuncType, PrimType, TupleType, Type
from heddle.ir.visitor import tree_size
from heddle.lower.codes import L0304, L0305
from heddle.lower.relay_devices import DeviceLowering, leaf_on, located
from heddle.lower.relay_types import INTERPRET, TypeMap, normal_type
from heddle.prim.nodes import constant
from heddle.relay.nodes import (
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefType,
    RefWrite,
)
from heddle.relay.text_values import type_text
from heddle.relay.unify import replace_type_vars
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError
from heddle.support.span import at
from heddle.support.trampoline import Recursion

NO_CLAUSE = "no clause of the match fits the value"
MOST_BRANCHES = 60
"""How many branches may be nested: what works on the normal form uses Python's stack for them."""
MOST_TYPES = 1000
"""How many types what a reference holds may lead to."""
MOST_PARTS = 1000
"""How large each of them may be."""


class DataLowering(DeviceLowering):
    """The part of a maker of functions that knows data types. The rest is `relay_to_relax`'s."""

    mod: IRModule
    definitions: IRModule
    """What defines the data types."""
    values: dict[Var, Any]
    is_pure: bool
    nesting: int
    """How many branches there are around what is made."""
    _data_device: VDevice | None = None
    """Where the value is that is being matched."""

    def type(self, ty: Any, node: Any) -> Type:
        """A type of Relay without variables for types."""
        raise NotImplementedError

    def operand(self, expr: Any, wanted: Type | None = None) -> Recursion:
        """The leaf for an atom."""
        raise NotImplementedError

    def inline(self, expr: Any, wanted: Type) -> Recursion:
        """The leaf that a body or branch gives, which is to have a type of Relay; its lets are bound here."""
        raise NotImplementedError

    def cast(self, leaf: Expr, wanted: Type, node: Any, hint: str) -> Expr:
        """A leaf whose type says as much as Relay's does."""
        raise NotImplementedError

    def enter_branch(self, node: Any) -> None:
        """Raises: UsageError L0305 where branches are nested more deeply than passes can follow."""
        self.nesting += 1
        if self.nesting > MOST_BRANCHES:
            raise UsageError(
                L0305,
                f"over {MOST_BRANCHES} branches are nested inside one another",
                span=node.span,
                help="put some of them into a function",
            )

    # ---- values

    def data(self, call: Call) -> Recursion:
        """A constructor's call."""
        constructor: Any = call.op
        types = self._fields(constructor, self.type(call.ty, call))
        args = []
        for arg, ty in zip(call.args, types, strict=True):
            args.append((yield self.operand(arg, ty)))
        return _made(constructor, tuple(self.arguments_on(args, call)))

    def constructor_function(self, constructor: Constructor) -> Function:
        """A constructor as a function of any values."""
        params = tuple(Var(f"field{place}", AnyType()) for place in range(len(constructor.inputs)))
        with self.scope() as scope:
            result = self.bind(self.value(_made(constructor, params)), "made")
            scope.close_block()
        body = SeqExpr(tuple(scope.blocks), result, AnyType())
        made = Function(params, body, AnyType(), self.is_pure, NO_ATTRS, span=constructor.span)
        return replace(made, ty=infer(made))

    def _fields(self, constructor: Constructor, ty: Type) -> Sequence[Type]:
        return field_types(self.definitions, constructor, ty)

    # ---- references

    def reference(self, expr: Any) -> Recursion:
        """A reference that is made, read or written, as an expression of the normal form."""
        if isinstance(expr, RefCreate):
            refuse_cycle(self.definitions, self.type(expr.ty, expr), expr)
            held = yield self.operand(expr.value, self.type(expr.ty, expr).value)  # type: ignore[attr-defined]
            return _call("make_ref", (leaf_on(held, self.device(expr)),), expr)
        ref = yield self.operand(expr.ref)
        if isinstance(expr, RefRead):
            stated = normal_type(self.type(expr.ty, expr), expr, is_pure=self.is_pure)
            return _call("read_ref", (ref,), expr, located(stated, self.device(expr)))
        value = yield self.operand(expr.value, self.type(expr.ref.ty, expr).value)  # type: ignore[attr-defined]
        value, nothing = leaf_on(value, self.device(expr)), TupleType(())
        with at(expr.span):
            self.add(VarBinding(Var("_", nothing), self.value(_call("write_ref", (ref, value), expr))))
        return Tuple((), nothing)

    # ---- matches

    def match(self, expr: Match) -> Recursion:
        """What the first clause that fits gives: a leaf, or a branch."""
        data = yield self.operand(expr.data)
        return (yield self._clauses(expr, data, self.type(expr.data.ty, expr), 0))

    def _clauses(self, expr: Match, data: Expr, ty: Type, place: int) -> Recursion:
        clause, self._data_device = expr.clauses[place], self.device(expr.data)
        with at(clause.span or expr.span):
            test = self._test([(clause.lhs, data, ty)])
            if test is None:
                self._bind(clause.lhs, data, ty, expr)
                found = yield self.inline(clause.rhs, self.type(expr.ty, expr))
                return leaf_on(found, self.device(expr))
            self.enter_branch(expr)
            with self.scope() as scope:
                self._bind(clause.lhs, data, ty, expr)
                result = yield self.inline(clause.rhs, self.type(expr.ty, expr))
                result = leaf_on(result, self.device(expr))
                scope.close_block()
            fits = _sequence(scope.blocks, result)
            with self.scope() as scope:
                if place + 1 < len(expr.clauses):
                    other = yield self._clauses(expr, data, ty, place + 1)
                else:
                    other = _call("fatal", (StringImm(NO_CLAUSE),), expr, type_of(fits))
                result = self.leaf(other) if not isinstance(other, If) else self.bind(other, "matched")
                scope.close_block()
            self.nesting -= 1
            made = If(test, fits, _sequence(scope.blocks, result), span=expr.span)
            return replace(made, ty=infer(made))

    def _test(self, todo: list[tuple[Pattern, Expr, Type]]) -> Expr | None:
        """Whether values fit patterns, as a leaf; None where they always do. A part is read only where what
        is around it fits."""
        while todo:
            pattern, value, ty = todo.pop(0)
            if not is_refutable(pattern):
                continue
            if isinstance(pattern, PatternTuple):
                assert isinstance(ty, TupleType)
                items = enumerate(zip(pattern.patterns, ty.fields, strict=True))
                todo[:0] = [
                    (part, self._item(value, place), item_ty)
                    for place, (part, item_ty) in items
                    if is_refutable(part)
                ]
                continue
            assert isinstance(pattern, PatternConstructor)
            tag = constant(pattern.constructor.tag, "int64")
            test = self.bind(self.value(_call("has_tag", (value, tag), pattern)), "fits")
            inner = [item for item in self._parts(pattern, ty) if is_refutable(item[1])]
            if not inner and not any(is_refutable(item[0]) for item in todo):
                return test
            with self.scope() as scope:
                parts = [(part, self._field(value, place, part, item), item) for place, part, item in inner]
                result = self._test([*parts, *todo])
                scope.close_block()
            assert result is not None
            no = SeqExpr((), constant(False, "bool"), type_of(constant(False, "bool")))
            return self.bind(
                If(test, _sequence(scope.blocks, result), no, PrimType(DataType("bool"))), "fits"
            )
        return None

    def _item(self, value: Expr, place: int) -> Expr:
        return value.fields[place] if isinstance(value, Tuple) else self.leaf(TupleGetItem(value, place))

    def _parts(self, pattern: PatternConstructor, ty: Type) -> list[tuple[int, Pattern, Type]]:
        types = self._fields(pattern.constructor, ty)
        return [(n, *pair) for n, pair in enumerate(zip(pattern.patterns, types, strict=True))]

    def _field(self, value: Expr, place: int, pattern: Pattern, ty: Type) -> Expr:
        """A field, of the type that Relay knows."""
        stated = located(normal_type(ty, pattern, is_pure=self.is_pure), self._data_device)
        index = constant(place, "int64")
        hint = pattern.var.name_hint if isinstance(pattern, PatternVar) else "field"
        field = self.bind(self.value(_call("get_field", (value, index), pattern, stated)), hint)
        return self.cast(field, ty, pattern, hint)

    def _bind(self, pattern: Pattern, value: Expr, ty: Type, node: Any) -> None:
        """Bind the variables of a pattern that fits."""
        if isinstance(pattern, PatternVar):
            self.values[pattern.var] = value
        elif isinstance(pattern, PatternTuple):
            assert isinstance(ty, TupleType)
            for place, (part, item) in enumerate(zip(pattern.patterns, ty.fields, strict=True)):
                if binds(part):
                    self._bind(part, self._item(value, place), item, node)
        elif isinstance(pattern, PatternConstructor):
            for place, part, item in self._parts(pattern, ty):
                if binds(part):
                    self._bind(part, self._field(value, place, part, item), item, node)


def _call(name: str, args: tuple[Expr, ...], node: Any, stated: Type | None = None) -> Call:
    return Call(Op.get(f"relax.{name}"), args, NO_ATTRS, () if stated is None else (stated,), span=node.span)


def _made(constructor: Constructor, fields: tuple[Expr, ...]) -> Call:
    made = Tuple(fields)
    return _call(
        "make_data",
        (constant(constructor.tag, "int64"), replace(made, ty=infer(made))),
        constructor,
    )


def _sequence(blocks: Sequence[Any], result: Expr) -> SeqExpr:
    made = SeqExpr(tuple(blocks), result)
    return replace(made, ty=infer(made))


def is_refutable(pattern: Pattern) -> bool:
    """Whether a value may not fit."""
    if isinstance(pattern, PatternTuple):
        return any(map(is_refutable, pattern.patterns))
    return isinstance(pattern, PatternConstructor)


def binds(pattern: Pattern) -> bool:
    """Whether there is a variable in a pattern."""
    if isinstance(pattern, (PatternTuple, PatternConstructor)):
        return any(map(binds, pattern.patterns))
    return isinstance(pattern, PatternVar)


# ---- types


def field_types(mod: IRModule, constructor: Constructor, ty: Type) -> tuple[Type, ...]:
    """The types of the fields that a constructor has in a value of type `ty`."""
    definition = mod.type_definition(constructor.belong_to)
    given = ty.args if isinstance(ty, TypeCall) else ()
    types: TypeMap = dict(zip(definition.type_vars, given, strict=True))
    return tuple(replace_type_vars(item, types) for item in constructor.inputs)


def refuse_cycle(mod: IRModule, ref: Type, node: Any) -> None:
    """Refuse a reference that what it holds may lead back to: values are counted by those who hold them, and
    would keep each other. A function may hold anything.

    Raises: UsageError L0304.
    """
    assert isinstance(ref, RefType)
    seen: set[str] = set()
    todo: list[Type] = _named_in(ref.value)
    if not todo:
        return
    whole = type_text(ref)
    while todo:
        ty = todo.pop()
        is_small = tree_size(ty) <= MOST_PARTS
        name = type_text(ty) if is_small else "ever larger types"
        if name in seen:
            continue
        seen.add(name)
        if isinstance(ty, FuncType) or name == whole or not is_small or len(seen) > MOST_TYPES:
            raise UsageError(
                L0304,
                f"a reference of type {whole} may lead to itself, by {name}",
                span=node.span,
                help=f"a machine would never free it; {INTERPRET}",
            )
        todo += _leads_to(mod, ty)


def _named_in(ty: Type) -> list[Type]:
    """The data types and functions in a type: tuples and references alone lead nowhere."""
    found, todo, seen = [], [ty], set[int]()
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, TupleType):
            todo += part.fields
        elif isinstance(part, RefType):
            todo.append(part.value)
        elif not isinstance(part, TensorType):
            found.append(part)
    return found


def _leads_to(mod: IRModule, ty: Type) -> Sequence[Type]:
    if isinstance(ty, TupleType):
        return ty.fields
    if isinstance(ty, RefType):
        return (ty.value,)
    if not isinstance(ty, (TypeCall, GlobalTypeVar)):
        return ()
    header: Any = ty.func if isinstance(ty, TypeCall) else ty
    definition = mod.type_definition(header)
    return [item for made in definition.constructors for item in field_types(mod, made, ty)]


def has_references(mod: IRModule, roots: Sequence[Function]) -> bool:
    """Whether functions, or what they call, make, read or write references."""
    seen: set[int] = set()
    todo: list[Any] = list(roots)
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (RefCreate, RefRead, RefWrite)):
            return True
        todo += [mod.get(node)] if isinstance(node, GlobalVar) else children(node)
    return False
