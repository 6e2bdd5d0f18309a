"""Operators on quantised tensors in the words of integer arithmetic."""

from __future__ import annotations

from typing import Any

from heddle.ir.expr import Call, Constant, Tuple, Var
from heddle.relay.expand import expand, placeholder
from heddle.relay.transform.rewriting import RewritePass, along, call, is_call, rank
from heddle.relay.words import RelayWords
from heddle.support.frozen import frozen

_QNN = "qnn."


@frozen
class QnnCanonicalizeOps(RewritePass):
    """Write what `qnn` operators are: arithmetic of integers, and floats only where scales are.

        qnn.dense(%x, %w, 3, 0, 0.5f, 0.5f, units=8)

    becomes, where `%x` is of int8,

        nn.matmul(subtract(cast(%x, dtype="int16"), 3i16), transpose(cast(%w, ...)), out_dtype="int32")
    """

    opt_level = 1

    def rewrite(self, old: Any, new: Any) -> Any:
        if not is_call(old) or not old.op.name.startswith(_QNN):
            return new
        if is_call(old, "qnn.dequantize"):
            return _real(old, *new.args)
        inputs: dict[Any, Any] = {}
        holders = [_holder(before, after, inputs) for before, after in zip(old.args, new.args, strict=True)]
        return _Said(inputs, old.op.name).of(expand(old.op.name, holders, old.attrs))


def _real(old: Any, data: Any, scale: Any, zero: Any) -> Any:
    """(data - zero) * scale, in the words that broadcast along the axis."""
    attrs, ndim = old.attrs, rank(old.args[0])
    scale, zero = (
        along(factor, attrs.axis, ndim) if rank(before) else factor
        for factor, before in zip((scale, zero), old.args[1:], strict=True)
    )
    steps = call("subtract", call("cast", data, dtype="int32"), call("cast", zero, dtype="int32"))
    found = call("multiply", call("cast", steps, dtype="float32"), scale)
    return found if attrs.out_dtype == "float32" else call("cast", found, dtype=attrs.out_dtype)


def _holder(old: Any, new: Any, inputs: dict[Any, Any]) -> Any:
    """A typed stand-in for an argument, as the rules of operators take it; constants are seen by them."""
    if isinstance(old, Constant):
        return old
    if isinstance(new, Tuple):
        return Tuple(tuple(_holder(a, b, inputs) for a, b in zip(old.fields, new.fields, strict=True)))
    made = placeholder(old.ty)
    inputs[made] = new
    return made


_WORDS = RelayWords()


class _Said:
    """An expression of records in Relay's words. It is as deep as one operator's rule is long."""

    def __init__(self, inputs: dict[Any, Any], name: str) -> None:
        self._inputs, self._done = inputs, dict[int, Any]()
        self._product = "nn.batch_matmul" if name == "qnn.batch_matmul" else "nn.matmul"

    def of(self, expr: Any) -> Any:
        if id(expr) not in self._done:
            self._done[id(expr)] = self._said(expr)
        return self._done[id(expr)]

    def _said(self, expr: Any) -> Any:
        if isinstance(expr, Tuple):
            return Tuple(tuple(map(self.of, expr.fields)))
        if isinstance(expr, Call):
            return self._word(expr, list(map(self.of, expr.args)))
        return self._inputs.get(expr, expr) if isinstance(expr, Var) else expr

    def _word(self, expr: Call, args: list[Any]) -> Any:
        name = expr.op.name.removeprefix("relax.")  # type: ignore[attr-defined]
        attrs = {key: value for key, value in expr.attrs.items() if value is not None}
        if name == "matmul":
            return call(self._product, *args, **attrs, transpose_b=False)
        return _WORDS.call(name, args, attrs)
