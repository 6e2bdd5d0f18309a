"""ContractQuantized: compute products of quantised tensors with constant weights in integers.

    h = R.dequantize(x, sx, zx)                    h = R.subtract(R.astype(x, "int16"), zx)
    v = R.dequantize(w, sw, zw, axis=1)     →      y = R.matmul(h, w - zw, out_dtype="int32")
    y = R.matmul(h, v)                             z = R.multiply(R.astype(y, "float32"), sx * sw)

`x` has 8 bits or fewer, one scale and one zero point; `w` is constant and has one of each, or one for each
column of the result. Differences from zero points are exact in int16, which weights leave for int8 where
they fit, and sums are exact in int32: where weights are so large that a sum could leave it, the product stays
as it was. So the result is rounded twice, once as the float32 nearest to the sum and once by the scale, and
not with every term, as a product of floats is. What follows (biases, activations, the next quantisation)
stays as it is, and fuses with the product.

Products that dot products of integers do not fit (convolutions by groups, few channels or columns) take whole
numbers in float32 instead, where 24 bits hold the largest sum: they are as exact. Integer products that a
model states itself (`out_dtype="int32"`) get narrow weights, and whole numbers in float32, by the same rules.

Everything else that is dequantised becomes a scaled difference too, so that all who read a tensor share its
difference from its zero point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from heddle.graph import op
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, SeqExpr, VarBinding
from heddle.graph.op_builder import const
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, Var
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext, map_functions
from heddle.ir.visitor import walk_distinct
from heddle.relax.transform.canonicalize_bindings import CanonicalizeBindings
from heddle.relax.transform.fold_constant import FoldConstant
from heddle.support.frozen import frozen
from heddle.tir.schedule.channels import fills_dot_products

DIFFERENCE, SUM, REAL = "int16", "int32", "float32"
_BITS = {"int8": 8, "uint8": 8, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
_CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
_PRODUCTS = ("relax.matmul", "relax.linear", *_CONVOLUTIONS)
_LARGEST_SUM, _LARGEST_WHOLE = 1 << 31, 1 << 24
"""Sums below these are exact in int32 and in float32."""
_FEWEST_COLUMNS = 8
"""The minimum number of columns; fewer do not fill a vector of sums."""


class ContractQuantized(Pass):
    """Canonicalises bindings and folds constants first, except calls of `R.dequantize`."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if not any(_is_quantized(node) for func in mod.functions.values() for node in walk_distinct(func)):
            return mod
        mod = CanonicalizeBindings(True)(mod)
        mod = FoldConstant(frozenset({"dequantize"}))(mod)
        return map_functions(mod, ("relax",), lambda _var, func: _Contractor(mod).run(func))


def _is_quantized(node: object) -> bool:
    return is_call(node, "relax.dequantize") or _is_product_of_integers(node)


def _is_product_of_integers(node: object) -> bool:
    if not isinstance(node, Call) or not any(is_call(node, name) for name in _PRODUCTS):
        return False
    return "out_dtype" in node.attrs and str(node.attrs.out_dtype) == SUM


@frozen
class _Tensor:
    """What stands for the real numbers (values - zero) * scale; `axis` is that of scales, where they are not
    one for all."""

    values: Expr
    scale: Expr
    zero: Expr
    axis: int


class _Contractor(BindingRewriter):
    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self._known: dict[Var, _Tensor] = {}
        self._differences: dict[Expr, list[tuple[Expr, Expr]]] = {}
        self._values: dict[Expr, Expr] = {}

    def rewrite_sequence(self, expr: Any) -> SeqExpr:
        """Bindings of a branch are known only inside it."""
        differences = {values: list(made) for values, made in self._differences.items()}
        known, values = dict(self._known), dict(self._values)
        made = super().rewrite_sequence(expr)
        self._known, self._differences, self._values = known, differences, values
        return made

    def add(self, binding: Binding) -> None:
        super().add(binding)
        if isinstance(binding, VarBinding):
            self._values[binding.var] = binding.value

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if is_call(value, "relax.dequantize"):
            assert isinstance(value, Call)
            return self._dequantized(var, value)
        if is_call(value, "relax.permute_dims"):
            assert isinstance(value, Call)
            self._note_turned(var, value)
        elif _is_product_of_integers(value):
            assert isinstance(value, Call)
            return self._narrowed(value)
        elif isinstance(value, Call) and any(is_call(value, name) for name in _PRODUCTS):
            return self._product(value) or value
        return value

    # ---- what is dequantised

    def _dequantized(self, var: Var, call: Call) -> Expr:
        values, scale, zero = call.args
        ty = type_of(values)
        assert isinstance(ty, TensorType)
        if str(ty.dtype) not in _BITS or str(call.attrs.out_dtype) != REAL or ty.ndim < 0:
            return call
        if not _is_small(zero) or any(_dims(factor) is None for factor in (scale, zero)):
            return call
        axis = int(call.attrs.axis) % ty.ndim if ty.ndim else 0
        found = _Tensor(values, _whole(scale), _whole(zero), axis)
        self._known[var] = found
        if isinstance(values, Constant):
            return call
        difference = self._made(op.astype(self._difference(found), dtype=REAL))
        made: Expr = op.multiply(difference, self._along(self._as(found.scale, REAL), ty.ndim, axis))
        return made

    def _note_turned(self, var: Var, call: Call) -> None:
        """Record the transpose of quantised weights as quantised weights."""
        given = self._known.get(call.args[0])  # type: ignore[call-overload]
        if given is None or not isinstance(given.values, Constant) or not given.values.data.ndim:
            return
        array = given.values.data.numpy()
        order = [int(axis) % array.ndim for axis in call.attrs.axes or reversed(range(array.ndim))]
        turned = const(np.ascontiguousarray(array.transpose(order)), given.values.data.dtype)
        self._known[var] = replace(given, values=turned, axis=order.index(given.axis))

    def _difference(self, tensor: _Tensor) -> Expr:
        """Return values - zero, computed once per tensor."""
        made = self._differences.setdefault(tensor.values, [])
        known = next((expr for zero, expr in made if _is_same(zero, tensor.zero)), None)
        if known is not None:
            return known
        ndim = type_of(tensor.values).ndim  # type: ignore[attr-defined]
        expr = self._made(op.astype(tensor.values, dtype=DIFFERENCE))
        if not (isinstance(tensor.zero, Constant) and not tensor.zero.data.numpy().any()):
            zero = self._along(self._as(tensor.zero, DIFFERENCE), ndim, tensor.axis)
            expr = self._made(op.subtract(expr, zero))
        made.append((tensor.zero, expr))
        return expr

    def _as(self, factor: Expr, dtype: str) -> Expr:
        if isinstance(factor, Constant):
            return const(factor.data.numpy().astype(dtype), dtype)
        return factor if _dtype(factor) == dtype else self._made(op.astype(factor, dtype=dtype))

    def _along(self, factor: Expr, ndim: int, axis: int) -> Expr:
        """A factor of every channel, shaped to broadcast along an axis."""
        dims = _dims(factor)
        if not dims or axis == ndim - 1:
            return factor
        if isinstance(factor, Constant):
            return const(_spread(factor.data.numpy(), ndim, axis), factor.data.dtype)
        return self._made(op.reshape(factor, (*dims, *(1 for _ in range(ndim - axis - 1)))))

    def _made(self, call: Expr) -> Expr:
        return self.bind(self.value(call))

    # ---- products

    def _product(self, call: Call) -> Expr | None:
        """Return the scaled integer product; None if the product must stay."""
        x, w = (self._known.get(arg) for arg in call.args[:2])  # type: ignore[call-overload]
        if x is None or w is None or isinstance(x.values, Constant) or _dtype(call) != REAL:
            return None
        weights = _differences_of(w)
        if weights is None or weights.ndim < 2 or any(_dims(factor) for factor in (x.scale, x.zero)):
            return None
        column = _column_axis(call, weights.ndim)
        scales = w.scale.data.numpy().astype(REAL)
        if scales.ndim and w.axis != column:
            return None
        largest = _largest_difference(x) * _largest_weights(call, weights)
        if largest >= _LARGEST_SUM:
            return None
        fits = _fits_dot_products(call, weights)
        if not fits and largest >= _LARGEST_WHOLE:
            return None
        data = self._difference(x)
        sums = self._sums(call, data, weights) if fits else self._wholes(call, data, weights)
        result = _result_axis(call, _ndim(call))
        scale = self._scale(x.scale, _spread(scales, _ndim(call), result) if scales.ndim else scales)
        if not call.args[2:]:
            return op.multiply(sums, scale)  # type: ignore[no-any-return]
        return op.add(self._made(op.multiply(sums, scale)), call.args[2])  # type: ignore[no-any-return]

    def _scale(self, data: Expr, weights: Any) -> Expr:
        if isinstance(data, Constant):
            return const(data.data.numpy().astype(REAL) * weights, REAL)
        return self._made(op.multiply(self._as(data, REAL), const(weights, REAL)))

    def _sums(self, call: Call, data: Expr, weights: Any) -> Expr:
        exact = self._made(_like(call, data, _narrow(weights), SUM))
        return self._made(op.astype(exact, dtype=REAL))

    def _wholes(self, call: Call, data: Expr, weights: Any) -> Expr:
        return self._made(_like(call, self._as(data, REAL), const(weights.astype(REAL), REAL), REAL))

    def _narrowed(self, call: Call) -> Expr:
        """An integer product that the model states, its constant weights as narrow as they are."""
        data, weight = call.args[:2]
        if not isinstance(weight, Constant) or _dtype(weight) not in (*_BITS, DIFFERENCE):
            return call
        weights = weight.data.numpy().astype(np.int64)
        largest = self._largest_value(data) * _largest_weights(call, weights)
        if not _fits_dot_products(call, weights) and largest < _LARGEST_WHOLE and len(call.args) == 2:
            exact: Expr = op.astype(self._wholes(call, data, weights), dtype=SUM)
            return exact
        if _dtype(data) != DIFFERENCE and _dtype(data) not in _BITS:
            return call
        made = _narrow(weights)
        is_same = _dtype(data) == DIFFERENCE and _dtype(weight) == _dtype(made)
        return call if is_same else _like(call, self._as(data, DIFFERENCE), made, SUM, call.args[2:])

    def _largest_value(self, data: Expr) -> int:
        """The largest magnitude that a factor can have, by how it was made."""
        dtype = _dtype(data)
        if dtype in _BITS:
            return 1 << _BITS[dtype]
        made = self._values.get(data)
        parts = made.args if isinstance(made, Call) and is_call(made, "relax.subtract") else (made,)
        limits = [self._largest_part(part) for part in parts]
        return sum(limits) if dtype == DIFFERENCE else _LARGEST_SUM

    def _largest_part(self, part: Expr | None) -> int:
        made = part if part is None else self._values.get(part, part)
        if isinstance(made, Constant):
            return int(np.abs(made.data.numpy().astype(np.int64)).max(initial=0))
        if isinstance(made, Call) and is_call(made, "relax.reshape"):
            return self._largest_part(made.args[0])
        is_cast = isinstance(made, Call) and is_call(made, "relax.astype")
        given = _dtype(made.args[0]) if is_cast else ""  # type: ignore[union-attr]
        return 1 << _BITS[given] if given in _BITS else 1 << 15


# ---- facts


def _dtype(expr: Expr) -> str:
    return str(type_of(expr).dtype)  # type: ignore[attr-defined]


def _ndim(expr: Expr) -> int:
    return type_of(expr).ndim  # type: ignore[attr-defined, no-any-return]


def _dims(expr: Expr) -> Any:
    return type_of(expr).dims  # type: ignore[attr-defined]


def _is_small(zero: Expr) -> bool:
    """Whether differences from a zero point fit into int16."""
    if _dtype(zero) in _BITS or not isinstance(zero, Constant):
        return _dtype(zero) in _BITS
    array = zero.data.numpy()
    return array.dtype.kind in "iu" and int(np.abs(array.astype(np.int64)).max(initial=0)) < 1 << 14


def _whole(factor: Expr) -> Expr:
    """A constant of one element as a scalar."""
    if isinstance(factor, Constant) and factor.data.shape and factor.data.numpy().size == 1:
        return const(factor.data.numpy().reshape(()), factor.data.dtype)
    return factor


def _is_same(a: Expr, b: Expr) -> bool:
    if isinstance(a, Constant) and isinstance(b, Constant):
        return a.data.shape == b.data.shape and bool((a.data.numpy() == b.data.numpy()).all())
    return a is b


def _spread(array: Any, ndim: int, axis: int) -> Any:
    return array.reshape(array.shape + (1,) * (ndim - axis - 1))


def _differences_of(tensor: _Tensor) -> Any:
    """Constant weights less their zero points, or None where something of them is not known."""
    parts = tensor.values, tensor.scale, tensor.zero
    if not all(isinstance(part, Constant) for part in parts):
        return None
    values, zero = (part.data.numpy().astype(np.int64) for part in (tensor.values, tensor.zero))  # type: ignore[attr-defined]
    return values - (_spread(zero, values.ndim, tensor.axis) if zero.ndim else zero)


def _narrow(weights: Any) -> Constant:
    fits = weights.min(initial=0) >= -128 and weights.max(initial=0) <= 127
    dtype = "int8" if fits else DIFFERENCE
    return const(weights.astype(dtype), dtype)


def _largest_difference(tensor: _Tensor) -> int:
    dtype = _dtype(tensor.values)
    bits = _BITS[dtype]
    if not isinstance(tensor.zero, Constant):
        return (1 << bits) - 1
    low = 0 if dtype[0] == "u" else -(1 << (bits - 1))
    zero = int(tensor.zero.data.numpy())
    return max(abs(low - zero), abs(low + (1 << bits) - 1 - zero))


def _column_axis(call: Call, ndim: int) -> int:
    """The axis of weights along which the columns of the result lie."""
    if is_call(call, "relax.matmul"):
        return ndim - 1
    return 0 if is_call(call, "relax.linear") else str(call.attrs.kernel_layout).index("O")


def _result_axis(call: Call, ndim: int) -> int:
    if not any(is_call(call, name) for name in _CONVOLUTIONS):
        return ndim - 1
    return str(call.attrs.out_layout or call.attrs.data_layout).index("C")


def _largest_weights(call: Call, weights: Any) -> int:
    """The largest sum of magnitudes that one element of the result multiplies with."""
    if weights.ndim == 1:
        summed: tuple[int, ...] = (0,)
    elif is_call(call, "relax.matmul"):
        summed = (weights.ndim - 2,)
    else:
        column = _column_axis(call, weights.ndim)
        summed = tuple(axis for axis in range(weights.ndim) if axis != column)
    return int(np.abs(weights).sum(axis=summed).max(initial=0))


def _fits_dot_products(call: Call, weights: Any) -> bool:
    """Whether loops over the sum take several steps side by side: of matrices that fill vectors, and of
    convolutions of images over one group of channels that fill blocks."""
    if weights.ndim < 2 or weights.shape[_column_axis(call, weights.ndim)] < _FEWEST_COLUMNS:
        return False
    if not any(is_call(call, name) for name in _CONVOLUTIONS):
        return True
    channels = int(weights.shape[str(call.attrs.kernel_layout).index("I")])
    if is_call(call, "relax.nn.conv3d"):
        return False
    return call.attrs.groups == 1 and fills_dot_products(channels)


def _like(call: Call, data: Expr, weights: Expr, out_dtype: str, rest: Sequence[Expr] = ()) -> Any:
    """Return the same product with other factors."""
    if is_call(call, "relax.matmul"):
        return op.matmul(data, weights, out_dtype=out_dtype)
    if is_call(call, "relax.linear"):
        return op.linear(data, weights, *rest, out_dtype=out_dtype)
    made = next(getattr(op.nn, name.rsplit(".", 1)[1]) for name in _CONVOLUTIONS if is_call(call, name))
    return made(data, weights, **{**dict(call.attrs.items()), "out_dtype": out_dtype})
