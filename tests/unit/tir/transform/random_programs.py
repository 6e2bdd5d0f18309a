"""Random loop programs of one dtype over B[i, j] and A[i, j], whose iterations are independent.

Floats hold small whole numbers, so that every order of evaluation and every precision gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from heddle.prim import ops
from heddle.prim.nodes import Div, Let, Mod, PrimExpr, Var
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import (
    AllocBuffer,
    Bind,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
    While,
    decl_buffer,
    seq,
)

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
Draw = Callable[..., Any]


class Program:
    """Draws a function `f(A, B, k)`; `rows` and `cols` are the shape it is run at."""

    def __init__(self, draw: Draw, dtype: str) -> None:
        self.draw, self.dtype = draw, DataType(dtype)
        self.rows, self.cols = draw(st.sampled_from([0, 1, 2, 3, 5])), draw(st.sampled_from([1, 4, 7, 16]))
        self.k = draw(st.integers(0, 3))
        self.symbolic = draw(st.booleans())
        self.index_dtype = draw(st.sampled_from(["int32", "int64"]))
        if self.symbolic:
            self.n, self.m = Var("n", self.index_dtype), Var("m", self.index_dtype)
        else:
            self.n, self.m = ops.const(self.rows, self.index_dtype), ops.const(self.cols, self.index_dtype)
        self.a = decl_buffer((self.n, self.m), dtype, "A")
        self.b = decl_buffer((self.n, self.m), dtype, "B")
        self.k_var = Var("k", "int32")
        self.func = self._function()

    def arrays(self) -> tuple[Any, Any]:
        rng = np.random.default_rng(self.draw(st.integers(0, 99)))
        shape = (self.rows, self.cols)
        low = 0 if self.dtype.is_unsigned or self.dtype.is_bool else -2
        high = 2 if self.dtype.is_bool else 3
        make = lambda: rng.integers(low, high, shape).astype(self.dtype.numpy())  # noqa: E731
        return make(), make()

    def _function(self) -> PrimFunc:
        i, body = Var("i", self.index_dtype), None
        kind = self.draw(st.sampled_from([ForKind.SERIAL, ForKind.PARALLEL]))
        body = seq(*(self._columns(i) for _ in range(self.draw(st.integers(1, 2)))))
        noalias = {"tir.noalias": True} if self.draw(st.booleans()) else {}
        attrs = {"global_symbol": "f", **noalias}
        return PrimFunc((self.a, self.b, self.k_var), For(i, 0, self.n, kind, body), attrs=attrs)

    def _columns(self, i: Var) -> Stmt:
        """A loop over the columns: plain, or split by 4 with a guard; inner loops of any kind."""
        kinds = [ForKind.SERIAL, ForKind.VECTORIZED, ForKind.UNROLLED]
        kind = self.draw(st.sampled_from(kinds))
        if self.draw(st.booleans()):
            outer, inner = Var("jo", self.index_dtype), Var("ji", self.index_dtype)
            j = outer * 4 + inner
            body = IfThenElse(j < self.m, self._statement(i, j))
            return For(outer, 0, ops.ceildiv(self.m, 4), ForKind.SERIAL, For(inner, 0, 4, kind, body))
        j = Var("j", self.index_dtype)
        return For(j, 0, self.m, kind, self._statement(i, j))

    def _statement(self, i: Any, j: Any) -> Stmt:
        forms = ["store", "if", "temp", "bind", "reduce", "while", "two"]
        form = self.draw(st.sampled_from(forms))
        store = lambda value: BufferStore(self.b, value, (i, j))  # noqa: E731
        if form == "if":
            other = store(self.value(i, j, 1)) if self.draw(st.booleans()) else None
            return IfThenElse(self.condition(i, j), store(self.value(i, j, 1)), other)
        if form == "temp":
            return self._with_temporary(i, j, store)
        if form == "bind":
            x = Var("x", self.dtype)
            return seq(Bind(x, self.value(i, j, 1)), store(self.combine(x, self.value(i, j, 1))))
        if form == "reduce":
            r = Var("r", self.index_dtype)
            extent = ops.cast(self.index_dtype, self.k_var) if self.draw(st.booleans()) else 3
            update = store(ops.maximum(self.b[i, j], self.a[i, (j + r) % self.m]))
            return For(r, 0, extent, ForKind.SERIAL, update)
        if form == "while":
            count = decl_buffer((1,), "int32", "count", scope="local")
            step = seq(
                BufferStore(count, count[0] + 1, (0,)), store(ops.maximum(self.b[i, j], self.value(i, j, 1)))
            )
            return seq(AllocBuffer(count), BufferStore(count, 0, (0,)), While(count[0] < self.k_var, step))
        if form == "two":
            return seq(self._simple(i, j), self._simple(i, j))
        return self._simple(i, j)

    def _simple(self, i: Any, j: Any) -> Stmt:
        return BufferStore(self.b, self.value(i, j, 2), (i, j))

    def _with_temporary(self, i: Any, j: Any, store: Callable[[PrimExpr], Stmt]) -> Stmt:
        size = self.draw(st.sampled_from([2, 3, 900]))
        temp = decl_buffer((size,), self.dtype, "t", scope=self.draw(st.sampled_from(["local", "global"])))
        r, s = Var("r", self.index_dtype), Var("s", self.index_dtype)
        kind = self.draw(st.sampled_from([ForKind.SERIAL, ForKind.UNROLLED]))
        fill = For(r, 0, 2, kind, BufferStore(temp, self.value(i, j, 1), (r,)))
        use = For(s, 0, 2, kind, store(ops.maximum(self.b[i, j], temp[s])))
        return seq(AllocBuffer(temp), fill, use)

    def condition(self, i: Any, j: Any) -> PrimExpr:
        forms = [
            lambda: j % 3 != 1,
            lambda: i + j < self.m,
            lambda: ops.greater(self.k_var, 1),
            lambda: (
                ops.less(self.a[i, j], self.b[i, j])
                if not self.dtype.is_bool
                else ops.equal(self.a[i, j], True)
            ),
            lambda: ops.logical_and(j + 1 < self.m, i > 0),
            lambda: ops.logical_not(ops.equal(i, j)),
        ]
        return ops.as_expr(self.draw(st.sampled_from(forms))())

    def leaf(self, i: Any, j: Any) -> PrimExpr:
        forms = [
            lambda: self.a[i, j],
            lambda: self.b[i, j],
            lambda: ops.const(self.draw(st.integers(0, 2)), self.dtype),
            lambda: ops.cast(self.dtype, ops.floormod(i * 3 + j, 3)),
            lambda: ops.if_then_else(j + 1 < self.m, self.a[i, j + 1], ops.const(1, self.dtype)),
            lambda: self.a[i, self.m - 1 - j],
            lambda: self.a[i, 0],
        ]
        return ops.as_expr(self.draw(st.sampled_from(forms))())

    def value(self, i: Any, j: Any, depth: int) -> PrimExpr:
        if depth == 0:
            return self.leaf(i, j)
        form = self.draw(st.sampled_from(["leaf", "combine", "select", "let", "choose"]))
        a = self.value(i, j, depth - 1)
        if form == "combine":
            return self.combine(a, self.value(i, j, depth - 1))
        if form == "select":
            return ops.select(self.condition(i, j), a, self.value(i, j, depth - 1))
        if form == "choose":
            return ops.if_then_else(self.condition(i, j), a, self.value(i, j, depth - 1))
        if form == "let":
            x = Var("y", self.dtype)
            return Let(x, a, self.combine(x, x))
        return a

    def combine(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if self.dtype.is_bool:
            return self.draw(st.sampled_from([ops.logical_and, ops.logical_or]))(a, b)
        forms: list[Any] = [ops.add, ops.subtract, ops.multiply, ops.minimum, ops.maximum]
        if self.dtype.is_int:
            divisor = self.draw(st.sampled_from([1, 2, 3, 4, 7] + ([-3, -2] if self.dtype.is_signed else [])))
            by = ops.const(divisor, self.dtype)
            forms += [
                lambda a, b: ops.floordiv(a, by),
                lambda a, b: ops.floormod(a, by),
                lambda a, b: ops.floordiv(a, ops.maximum(b, ops.const(1, self.dtype))),
                lambda a, b: Div(a, by),
                lambda a, b: Mod(a, by),
                ops.bitwise_xor,
                ops.bitwise_and,
                lambda a, b: ops.shift_right(a, ops.const(1, self.dtype)),
                lambda a, b: ops.shift_left(a, ops.const(2, self.dtype)),
            ]
        result: PrimExpr = self.draw(st.sampled_from(forms))(a, b)
        return result


@st.composite
def programs(draw: Draw, dtype: str) -> tuple[Program, Any, Any]:
    program = Program(draw, dtype)
    return program, *program.arrays()
