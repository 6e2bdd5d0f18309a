"""ContractInBytes: multiply 8-bit integers directly; subtract the effect of zero points afterwards.

    h = R.subtract(R.astype(x, "int16"), 121)            y = R.matmul(x, w, out_dtype="int32")
    y = R.matmul(h, w, out_dtype="int32")         →      z = R.subtract(y, 121 * w.sum(0))

For targets with dot products of four pairs of bytes, which take unsigned data and signed weights. `w` is a
constant of int8. Signed data become unsigned, with a zero point that is greater by 128. Sums wrap around in
int32, so that the difference is the same whatever happens in between. Images are padded by the zero point,
not by zero: of one that is not constant, or no byte, convolutions with padding stay as they are.

    (x - z) · w  =  x · w  -  z * sum(w)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from heddle.graph import op
from heddle.graph.infer import type_of
from heddle.graph.nodes import Binding, SeqExpr, VarBinding
from heddle.graph.op_builder import const
from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import TensorType
from heddle.ir.expr import Call, Constant, Expr, Function, Var
from heddle.ir.transform import FunctionPass, PassContext
from heddle.lower.normal_form import GRAPHS
from heddle.support.frozen import frozen
from heddle.target import Target
from heddle.tir.dot_product import dot_products_of
from heddle.tir.schedule.channels import fills_dot_products
from heddle.topi.nn.window import pads

DATA, WEIGHTS, SUM, DIFFERENCE = "uint8", "int8", "int32", "int16"
_DEPTH, _SHIFT, _LARGEST, _LARGEST_ZERO = 4, 128, 255, 1 << 14
_CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d")


@frozen(slots=False)
class ContractInBytes(FunctionPass):
    """`R.matmul` and convolutions of one group, of at least as many steps as a dot product has.

    Requires the normal form, and weights that are constants (ContractQuantized). Run FoldConstant after it.
    """

    target: Target
    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    def transform_function(self, func: Function, mod: Any, ctx: PassContext) -> Function:
        rows = dot_products_of(self.target.feature_set)
        if not any((row.data, row.weights, row.rows) == (DATA, WEIGHTS, 1) for row in rows):
            return func
        return _Rewriter(mod).run(func)


@frozen
class _Bytes:
    """Data of 8 bits and their zero point, a scalar; None for zero."""

    values: Expr
    zero: Expr | None

    @property
    def known_zero(self) -> int | None:
        if self.zero is None:
            return 0
        return int(self.zero.data.numpy()) if isinstance(self.zero, Constant) else None


class _Rewriter(BindingRewriter):
    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self._values: dict[Expr, Expr] = {}
        self._unsigned: dict[Expr, Expr] = {}

    def rewrite_sequence(self, expr: Any) -> SeqExpr:
        """What a branch binds is known in it alone."""
        values, unsigned = dict(self._values), dict(self._unsigned)
        made = super().rewrite_sequence(expr)
        self._values, self._unsigned = values, unsigned
        return made

    def add(self, binding: Binding) -> None:
        super().add(binding)
        if isinstance(binding, VarBinding):
            self._values[binding.var] = binding.value

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        is_conv = any(is_call(value, name) for name in _CONVOLUTIONS)
        if not isinstance(value, Call) or not (is_conv or is_call(value, "relax.matmul")):
            return value
        if str(value.attrs.out_dtype) != SUM or not _has_weights(value, is_conv):
            return value
        data = self._bytes(value.args[0])
        return (
            value if data is None else self._convolved(value, data) if is_conv else self._product(value, data)
        )

    # ---- data

    def _bytes(self, data: Expr) -> _Bytes | None:
        """The bytes and the zero point whose difference is given in int16."""
        made, zero = self._values.get(data), None
        if isinstance(made, Call) and is_call(made, "relax.subtract"):
            zero, made = made.args[1], self._values.get(made.args[0])
        if not isinstance(made, Call) or not is_call(made, "relax.astype"):
            return None
        ty = type_of(made.args[0])
        is_scalar = zero is None or type_of(zero).ndim == 0  # type: ignore[attr-defined]
        if str(made.attrs.dtype) != DIFFERENCE or not is_scalar or not isinstance(ty, TensorType):
            return None
        if zero is not None and not self._is_exact(zero):
            return None
        if str(ty.dtype) == DATA:
            return _Bytes(made.args[0], zero)
        return self._shifted(made.args[0], zero) if str(ty.dtype) == WEIGHTS else None

    def _is_exact(self, zero: Expr) -> bool:
        """Whether no difference of a byte from a zero point leaves int16."""
        if isinstance(zero, Constant):
            return abs(int(zero.data.numpy())) < _LARGEST_ZERO
        made = self._values.get(zero)
        if not isinstance(made, Call) or not is_call(made, "relax.astype"):
            return False
        ty = type_of(made.args[0])
        return isinstance(ty, TensorType) and str(ty.dtype) in (DATA, WEIGHTS)

    def _shifted(self, values: Expr, zero: Expr | None) -> _Bytes:
        """Signed bytes as unsigned ones."""
        if values not in self._unsigned:
            wide = self._made(
                op.add(self._made(op.astype(values, dtype=DIFFERENCE)), const(_SHIFT, DIFFERENCE))
            )
            self._unsigned[values] = self._made(op.astype(wide, dtype=DATA))
        if zero is None or isinstance(zero, Constant):
            known = 0 if zero is None else int(zero.data.numpy())
            return _Bytes(self._unsigned[values], const(known + _SHIFT, DIFFERENCE))
        return _Bytes(self._unsigned[values], self._made(op.add(zero, const(_SHIFT, DIFFERENCE))))

    def _made(self, call: Expr) -> Expr:
        return self.bind(self.value(call))

    # ---- products

    def _product(self, call: Call, data: _Bytes) -> Expr:
        made = op.matmul(data.values, call.args[1], out_dtype=SUM)
        weights = _array(call.args[1])
        is_matrix = type_of(data.values).ndim != 1  # type: ignore[attr-defined]
        return self._corrected(made, data, weights.sum(axis=-2, keepdims=weights.ndim > 2 and is_matrix))

    def _convolved(self, call: Call, data: _Bytes) -> Expr:
        values, attrs, layout = data.values, dict(call.attrs.items()), str(call.attrs.data_layout)
        before, after = pads(attrs["padding"], len(layout) - 2)
        if any((*before, *after)) and data.known_zero != 0:
            if data.known_zero is None or not 0 <= data.known_zero <= _LARGEST:
                return call
            widths = np.zeros((len(layout), 2), int)
            widths[[k for k, letter in enumerate(layout) if letter not in "NC"]] = [
                *zip(before, after, strict=True)
            ]
            values = self._made(
                op.nn.pad(values, pad_width=widths.reshape(-1).tolist(), pad_value=float(data.known_zero))
            )
            attrs["padding"] = [0] * 2 * (len(layout) - 2)
        made = getattr(op.nn, call.op.name.rsplit(".", 1)[1])(values, call.args[1], **attrs)  # type: ignore[attr-defined]
        kernel, result = str(attrs["kernel_layout"]), str(attrs["out_layout"] or layout)
        sums = _array(call.args[1]).sum(axis=tuple(k for k, letter in enumerate(kernel) if letter != "O"))
        behind = len(result) - result.index("C") - 1
        return self._corrected(made, data, sums.reshape(sums.shape + (1,) * behind))

    def _corrected(self, sums: Expr, data: _Bytes, weights: Any) -> Expr:
        """Sums of products less the zero point times the sums of weights."""
        if data.zero is None or data.known_zero == 0:
            return sums
        total = const(weights.astype(SUM), SUM)
        if isinstance(data.zero, Constant):
            total = const((weights * int(data.zero.data.numpy())).astype(SUM), SUM)
            return op.subtract(self._made(sums), total)  # type: ignore[no-any-return]
        zero = self._made(op.astype(data.zero, dtype=SUM))
        return op.subtract(self._made(sums), self._made(op.multiply(zero, total)))  # type: ignore[no-any-return]


def _array(weights: Expr) -> Any:
    assert isinstance(weights, Constant)
    return weights.data.numpy().astype(np.int64)


def _has_weights(call: Call, is_conv: bool) -> bool:
    """Whether weights are bytes that are packed for dot products."""
    weights = call.args[1]
    if not isinstance(weights, Constant) or str(weights.data.dtype) != WEIGHTS or weights.data.ndim < 2:
        return False
    if not is_conv:
        return int(weights.data.shape[-2]) >= _DEPTH
    channels = int(weights.data.shape[str(call.attrs.kernel_layout).index("I")])
    return call.attrs.groups == 1 and fills_dot_products(channels)
