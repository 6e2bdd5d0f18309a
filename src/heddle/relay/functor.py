"""Visitors of Relay expressions and types, with TVM's method names: `visit_call`, `visit_let`, ...

Each node is visited once, however often it is used. A mutator makes anew what changed; a node in which
nothing changed stays the same object.
"""

from __future__ import annotations

from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from heddle.ir.node import Node, children, map_children, replace
from heddle.ir.op import Op
from heddle.ir.type_data import Constructor, GlobalTypeVar, TypeCall, TypeData
from heddle.ir.types import FuncType, TupleType, TypeVar
from heddle.relay.builders import without_type
from heddle.relay.codes import Q0404
from heddle.relay.nodes import (
    Clause,
    IncompleteType,
    Let,
    Match,
    Pattern,
    PatternVar,
    RefCreate,
    RefRead,
    RefType,
    RefWrite,
    TypeRelation,
)
from heddle.relay.placement import parts
from heddle.support.diagnostics import IRTypeError

_NAMES: dict[type, str] = {
    Function: "function",
    Call: "call",
    Let: "let",
    Var: "var",
    GlobalVar: "global_var",
    If: "if",
    Tuple: "tuple",
    TupleGetItem: "tuple_getitem",
    Constant: "constant",
    RefCreate: "ref_create",
    RefRead: "ref_read",
    RefWrite: "ref_write",
    Constructor: "constructor",
    Match: "match",
    Op: "op",
}
_METHODS = {cls: f"visit_{name}" for cls, name in _NAMES.items()}
_TYPE_METHODS: dict[type, str] = {
    TypeVar: "visit_type_var",
    IncompleteType: "visit_incomplete_type",
    TensorType: "visit_tensor_type",
    FuncType: "visit_func_type",
    TupleType: "visit_tuple_type",
    TypeRelation: "visit_type_relation",
    RefType: "visit_ref_type",
    GlobalTypeVar: "visit_global_type_var",
    TypeCall: "visit_type_call",
    TypeData: "visit_type_data",
}


def methods_by_class(owner: type) -> dict[type, Any]:
    """The methods of a class for the classes of expressions: `_call` for calls, `_let` for lets, ..."""
    found = {cls: getattr(owner, f"_{name}", None) for cls, name in _NAMES.items()}
    return {cls: method for cls, method in found.items() if method is not None}


class ExprFunctor:
    """Calls the method of a node's class, once for each node; `memo_map` has the results."""

    def __init__(self) -> None:
        self.memo_map: dict[Any, Any] = {}
        self._kept: dict[int, Any] = {}

    def visit(self, expr: Any) -> Any:
        """The result for a node. Raises: IRTypeError Q0404 for one that is no expression."""
        if id(expr) in self._kept:
            return self._kept[id(expr)][1]
        self._visit_below(expr)
        method = _METHODS.get(type(expr))
        if method is None:
            raise IRTypeError(Q0404, f"{type(expr).__name__} is no expression of Relay", span=expr.span)
        found = getattr(self, method)(expr)
        self._kept[id(expr)] = expr, found
        self.memo_map[expr if isinstance(expr, (Var, GlobalVar, Op, Constructor)) else id(expr)] = found
        return found

    def _visit_below(self, expr: Any) -> None:
        """Visit operands first where the visitor has no method of its own for what lies between: deep
        programs then need no deep stack."""
        todo = [expr]
        order = []
        while todo:
            node = todo.pop()
            name = _METHODS.get(type(node), "")
            if id(node) in self._kept or not self._is_plain(name):
                continue
            order.append(node)
            todo += [child for child, number in parts(node) if number is None]
        for node in reversed(order[1:]):
            if id(node) not in self._kept:
                self._kept[id(node)] = node, getattr(self, _METHODS[type(node)])(node)

    def _is_plain(self, name: str) -> bool:
        """Whether a method does the same for a node wherever it is reached from."""
        own = getattr(type(self), name, None)
        return name in _PLAIN and own in (getattr(ExprVisitor, name, None), getattr(ExprMutator, name, None))

    def visit_type(self, typ: Any) -> Any:
        return typ

    def _no_method(self, expr: Any) -> Any:
        """What a method does that no subclass has. Raises: NotImplementedError with its name."""
        name = _METHODS[type(expr)]
        raise NotImplementedError(f"{type(self).__name__} has no method {name}")

    visit_function = visit_call = visit_let = visit_var = visit_global_var = visit_if = _no_method
    visit_tuple = visit_tuple_getitem = visit_constant = visit_constructor = visit_match = _no_method
    visit_op = visit_ref_create = visit_ref_read = visit_ref_write = _no_method


_PLAIN = ("visit_call", "visit_tuple", "visit_tuple_getitem", "visit_ref_create", "visit_ref_read")


class ExprVisitor(ExprFunctor):
    """Visits every expression for its effect."""

    def _parts(self, expr: Any) -> None:
        for child, _ in parts(expr):
            self.visit(child)

    def visit_leaf(self, expr: Any) -> None:
        """Nothing lies below."""

    visit_var = visit_global_var = visit_constant = visit_constructor = visit_op = visit_leaf

    def visit_call(self, call: Call) -> None:
        self._parts(call)

    def visit_tuple(self, tup: Tuple) -> None:
        self._parts(tup)

    def visit_tuple_getitem(self, t: TupleGetItem) -> None:
        self._parts(t)

    def visit_if(self, i: If) -> None:
        self._parts(i)

    def visit_ref_create(self, r: RefCreate) -> None:
        self._parts(r)

    def visit_ref_read(self, r: RefRead) -> None:
        self._parts(r)

    def visit_ref_write(self, r: RefWrite) -> None:
        self._parts(r)

    def visit_match(self, m: Match) -> None:
        self._parts(m)

    def visit_function(self, fn: Function) -> None:
        for param in fn.params:
            self.visit(param)
        self.visit(fn.body)

    def visit_let(self, let: Let) -> None:
        """A chain of lets in a loop, so that it may be long."""
        current: Any = let
        while isinstance(current, Let):
            self.visit(current.var)
            self.visit(current.value)
            current = current.body
            if type(self).visit_let is not ExprVisitor.visit_let:
                break
        self.visit(current)


class ExprMutator(ExprFunctor):
    """Makes expressions anew; the methods give the node to stand in a node's place."""

    def _made(self, expr: Any) -> Any:
        made = map_children(expr, self._child)
        return made if made is expr else without_type(made)

    def _child(self, child: Node) -> Any:
        if isinstance(child, Clause):
            return map_children(child, self._child)
        if isinstance(child, Pattern):
            return self.visit_pattern(child)
        return self.visit(child) if isinstance(child, Expr) and type(child) in _METHODS else child

    def visit_pattern(self, pattern: Pattern) -> Pattern:
        """A pattern with its variables visited."""
        if isinstance(pattern, PatternVar):
            var = self.visit(pattern.var)
            return pattern if var is pattern.var else PatternVar(var, span=pattern.span)
        return map_children(
            pattern, lambda child: self._child(child) if isinstance(child, Pattern) else child
        )

    def visit_leaf(self, expr: Any) -> Any:
        return expr

    visit_var = visit_global_var = visit_constant = visit_constructor = visit_op = visit_leaf
    visit_global_id = visit_leaf

    def visit_call(self, call: Call) -> Any:
        return self._made(call)

    def visit_tuple(self, tup: Tuple) -> Any:
        return self._made(tup)

    def visit_tuple_getitem(self, op: TupleGetItem) -> Any:
        return self._made(op)

    def visit_if(self, ite: If) -> Any:
        return self._made(ite)

    def visit_ref_create(self, r: RefCreate) -> Any:
        return self._made(r)

    def visit_ref_read(self, r: RefRead) -> Any:
        return self._made(r)

    def visit_ref_write(self, r: RefWrite) -> Any:
        return self._made(r)

    def visit_match(self, m: Match) -> Any:
        return self._made(m)

    def visit_function(self, fn: Function) -> Any:
        params = tuple(self.visit(param) for param in fn.params)
        body = self.visit(fn.body)
        if body is fn.body and all(a is b for a, b in zip(params, fn.params, strict=True)):
            return fn
        return replace(fn, params=params, body=body, ty=None)

    def visit_let(self, let: Let) -> Any:
        """A chain of lets in a loop, so that it may be long."""
        chain: list[tuple[Let, Any, Any]] = []
        current: Any = let
        while isinstance(current, Let):
            chain.append((current, self.visit(current.var), self.visit(current.value)))
            current = current.body
            if type(self).visit_let is not ExprMutator.visit_let:
                break
        body = self.visit(current)
        for old, var, value in reversed(chain):
            same = var is old.var and value is old.value and body is old.body
            body = old if same else Let(var, value, body, span=old.span)
        return body


class TypeFunctor:
    """Calls the method of a type's class."""

    def visit(self, typ: Any) -> Any:
        """The result for a type. Raises: IRTypeError Q0404 for what is no type of Relay."""
        method = _TYPE_METHODS.get(type(typ))
        if method is None:
            raise IRTypeError(Q0404, f"{type(typ).__name__} is no type of Relay")
        return getattr(self, method)(typ)


class TypeVisitor(TypeFunctor):
    """Visits every type inside a type for its effect."""

    def _below(self, typ: Any) -> None:
        for child in children(typ):
            if type(child) in _TYPE_METHODS:
                self.visit(child)

    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_func_type = visit_tuple_type = _below
    visit_type_relation = visit_ref_type = visit_global_type_var = visit_type_call = visit_type_data = _below


class TypeMutator(TypeFunctor):
    """Makes types anew."""

    def _made(self, typ: Any) -> Any:
        return map_children(typ, lambda child: self.visit(child) if type(child) in _TYPE_METHODS else child)

    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_func_type = visit_tuple_type = _made
    visit_type_relation = visit_ref_type = visit_global_type_var = visit_type_call = visit_type_data = _made
