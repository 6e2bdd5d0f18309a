"""Gradients of calls of operators: what the rules on the records see, and how an expression of records is
taken backwards.

A rule is a function of a `Step` that gives what each argument contributes to the gradient: an expression, a
tuple of these for a tuple argument, or None where nothing flows back. `Through` is a rule that says what the
operator is in terms of others. A dialect that wants gradients says with `Words` how it writes operators; the
rules are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from heddle.graph.codes import R0210
from heddle.graph.infer import type_of
from heddle.graph.nodes import SeqExpr
from heddle.graph.normalize import Normalizer
from heddle.graph.op_builder import const
from heddle.graph.types import TensorType
from heddle.ir.attrs import Attrs
from heddle.ir.codes import I0403
from heddle.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from heddle.ir.op_def import OpDef, Without, op_def
from heddle.ir.structural import structural_equal
from heddle.ir.types import TupleType, Type
from heddle.prim.nodes import IntImm
from heddle.support.diagnostics import IRTypeError, UsageError
from heddle.support.frozen import frozen

Cotangent = Any
"""What flows back to a value: None, an expression, or a tuple of these for a value of tuple type."""


class Words(Protocol):
    """How a dialect writes what gradients are made of."""

    def call(self, name: str, args: Sequence[Any], attrs: Mapping[str, Any]) -> Expr:
        """A call of the operator that the records know under a name, with the record's attributes."""

    def matmul(self, a: Expr, b: Expr, ranks: tuple[int, int]) -> Expr:
        """The product of matrices, or of stacks of them."""

    def shaped(self, kind: str, x: Expr, like: Expr, like_type: Type) -> Expr:
        """`x` in the shape of `like`: by "reshape", "broadcast" or "sum" (over what was broadcast)."""

    def cut(self, x: Expr, like: Expr, like_type: Type) -> Expr:
        """The first elements of `x` along each axis, as many as `like` has."""

    def split_axis(self, x: Expr, dims: Sequence[Any], axis: int, first: int, second: int) -> Expr:
        """An axis as two; one of the numbers is -1. `dims` are the sizes of `x`, where they are known."""

    def join_axes(self, x: Expr, dims: Sequence[Any], axis: int) -> Expr:
        """An axis and the next as one."""


def known_dims(ty: Type, name: str) -> tuple[Any, ...]:
    """The sizes of a tensor for the gradient of an operator. Raises: IRTypeError R0210 where not even symbols
    stand for them.
    """
    if not isinstance(ty, TensorType) or ty.dims is None:
        _refuse(name, "the shape of an argument is not known")
    return ty.dims


def _refuse(name: str, why: str) -> NoReturn:
    raise IRTypeError(R0210, f"no gradient of {name}: {why}")


Rule = Callable[["Step"], Sequence[Cotangent]]


@frozen
class Through:
    """A rule: the operator is `equivalent(call attributes, *arguments)`, an expression of records."""

    equivalent: Callable[..., Expr]


@frozen
class Step:
    """A call on the way back. `args` and `result` are expressions of the dialect, `types` and `result_type`
    their types as records know them, `grad` what has come for the result."""

    name: str
    attrs: Attrs
    args: tuple[Any, ...]
    types: tuple[Type, ...]
    result: Expr
    result_type: Type
    grad: Cotangent
    words: Words

    def __call__(self, name: str, *args: Any, **attrs: Any) -> Expr:
        return self.words.call(name, args, attrs)

    def number(self, value: Any, dtype: Any = None) -> Constant:
        """A scalar, of the type of the first argument's elements unless `dtype` says otherwise."""
        wanted = self.dtype(0) if dtype is None else dtype
        return const(np.asarray(value), wanted)

    def ty(self, k: int) -> TensorType:
        """The type of an argument that is a tensor."""
        found = self.types[k]
        assert isinstance(found, TensorType)
        return found

    def dtype(self, k: int) -> str:
        """The element type of an argument."""
        return str(self.ty(k).dtype)

    def dims(self, k: int) -> tuple[Any, ...]:
        """The sizes of an argument. Raises: IRTypeError R0210 where not even symbols stand for them."""
        return known_dims(self.types[k], self.name)

    def size(self, k: int, axis: int) -> int:
        """A size that is known. Raises: IRTypeError R0210."""
        found = self.dims(k)[axis]
        if not isinstance(found, IntImm):
            self.refuse(f"its gradient needs the size of axis {axis}, which is free")
        return int(found.value)

    def ndim(self, k: int) -> int:
        """The number of dimensions of an argument."""
        return len(self.dims(k))

    def axis(self, value: Any, k: int = 0) -> int:
        """An axis of an argument, counted from 0."""
        return int(value) % max(self.ndim(k), 1)

    def refuse(self, why: str) -> NoReturn:
        """Raises: IRTypeError R0210."""
        _refuse(self.name, why)

    def fit(self, x: Any, k: int) -> Any:
        """A contribution in the shape of an argument, summed over what was broadcast."""
        if x is None or _same_shape(self.types[k], self.result_type):
            return x
        return self.words.shaped("sum", x, self.args[k], self.types[k])

    def reshaped(self, x: Expr, k: int) -> Expr:
        """The elements of `x` in the shape of an argument."""
        return self.words.shaped("reshape", x, self.args[k], self.types[k])

    def spread(self, x: Expr, k: int) -> Expr:
        """`x` broadcast to the shape of an argument."""
        return self.words.shaped("broadcast", x, self.args[k], self.types[k])

    def zeros(self, k: int) -> Expr:
        """Zeros like an argument."""
        return self("zeros_like", self.args[k])

    def term(self, x: Any) -> Term:
        """An expression for a formula."""
        return Term(self, x)

    def through(self, rule: Through) -> tuple[Cotangent, ...]:
        """What the arguments get of the expression that the operator is."""
        params = tuple(_placeholder(ty) for ty in self.types)
        expr = rule.equivalent(self.attrs, *params)
        return backwards(expr, params, self.args, self.result, self.grad, self.words)


@frozen
class Term:
    """An expression in a formula; numbers are of the element type of the step's first argument."""

    step: Step
    expr: Any

    def op(self, name: str, *args: Any, **attrs: Any) -> Term:
        """An operator of this expression and others."""
        given = (arg.expr if isinstance(arg, Term) else arg for arg in args)
        return Term(self.step, self.step(name, self.expr, *given, **attrs))

    def _value(self, other: Any) -> Any:
        if isinstance(other, Term):
            return other.expr
        return other if isinstance(other, Expr) else self.step.number(other)

    def _with(self, name: str, other: Any, swapped: bool = False) -> Term:
        value = self._value(other)
        pair = (value, self.expr) if swapped else (self.expr, value)
        return Term(self.step, self.step(name, *pair))

    def __add__(self, other: Any) -> Term:
        return self._with("add", other)

    def __radd__(self, other: Any) -> Term:
        return self._with("add", other, True)

    def __sub__(self, other: Any) -> Term:
        return self._with("subtract", other)

    def __rsub__(self, other: Any) -> Term:
        return self._with("subtract", other, True)

    def __mul__(self, other: Any) -> Term:
        return self._with("multiply", other)

    def __rmul__(self, other: Any) -> Term:
        return self._with("multiply", other, True)

    def __truediv__(self, other: Any) -> Term:
        return self._with("divide", other)

    def __rtruediv__(self, other: Any) -> Term:
        return self._with("divide", other, True)

    def __neg__(self) -> Term:
        return self.op("negative")

    def where(self, other: Any, otherwise: Any) -> Term:
        """`other` where this condition holds."""
        pair = self._value(other), self._value(otherwise)
        return Term(self.step, self.step("where", self.expr, *pair))


def scalar(value: float, like: Any) -> Constant:
    """A number of the element type of an expression of records, whose calls have no types yet."""
    while like.ty is None:
        like = like.args[0]
    return const(np.asarray(value), str(like.ty.dtype))


def _same_shape(a: Type, b: Type) -> bool:
    dims = [ty.dims for ty in (a, b) if isinstance(ty, TensorType) and ty.dims is not None]
    return len(dims) == 2 and structural_equal(dims[0], dims[1])


# ---- what flows back


def added(words: Words, a: Cotangent, b: Cotangent) -> Cotangent:
    """The sum of two contributions."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple):
        return tuple(added(words, x, y) for x, y in zip(a, b, strict=True))
    return words.call("add", (a, b), {})


def is_differentiable(ty: Any) -> bool:
    """Whether gradients flow to values of a type: those of floats."""
    return isinstance(ty, TensorType) and ty.dtype is not None and ty.dtype.is_float


def flows_to(ty: Any) -> bool:
    """Whether a gradient flows to a part of a value of the type."""
    return any(map(flows_to, ty.fields)) if isinstance(ty, TupleType) else is_differentiable(ty)


def _kept(ty: Type, given: Cotangent) -> Cotangent:
    """A contribution without what comes to integers."""
    if given is None or not flows_to(ty):
        return None
    if isinstance(given, tuple):
        assert isinstance(ty, TupleType)
        return tuple(_kept(item, part) for item, part in zip(ty.fields, given, strict=True))
    return given


def step_back(record: OpDef, step: Step) -> tuple[Cotangent, ...]:
    """What each argument of a call gets. Raises: IRTypeError R0210 where there is no gradient."""
    rule = record.gradient
    if not any(map(flows_to, step.types)):
        return tuple(None for _ in step.types)
    if isinstance(rule, Without):
        step.refuse(rule.reason)
    found: Sequence[Cotangent] = step.through(rule) if isinstance(rule, Through) else rule(step)
    return tuple(_kept(ty, part) for ty, part in zip(step.types, found, strict=True))


def _placeholder(ty: Type) -> Expr:
    if isinstance(ty, TupleType):
        return Tuple(tuple(_placeholder(item) for item in ty.fields), ty)
    return Var("x", ty)


def backwards(
    expr: Expr,
    params: Sequence[Expr],
    args: Sequence[Expr],
    result: Expr | None,
    grad: Cotangent,
    words: Words,
) -> tuple[Cotangent, ...]:
    """What the arguments of an expression of records get, where `grad` comes for its value.

    `params` are the variables of the expression, or tuples of them; `args` and `result` what stands for them
    and for its value in the dialect. Values between are computed again.
    """
    normalizer = Normalizer()
    with normalizer.scope():
        body = normalizer.sequence(expr)
    way = _Way(body, words)
    for param, arg in zip(params, args, strict=True):
        way.bind(param, arg)
    way.run(result, grad)
    return tuple(way.found(param) for param in params)


def backwards_in(
    body: SeqExpr, params: Sequence[Expr], grad: Cotangent, words: Words
) -> tuple[Cotangent, ...]:
    """As `backwards`, for a body in normal form whose variables the dialect has as they are."""
    way = _Way(body, words)
    for var in (*params, *(binding.var for binding in body.bindings())):
        way.bind(var, var)
    way.run(None, grad)
    return tuple(way.found(param) for param in params)


class _Way:
    """The bindings of one expression, forth and back."""

    def __init__(self, body: SeqExpr, words: Words) -> None:
        self._body, self._words = body, words
        self._values: dict[Var, Any] = {}
        self._grads: dict[Var, Cotangent] = {}

    def bind(self, param: Expr, arg: Any) -> None:
        """Say what stands for a parameter."""
        if isinstance(param, Tuple):
            for place, item in enumerate(param.fields):
                given = arg.fields[place] if isinstance(arg, Tuple) else TupleGetItem(arg, place)
                self.bind(item, given)
        elif isinstance(param, Var):
            self._values[param] = arg

    def found(self, param: Expr) -> Cotangent:
        if isinstance(param, Tuple):
            return tuple(map(self.found, param.fields))
        return self._grads.get(param) if isinstance(param, Var) else None

    def run(self, result: Expr | None, grad: Cotangent) -> None:
        bindings = self._body.bindings()
        for binding in bindings:
            is_last = binding.var is self._body.body
            if binding.var in self._values:
                continue
            if is_last and result is not None:
                self._values[binding.var] = result
            else:
                self._values[binding.var] = self._forth(binding.value)
        self._give(self._body.body, grad)
        for binding in reversed(bindings):
            given = self._grads.get(binding.var)
            if given is not None:
                self._back(binding.var, binding.value, given)

    def _forth(self, value: Expr) -> Expr:
        if isinstance(value, Call):
            record = op_def(value.op)
            assert record is not None
            args = [self._value(arg) for arg in value.args]
            try:
                return self._words.call(record.name, args, dict(value.attrs.items()))
            except UsageError as error:
                if error.code != I0403.name:
                    raise
                _refuse(record.name, "the dialect has no operator that is computed again as it is")
        return self._value(value)  # type: ignore[no-any-return]

    def _value(self, expr: Expr) -> Any:
        if isinstance(expr, Var):
            return self._values[expr]
        if isinstance(expr, Tuple):
            return Tuple(tuple(self._value(item) for item in expr.fields))
        if isinstance(expr, TupleGetItem):
            return TupleGetItem(self._value(expr.tuple_value), expr.index)
        return expr

    def _give(self, expr: Expr, grad: Cotangent) -> None:
        """Let a contribution flow to what an expression is made of."""
        if grad is None:
            return
        if isinstance(expr, Var):
            self._grads[expr] = added(self._words, self._grads.get(expr), grad)
        elif isinstance(expr, Tuple):
            for item, part in zip(expr.fields, grad, strict=True):
                self._give(item, part)
        elif isinstance(expr, TupleGetItem):
            ty = type_of(expr.tuple_value)
            assert isinstance(ty, TupleType)
            fields = tuple(grad if place == expr.index else None for place in range(len(ty.fields)))
            self._give(expr.tuple_value, fields)

    def _back(self, var: Var, value: Expr, grad: Cotangent) -> None:
        if not isinstance(value, Call):
            self._give(value, grad)
            return
        record = op_def(value.op)
        assert record is not None
        step = Step(
            record.name,
            value.attrs,
            tuple(self._value(arg) for arg in value.args),
            tuple(type_of(arg) for arg in value.args),
            self._values[var],
            type_of(var),
            grad,
            self._words,
        )
        for arg, part in zip(value.args, step_back(record, step), strict=True):
            self._give(arg, part)
