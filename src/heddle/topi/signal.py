"""Discrete Fourier transforms of any length, also symbolic ones, in n (p1 + p2 + ...) steps for a length with
the prime factors p1, p2, ...

Stockham's algorithm needs no reordering: a stage of radix p combines p elements that are n / p apart into p
adjacent elements, from one half of the work memory to the other. Several rows are transformed at once, one
per vector lane.

Source: C. Van Loan, Computational Frameworks for the Fast Fourier Transform (1992), sections 1.7 and 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager

from heddle import te
from heddle.prim.intrinsics import cos, sin
from heddle.prim.nodes import IntImm, PrimExpr, Var, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import any as any_of
from heddle.prim.ops import (
    cast,
    ceildiv,
    equal,
    floordiv,
    floormod,
    if_then_else,
    minimum,
    not_equal,
    select,
)
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import Buffer, ForKind, Stmt, While
from heddle.topi.loops import Cell

VECTOR_BYTES = 64
"""Of the lanes that hold an element of several rows."""
_TURNS = 8
"""Angles that are computed at once, in float64."""

Complex = tuple[PrimExpr, PrimExpr]


def fft(x: te.Tensor, length: PrimExpr, inverse: bool, onesided: bool) -> te.Tensor:
    """Return the discrete Fourier transform of rows over axis 1.

    - `x`: (rows, n, 1) real or (rows, n, 2) real and imaginary parts, float32 or float64. Elements from
      `length` on are ignored, and so are parts after the second; missing elements are 0.
    - `length`: the length of the transform, an int64 of at least 1.
    - `inverse`: use the opposite sign of the angles and divide by the length.
    - `onesided`: only the frequencies up to half of the length; the inverse takes these and returns real
      numbers.

    The result is (rows, length, 2); with `onesided` (rows, length // 2 + 1, 2), and its inverse (rows,
    length, 1).
    """
    outputs = floordiv(length, 2) + 1 if onesided and not inverse else length
    parts = 1 if onesided and inverse else 2
    shape = (x.shape[0], outputs, constant(parts, "int64"))

    def body(inputs: Sequence[Buffer], results: Sequence[Buffer]) -> Stmt:
        return _Transform(inputs[0], results[0], length, inverse, onesided).body()

    result: te.Tensor = te.extern(shape, [x], body, name="fft", dtype=x.dtype)
    return result


class _Transform:
    """Writes the loops. `turns` holds the powers of the first root of one; `work` holds two times the numbers
    of all lanes, and `side` says which of the two is next."""

    def __init__(self, x: Buffer, result: Buffer, length: PrimExpr, inverse: bool, onesided: bool) -> None:
        self.x, self.result, self.length = x, result, cast("int64", length)
        self.inverse, self.onesided = inverse, onesided
        self.dtype = str(x.dtype)
        self.lanes = VECTOR_BYTES // x.dtype.itemsize
        self.b = StmtBuilder()

    def body(self) -> Stmt:
        b = self.b
        rounded = ceildiv(self.length, _TURNS) * _TURNS
        self.turns = b.alloc("turns", (2, rounded), self.dtype, "workspace")
        with b.loop("i", floordiv(rounded, _TURNS)) as i, b.loop("k", _TURNS, ForKind.VECTORIZED) as k:
            at = i * _TURNS + k
            angle = cast("float64", at) * (2 * math.pi) / cast("float64", self.length)
            b.store(self.turns, (0, at), cos(angle))
            b.store(self.turns, (1, at), sin(angle) if self.inverse else -sin(angle))
        rows = self.x.shape[0]
        with b.loop("group", ceildiv(rows, self.lanes), ForKind.PARALLEL, {"grain": 1}) as group:
            first = b.let("first", group * self.lanes)
            count = b.let("count", minimum(rows - first, self.lanes))
            self.work = b.alloc("work", (2, 2, self.length, self.lanes), self.dtype, "workspace")
            self._read(first, count)
            self._stages()
            self._write(first, count)
        return b.func("fft", ()).body

    # ---- rows to lanes, and back

    def _read(self, first: PrimExpr, count: PrimExpr) -> None:
        b, zero = self.b, constant(0, self.x.dtype)
        _, size, parts = self.x.shape
        num_parts = parts.value if isinstance(parts, IntImm) else 2
        with b.loop("i", self.length) as i, b.loop("row", count) as row:
            mirrored: PrimExpr = i
            if self.inverse and self.onesided:  # the other half is that of reals
                mirrored = b.let("mirrored", select(i * 2 > self.length, self.length - i, i))
            index = (first + row, mirrored)
            for part in range(2):
                value: PrimExpr = zero
                if part < num_parts:
                    is_there = mirrored < size
                    if not isinstance(parts, IntImm):
                        is_there = all_of(is_there, part < parts)
                    value = if_then_else(is_there, self.x[(*index, part)], zero)
                    if part and self.inverse and self.onesided:
                        edge = any_of(equal(i, 0), equal(i * 2, self.length))
                        value = select(edge, zero, select(i * 2 > self.length, -value, value))
                b.store(self.work, (0, part, i, row), value)

    def _write(self, first: PrimExpr, count: PrimExpr) -> None:
        b, parts = self.b, int(self.result.shape[2])  # type: ignore[call-overload]
        scale = constant(1, self.dtype)
        if self.inverse:
            scale = b.let("scale", cast(self.dtype, constant(1, "float64") / cast("float64", self.length)))
        side = b.let("last", self.side.get())
        with b.loop("i", self.result.shape[1]) as i, b.loop("row", count) as row:
            for part in range(parts):
                value = self.work[side, part, i, row]
                b.store(self.result, (first + row, i, part), value * scale if self.inverse else value)

    # ---- stages

    def _stages(self) -> None:
        """Stages of 4 where it divides what is left, then of the smallest prime that does."""
        b = self.b
        self.side, left, step, radix = Cell("side"), Cell("left"), Cell("step"), Cell("radix")
        for cell, value in ((self.side, 0), (left, self.length), (step, 1), (radix, 2)):
            b.emit(cell.declare())
            b.emit(cell.set(value if isinstance(value, PrimExpr) else constant(value, "int64")))
        stage = StmtBuilder()
        outer, self.b = self.b, stage
        four = equal(floormod(left.get(), 4), 0)
        with stage.when(four):
            self._stage_of_four(*self._sizes(left, step, constant(4, "int64")))
        with stage.otherwise():
            rest = left.get()
            stage.emit(While(not_equal(floormod(rest, radix.get()), 0), _next_candidate(radix, left)))
            self._stage(*self._sizes(left, step, radix.get()), stage.let("p", radix.get()))
        used = select(four, constant(4, "int64"), radix.get())
        stage.emit(step.set(step.get() * used))
        stage.emit(left.set(floordiv(self.length, step.get())))
        stage.emit(self.side.set(1 - self.side.get()))
        self.b = outer
        b.emit(While(left.get() > 1, stage.func("stage", ()).body))

    def _sizes(self, left: Cell, step: Cell, radix: PrimExpr) -> tuple[Var, Var, Var]:
        """Butterflies of a stage, their distance, and the half that they read."""
        b = self.b
        return (
            b.let("num", floordiv(left.get(), radix)),
            b.let("distance", step.get()),
            b.let("from_side", self.side.get()),
        )

    def _stage_of_four(self, num: Var, step: Var, side: Var) -> None:
        b = self.b
        with b.loop("j", num) as j:
            roots = [b.let(f"root{k}", j * step * k) for k in (1, 2, 3)]
            factors = [self._root(at) for at in roots]
            with b.loop("q", step) as q, b.loop("lane", self.lanes, ForKind.VECTORIZED) as lane:
                a0, a1, a2, a3 = (
                    self._named(f"a{t}", self._number(side, q + step * (j + num * t), lane)) for t in range(4)
                )
                sum02, dif02 = _sum(a0, a2), _difference(a0, a2)
                sum13, dif13 = _sum(a1, a3), _times_i(_difference(a1, a3), self.inverse)
                made = (
                    _sum(sum02, sum13),
                    _product(_sum(dif02, dif13), factors[0]),
                    _product(_difference(sum02, sum13), factors[1]),
                    _product(_difference(dif02, dif13), factors[2]),
                )
                for r, value in enumerate(made):
                    self._put(1 - side, q + step * (j * 4 + r), lane, value)

    def _stage(self, num: Var, step: Var, side: Var, radix: Var) -> None:
        """Any factor: each element of a butterfly is a sum of all."""
        b = self.b
        turn = b.let("turn", floordiv(self.length, radix))
        with b.loop("j", num) as j, b.loop("r", radix) as r, b.loop("q", step) as q:
            target = q + step * (j * radix + r)
            with self._all_lanes() as lane:
                self._put(1 - side, target, lane, (constant(0, self.dtype),) * 2)
            with b.loop("t", radix) as t:
                at = b.let("root", floormod(floormod(t * r, radix) * turn + j * r * step, self.length))
                factor = self._root(at)
                with self._all_lanes() as lane:
                    term = _product(self._number(side, q + step * (j + num * t), lane), factor)
                    so_far = self._number(1 - side, target, lane)
                    self._put(1 - side, target, lane, self._named("sum", _sum(so_far, term)))

    # ---- complex numbers

    def _all_lanes(self) -> AbstractContextManager[Var]:
        return self.b.loop("lane", self.lanes, ForKind.VECTORIZED)

    def _root(self, at: PrimExpr) -> Complex:
        return self.b.let("re", self.turns[0, at]), self.b.let("im", self.turns[1, at])

    def _number(self, side: PrimExpr, at: PrimExpr, lane: PrimExpr) -> Complex:
        return self.work[side, 0, at, lane], self.work[side, 1, at, lane]

    def _named(self, name: str, value: Complex) -> Complex:
        return self.b.let(f"{name}_re", value[0]), self.b.let(f"{name}_im", value[1])

    def _put(self, side: PrimExpr, at: PrimExpr, lane: PrimExpr, value: Complex) -> None:
        for part in range(2):
            self.b.store(self.work, (side, part, at, lane), value[part])


def _next_candidate(radix: Cell, left: Cell) -> Stmt:
    """3 after 2, then odd numbers; what is left itself once no smaller one can divide it."""
    following = radix.get() + select(equal(radix.get(), 2), constant(1, "int64"), constant(2, "int64"))
    return radix.set(select(following * following > left.get(), left.get(), following))


def _sum(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _difference(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _product(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _times_i(a: Complex, positive: bool) -> Complex:
    """Times i, or times -i."""
    return (-a[1], a[0]) if positive else (a[1], -a[0])
