"""Tensors of sizes in Relay programs, followed while a program is brought into the normal form.

    let %n = take(shape_of(%x), 0) + 1;       →      R.full(R.shape([x_0 + 1]), 0)
    dyn.full(0, reshape(%n, newshape=[1]))

A tensor that is computed of sizes alone has a content (`graph.contents`). What takes such a tensor for a
shape is given the shape, so its result has sizes that are related to those of the arguments, and its kernels
are those of any other program. Where somebody reads the tensor itself, it is made of its content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from heddle.graph.contents import (
    MAX_CONTENT,
    Simplifier,
    constant_elements,
    content_of_array,
    is_long,
    object_array,
    size_tensor,
    vector,
    zipped,
)
from heddle.graph.infer import type_of
from heddle.graph.normalize import Normalizer
from heddle.graph.op_builder import call_op, const
from heddle.graph.types import ShapeExpr, TensorType
from heddle.ir.expr import Call, Constant, Expr, Tuple, Var
from heddle.ir.op import Op, is_op
from heddle.ir.op_def import op_def
from heddle.ir.visitor import walk
from heddle.prim import ops
from heddle.prim.nodes import IntImm, Mul, PrimExpr, constant, is_const_int
from heddle.support.diagnostics import HeddleError

Content = np.ndarray[Any, Any]
_PREFIX = "relax."
_DTYPES = ("int64", "int32", "bool")

_ELEMENTWISE: Mapping[str, Callable[..., PrimExpr]] = {
    "add": ops.add,
    "subtract": ops.subtract,
    "multiply": ops.multiply,
    "maximum": ops.maximum,
    "minimum": ops.minimum,
    "negative": ops.negative,
    "equal": ops.equal,
    "not_equal": ops.not_equal,
    "less": ops.less,
    "less_equal": ops.less_equal,
    "greater": ops.greater,
    "greater_equal": ops.greater_equal,
    "logical_and": ops.logical_and,
    "logical_or": ops.logical_or,
    "logical_not": ops.logical_not,
    "where": ops.select,
}
_DIVISIONS: Mapping[str, Callable[..., PrimExpr]] = {"floor_divide": ops.floordiv, "floor_mod": ops.floormod}
_REDUCTIONS: Mapping[str, Callable[..., PrimExpr]] = {
    "prod": ops.multiply,
    "sum": ops.add,
    "max": ops.maximum,
    "min": ops.minimum,
}
_LOGIC = ("logical_and", "logical_or", "logical_not")
MAX_INT32_TERM, MAX_INT32_FACTOR = 2**30, 8
_COMPUTED = frozenset({"astype", *_ELEMENTWISE, *_DIVISIONS, *_REDUCTIONS})
_FILLED = ("zeros", "ones", "full")
_MAKERS = ("shape_to_tensor", *_FILLED)
_MOVES = frozenset(
    {
        "broadcast_to",
        "concat",
        "expand_dims",
        "flatten",
        "flip",
        "permute_dims",
        "repeat",
        "reshape",
        "squeeze",
        "stack",
        "strided_slice",
        "take",
        "tile",
    }
)
"""Operators whose results hold elements of their first argument; the others are numbers."""


class SizeLowering(Normalizer):
    """The part of a maker of functions that knows what tensors of sizes hold."""

    def __init__(self, mod: Any = None) -> None:
        super().__init__(mod)
        self._simplify = Simplifier()
        self._contents: dict[int, tuple[Expr, Content]] = {}
        """By the identity of values, and of variables that they are bound to."""
        self._ones: dict[Var, PrimExpr] = {}
        """How many ones a vector has."""

    def value(self, expr: Expr) -> Expr:
        """A typed value whose parts are leaves; one that sizes say is made of them."""
        found = super().value(expr)
        if not isinstance(found, Call) or not isinstance(found.op, Op):
            return found
        known = self._as_shape(found) or self._counted(found) or self._sliced(found)
        if known is not None:
            return super().value(known)
        content = self._content_of_call(found)
        if content is None:
            return found
        dtype = str(type_of(found).dtype)  # type: ignore[attr-defined]
        if is_op(found.op, f"{_PREFIX}astype") and dtype == str(type_of(found.args[0]).dtype):  # type: ignore[attr-defined]
            return found.args[0]
        if dtype != "bool" and found.op.name.removeprefix(_PREFIX) not in _MAKERS:
            found = super().value(self._made(content, dtype))
        self._contents[id(found)] = found, content
        return found

    def bind(self, value: Expr, hint: str = "lv", output: bool = False) -> Var:
        """Bind a normalised value to a new variable, and keep what it holds."""
        var = super().bind(value, hint, output)
        if (known := self._contents.get(id(value))) is not None:
            self._contents[id(var)] = var, known[1]
        if isinstance(value, Call) and is_op(value.op, f"{_PREFIX}ones"):
            shape = value.args[0]
            if isinstance(shape, ShapeExpr) and len(shape.values) == 1:
                self._ones[var] = shape.values[0]
        return var

    # ---- what takes a shape

    def _as_shape(self, call: Call) -> Expr | None:
        """The shape that a tensor of known content says."""
        if not is_op(call.op, f"{_PREFIX}tensor_to_shape"):
            return None
        content = self._content(call.args[0])
        return None if content is None or content.ndim != 1 else ShapeExpr(tuple(content), span=call.span)

    def _counted(self, call: Call) -> Expr | None:
        """0, 1, ..., where ones of a known number are added up."""
        if not is_op(call.op, f"{_PREFIX}cumsum") or not isinstance(call.args[0], Var):
            return None
        count, ty = self._ones.get(call.args[0]), type_of(call)
        if count is None or not call.attrs["exclusive"] or not isinstance(ty, TensorType):
            return None
        return call_op("arange", 0, count, 1, dtype=str(ty.dtype))

    def _sliced(self, call: Call) -> Expr | None:
        """A slice between bounds that are known: along the axes that it does not take whole."""
        if not is_op(call.op, f"{_PREFIX}dynamic_strided_slice"):
            return None
        x, *bounds = call.args
        ty, known = type_of(x), [self._content(bound) for bound in bounds]
        if not isinstance(ty, TensorType) or ty.dims is None:
            return None
        if any(content is None or content.shape != (ty.ndim,) for content in known):
            return None
        begins, ends, strides = (list(content) for content in known if content is not None)
        if not all(isinstance(stride, IntImm) and stride.value for stride in strides):
            return None
        whole = [
            is_const_int(begins[axis], 0)
            and is_const_int(strides[axis], 1)
            and self._simplify.equal(dim, ends[axis])
            for axis, dim in enumerate(ty.dims)
        ]
        axes = [axis for axis in range(ty.ndim) if not whole[axis]]
        parts = ([values[axis] for axis in axes] for values in (begins, ends, strides))
        return call_op("strided_slice", x, axes, *parts) if axes else x

    # ---- contents

    def _content(self, leaf: Expr) -> Content | None:
        """What a leaf holds, where it is known."""
        if isinstance(leaf, Constant):
            is_size = str(leaf.data.dtype) in _DTYPES and prod(leaf.data.shape) <= MAX_CONTENT
            return content_of_array(np.asarray(leaf.data.numpy())) if is_size else None
        found = self._contents.get(id(leaf))
        return None if found is None else found[1]

    def _content_of_call(self, call: Call) -> Content | None:
        ty, name = type_of(call), call.op.name.removeprefix(_PREFIX)  # type: ignore[attr-defined]
        if not isinstance(ty, TensorType) or str(ty.dtype) not in _DTYPES or ty.ndim < 0:
            return None
        if name == "shape_to_tensor":
            values = call.args[0].values if isinstance(call.args[0], ShapeExpr) else None
            return None if values is None else vector(values)
        if name in _FILLED:
            made = self._filled(name, call, str(ty.dtype))
        elif name in _MOVES:
            made = self._moved(call)
        elif name in _COMPUTED:
            made = self._computed(name, call)
        else:
            return None
        kept = self._kept(made)
        return None if kept is None or (str(ty.dtype) == "int32" and _may_wrap(kept)) else kept

    def _filled(self, name: str, call: Call, dtype: str) -> Content | None:
        """The content of a small tensor of one number."""
        sizes = _plain(call.args[0])
        if sizes is None or prod(sizes) > MAX_CONTENT:
            return None
        fill = const(name == "ones", dtype) if len(call.args) == 1 else call.args[1]
        content = self._content(fill)
        return None if content is None or content.ndim else object_array([content[()]] * prod(sizes), sizes)

    def _computed(self, name: str, call: Call) -> Content | None:
        """The content of a call that computes with all of its arguments."""
        contents = [self._content(arg) for arg in call.args]
        if any(content is None for content in contents):
            return None
        first, *others = known = [content for content in contents if content is not None]
        if name == "astype":
            return _cast(first, str(call.attrs["dtype"]))
        if name in _REDUCTIONS:
            return _reduced(name, call, first)
        if name in _DIVISIONS:
            bounds = map(self._simplify.analyzer.const_int_bound, others[0].reshape(-1))
            return zipped(_DIVISIONS[name], known) if all(bound.min_value > 0 for bound in bounds) else None
        is_bool = [bool(content.size) and content.reshape(-1)[0].dtype.is_bool for content in known]
        wanted = [name in _LOGIC or (name == "where" and not place) for place in range(len(known))]
        return zipped(_ELEMENTWISE[name], known) if is_bool == wanted else None

    def _moved(self, call: Call) -> Content | None:
        """The content of a call that moves elements about, as its reference on numpy says."""
        is_tuple = isinstance(call.args[0], Tuple)
        moved = call.args[0].fields if isinstance(call.args[0], Tuple) else call.args[:1]
        contents = [self._content(arg) for arg in moved]
        rest = [_plain(arg) for arg in call.args[1:]]
        if any(content is None for content in contents) or any(value is None for value in rest):
            return None
        record = op_def(call.op)
        assert record is not None
        try:
            made = record.reference(call.attrs, tuple(contents) if is_tuple else contents[0], *rest)  # type: ignore[operator]
        except (HeddleError, ArithmeticError, LookupError, TypeError, ValueError):
            return None  # the call says so itself, when it runs
        made = made if isinstance(made, np.ndarray) else object_array([made], ())
        return made if all(isinstance(item, PrimExpr) for item in made.reshape(-1)) else None

    def _kept(self, content: Content | None) -> Content | None:
        """A content in its simple form; None for a large one, and for expressions that are long."""
        if content is None or content.size > MAX_CONTENT:
            return None
        made = self._simplify.content(content)
        return None if any(is_long(item) for item in made.reshape(-1)) else made

    @staticmethod
    def _made(content: Content, dtype: str) -> Expr:
        """The expression of a tensor from what it holds."""
        numbers = constant_elements(content)
        if numbers is not None:
            return const(np.asarray(numbers, dtype).reshape(content.shape), dtype)
        return size_tensor(content, dtype)


def _may_wrap(content: Content) -> bool:
    """Whether int32 may be too short for these elements. Sums of a few sizes fit: whoever computes in int32
    has no axis that long; products, and sums with large numbers, may not."""
    return any(_is_large(node) for item in content.reshape(-1) for node in walk(item))


def _is_large(node: Any) -> bool:
    if isinstance(node, Mul):
        factor = node.a if isinstance(node.a, IntImm) else node.b
        return not isinstance(factor, IntImm) or abs(factor.value) > MAX_INT32_FACTOR
    return isinstance(node, IntImm) and abs(node.value) > MAX_INT32_TERM


def _plain(arg: Expr) -> Any:
    """An argument as Python has it; None for what is not known before the program runs."""
    if isinstance(arg, Constant):
        return arg.data.numpy()
    values = arg.values if isinstance(arg, ShapeExpr) else arg.fields if isinstance(arg, Tuple) else None
    numbers = tuple(item.value for item in values or () if isinstance(item, IntImm))
    return numbers if values is not None and len(numbers) == len(values) else None


def _cast(content: Content, dtype: str) -> Content | None:
    """A content in another element type; sizes fit any that sizes are computed in."""
    items = list(content.reshape(-1))
    if dtype == "bool":
        items = [item if item.dtype.is_bool else ops.not_equal(item, constant(0, "int64")) for item in items]
    else:
        one, zero = constant(1, "int64"), constant(0, "int64")
        items = [ops.select(item, one, zero) if item.dtype.is_bool else item for item in items]
    return object_array(items, content.shape)


def _reduced(name: str, call: Call, content: Content) -> Content | None:
    """A reduction of a vector."""
    axes = call.attrs["axis"]
    given = [axes] if isinstance(axes, int) else axes
    is_all = given is None or [int(axis) for axis in given] in ([0], [-1])
    if content.ndim != 1 or not content.size or not is_all or content[0].dtype.is_bool:
        return None
    total = reduce(_REDUCTIONS[name], content)
    return object_array([total], (1,) if call.attrs["keepdims"] else ())
