"""Making types the same: incomplete ones take the other side, dimensions that are not known stay unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.graph.types import TensorType
from heddle.ir.node import children, map_children, replace
from heddle.ir.structural import structural_equal
from heddle.ir.type_data import GlobalTypeVar, TypeCall
from heddle.ir.types import FuncType, TupleType, Type, TypeVar
from heddle.ir.visitor import rebuild, walk_distinct
from heddle.prim.nodes import IntImm
from heddle.prim.nodes import Var as PrimVar
from heddle.relay.nodes import AnyDim, IncompleteType, RefType
from heddle.support.frozen import frozen


@frozen(slots=False)
class Mismatch(Exception):
    """Two types that cannot be made the same, and where inside them it shows."""

    lhs: Any
    rhs: Any
    reason: str
    is_infinite: bool = False


class Unifier:
    """What incomplete types stand for. `bound(var)` is called when one comes to stand for a type."""

    def __init__(self, bound: Callable[[IncompleteType], None] | None = None) -> None:
        self._types: dict[IncompleteType, Type] = {}
        self._bound = bound

    def _last(self, var: IncompleteType) -> IncompleteType:
        """The incomplete type that stands for this one and all made the same."""
        path = []
        while isinstance(following := self._types.get(var), IncompleteType):
            path.append(var)
            var = following
        for item in path:
            self._types[item] = var
        return var

    def root(self, ty: Type) -> Type:
        """What an incomplete type stands for, an incomplete one where nothing is known; any other type as it
        is."""
        if not isinstance(ty, IncompleteType):
            return ty
        last = self._last(ty)
        return self._types.get(last, last)

    def resolve(self, ty: Type, made: dict[int, Any] | None = None) -> Type:
        """The type with all that is known filled in; the same object where nothing is. What became of its
        parts stays in `made`, for types of which nothing new will be known."""
        if isinstance(ty, TensorType):
            return ty
        made = {} if made is None else made
        todo: list[tuple[Any, bool]] = [(ty, False)]
        while todo:
            node, is_ready = todo.pop()
            if id(node) in made:
                continue
            root = self.root(node)
            if is_ready:
                made[id(node)] = (
                    map_children(node, lambda child: made[id(child)]) if root is node else made[id(root)]
                )
            else:
                todo.append((node, True))
                todo += [(child, False) for child in (children(node) if root is node else [root])]
        return made[id(ty)]  # type: ignore[no-any-return]

    def unify(self, lhs: Type, rhs: Type) -> Type:
        """The type that both are now. Raises: Mismatch."""
        a, b = self.root(lhs), self.root(rhs)
        if a is b:
            return a
        if isinstance(a, IncompleteType):
            return self._bind(a, b)
        if isinstance(b, IncompleteType):
            return self._bind(b, a)
        made = self._unify(a, b)
        for var in (lhs, rhs):  # an unknown dimension may have come in
            if isinstance(var, IncompleteType):
                self._rebind(self._last(var), made)
        return made

    def _bind(self, var: IncompleteType, ty: Type) -> Type:
        if not isinstance(ty, (IncompleteType, TensorType)) and self._contains(ty, var):
            raise Mismatch(var, self.resolve(ty), "the type would contain itself", True)
        self._types[var] = ty
        if self._bound is not None:
            self._bound(var)
        return ty

    def _contains(self, ty: Type, var: IncompleteType) -> bool:
        todo, seen = [ty], set[int]()
        while todo:
            node = self.root(todo.pop())
            if node is var:
                return True
            if id(node) not in seen and not isinstance(node, TensorType):
                seen.add(id(node))
                todo += children(node)  # type: ignore[arg-type]
        return False

    def _rebind(self, var: IncompleteType, made: Type) -> None:
        known = self._types[var]
        if known is not made and not structural_equal(known, made):
            self._types[var] = made
            if self._bound is not None:
                self._bound(var)

    def _unify(self, a: Type, b: Type) -> Type:
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            return self._tensors(a, b)
        if isinstance(a, TupleType) and isinstance(b, TupleType):
            if len(a.fields) != len(b.fields):
                raise Mismatch(a, b, f"a tuple of {len(a.fields)} against one of {len(b.fields)}")
            fields = self._all(a.fields, b.fields)
            return a if _same(fields, a.fields) else TupleType(fields)
        if isinstance(a, FuncType) and isinstance(b, FuncType):
            return self._functions(a, b)
        if isinstance(a, RefType) and isinstance(b, RefType):
            value = self.unify(a.value, b.value)
            return a if value is a.value else RefType(value)
        if isinstance(a, TypeCall) and isinstance(b, TypeCall):
            func = self.unify(a.func, b.func)
            if len(a.args) != len(b.args):
                raise Mismatch(a, b, f"{len(a.args)} arguments against {len(b.args)}")
            args = self._all(a.args, b.args)
            return a if _same(args, a.args) else TypeCall(func, args)
        if isinstance(a, GlobalTypeVar) and a == b:
            return a
        if not isinstance(a, TypeVar) and type(a) is type(b) and structural_equal(a, b):
            return a
        raise Mismatch(a, b, "different kinds of types" if type(a) is not type(b) else "different types")

    def _all(self, a: tuple[Type, ...], b: tuple[Type, ...]) -> tuple[Type, ...]:
        return tuple(self.unify(x, y) for x, y in zip(a, b, strict=True))

    def _tensors(self, a: TensorType, b: TensorType) -> Type:
        if a.dtype != b.dtype:
            raise Mismatch(a, b, f"element types {a.dtype} and {b.dtype} do not match")
        if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
            raise Mismatch(a, b, f"{a.ndim} dimensions against {b.ndim}")
        dims = tuple(self._dim(a, b, x, y) for x, y in zip(a.dims, b.dims, strict=True))
        return a if _same(dims, a.dims) else TensorType(dims, a.dtype)

    @staticmethod
    def _dim(a: Type, b: Type, x: Any, y: Any) -> Any:
        if isinstance(x, AnyDim) or isinstance(y, AnyDim):
            return x if isinstance(x, AnyDim) else y
        if isinstance(x, PrimVar) and isinstance(y, IntImm):
            return y
        if (isinstance(y, PrimVar) and isinstance(x, IntImm)) or x is y or structural_equal(x, y):
            return x
        raise Mismatch(a, b, f"dimensions {x} and {y} differ")

    def _functions(self, a: FuncType, b: FuncType) -> Type:
        if len(a.arg_types) != len(b.arg_types):
            raise Mismatch(
                a, b, f"a function of {len(a.arg_types)} arguments against one of {len(b.arg_types)}"
            )
        if len(a.type_constraints) != len(b.type_constraints):
            raise Mismatch(a, b, "functions with different constraints")
        generic, plain = (a, b) if len(a.type_params) >= len(b.type_params) else (b, a)
        if generic.type_params:
            if structural_equal(a, b):
                return a
            others: tuple[Type, ...] = plain.type_params
            fresh = (*others, *(IncompleteType() for _ in generic.type_params[len(others) :]))
            params, ret, _ = instantiate(generic, fresh)
            generic = FuncType(params, ret, True, plain.type_params, generic.type_constraints)
        params = self._all(generic.arg_types, plain.arg_types)
        ret = self.unify(generic.ret, plain.ret)
        if _same(params, a.arg_types) and ret is a.ret:
            return a
        return FuncType(params, ret, True, plain.type_params, plain.type_constraints)


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return all(x is y for x, y in zip(a, b, strict=True))


def instantiate(ty: FuncType, args: tuple[Type, ...] = ()) -> tuple[tuple[Type, ...], Type, tuple[Type, ...]]:
    """Parameters, result and type arguments of a generic function, those that are not given incomplete."""
    if not ty.type_params:
        return ty.arg_types, ty.ret, ()
    given = (*args, *(IncompleteType() for _ in ty.type_params[len(args) :]))
    mapping = dict(zip(ty.type_params, given, strict=True))
    params = tuple(replace_type_vars(param, mapping) for param in ty.arg_types)
    return params, replace_type_vars(ty.ret, mapping), given


def types_of_instance(generic: FuncType, wanted: Type) -> tuple[Type, ...]:
    """The types that make a generic function one of the type `wanted`, which inference found to fit."""
    params, ret, given = instantiate(generic)
    unifier = Unifier()
    unifier.unify(FuncType(params, ret), wanted)
    return tuple(unifier.resolve(item) for item in given)


def replace_type_vars(ty: Type, mapping: dict[Any, Type]) -> Type:
    """A type with variables replaced, but for those that a generic function in it binds: one that is used in
    itself has the variables that are replaced."""
    if not mapping or isinstance(ty, TensorType):
        return ty
    if any(
        isinstance(node, FuncType) and mapping.keys() & set(node.type_params) for node in walk_distinct(ty)
    ):
        ty = with_own_variables(ty)
    return rebuild(ty, lambda old, new: mapping.get(old, new) if isinstance(old, TypeVar) else new)  # type: ignore[no-any-return]


def is_generic(ty: Any) -> bool:
    """Whether it is the type of a function with type parameters."""
    return isinstance(ty, FuncType) and bool(ty.type_params)


def is_complete(ty: Type) -> bool:
    """Whether nothing in a type is still to be found."""
    return isinstance(ty, TensorType) or not any(
        isinstance(node, IncompleteType) for node in walk_distinct(ty)
    )


def with_own_variables(ty: Type) -> Type:
    """A type whose generic functions have variables of their own: an annotation stands for itself, as in
    text."""
    params = [item for node in walk_distinct(ty) if isinstance(node, FuncType) for item in node.type_params]
    if not params:
        return ty
    fresh = {item: replace(item) for item in params}
    return rebuild(ty, lambda old, new: fresh.get(old, old) if isinstance(old, TypeVar) else new)  # type: ignore[no-any-return]
