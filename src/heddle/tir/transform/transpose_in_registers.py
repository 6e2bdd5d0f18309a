"""TransposeInRegisters: loop nests that schedules mark → square tiles that are transposed with shuffles.

    for i in 0 .. m {transpose}:              for i_block in 0 .. m // 16:
        for j in 0 .. n:                          for j_block in 0 .. n // 16:
            B[i * n + j] = A[j * m + i]     →         16 vectors along i, one for each j
                                                      64 shuffles
                                                      16 vectors along j, one for each i
                                                  for j in n // 16 * 16 .. n: ...
                                              for i in m // 16 * 16 .. m: ...

The annotation's value is the tile's side, a power of two from 4 on. The value may be any expression that is a
vector along i; the store is contiguous along j. Requires: flat buffers. Runs before VectorizeLoop.

**Source**: the classical transposition by unpacking pairs and quads and then moving 128-bit blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from heddle.ir.node import Map, replace
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import PrimExpr, Ramp, Shuffle, Var, is_const_int
from heddle.prim.ops import const, floordiv, floormod
from heddle.prim.substitute import substitute
from heddle.tir.nodes import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    PrimFunc,
    Stmt,
    decl_buffer,
    seq,
)
from heddle.tir.substitute import substitute_stmt
from heddle.tir.transform.fresh_definitions import definitions, with_fresh_definitions

TRANSPOSE = "transpose"
"""Annotation of the outer loop of a nest: the side of the tiles."""


@dataclass(frozen=True)
class TransposeInRegisters(FunctionPass):
    """See the module."""

    function_kind: ClassVar[type] = PrimFunc

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Nests().visit(func.body))


class _Nests(Rewriter):
    def visit_For(self, node: For) -> Any:
        side = node.annotations.get(TRANSPOSE)
        inner = node.body
        if side is None or not isinstance(inner, For) or not isinstance(inner.body, BufferStore):
            return self.default(node)
        return seq(*_tiled(node, inner, inner.body, int(side)))


def _tiled(outer: For, inner: For, store: BufferStore, side: int) -> list[Stmt]:
    """Whole tiles, the columns that are left in their rows, and the rows that are left."""
    dtype, i, j = outer.loop_var.dtype, outer.loop_var, inner.loop_var
    i_block, j_block = Var(f"{i.name}_block", dtype), Var(f"{j.name}_block", dtype)
    i_begin, j_begin = outer.min + i_block * side, inner.min + j_block * side
    zero, j_whole = const(0, dtype), floordiv(inner.extent, side)
    row: list[Stmt] = [
        For(j_block, zero, j_whole, ForKind.SERIAL, _tile(i, j, i_begin, j_begin, store, side))
    ]
    if not is_const_int(floormod(inner.extent, side), 0):
        lane = Var(i.name, dtype)
        done = j_whole * side
        left = replace(inner, min=inner.min + done, extent=inner.extent - done)
        moved = substitute_stmt(left, {i: i_begin + lane})
        row.append(_fresh(For(lane, zero, const(side, dtype), ForKind.SERIAL, moved)))
    marks = {key: value for key, value in outer.annotations.items() if key != TRANSPOSE}
    if "grain" in marks:
        marks["grain"] = max(1, int(marks["grain"]) // side)
    whole = floordiv(outer.extent, side)
    stmts: list[Stmt] = [For(i_block, zero, whole, outer.kind, seq(*row), annotations=Map(marks))]
    if not is_const_int(floormod(outer.extent, side), 0):
        done = whole * side
        rest = replace(outer, min=outer.min + done, extent=outer.extent - done)
        stmts.append(_fresh(replace(rest, kind=ForKind.SERIAL, annotations=Map({}))))
    return stmts


def _fresh(stmt: For) -> Stmt:
    return with_fresh_definitions(stmt, definitions(stmt))


def _tile(i: Var, j: Var, i_begin: PrimExpr, j_begin: PrimExpr, store: BufferStore, side: int) -> Stmt:
    """Vectors along i into a local buffer, which LLVM keeps in registers; shuffles; stores along j."""
    dtype, element = i.dtype, store.value.dtype
    tile = decl_buffer((side * side,), str(element), "tile", scope="local")
    lane, column = Var("l", dtype), Var("column", dtype)
    value = substitute(store.value, {i: i_begin + lane, j: j_begin + column})
    fill = BufferStore(tile, value, (column * side + lane,))
    along = For(lane, const(0, dtype), const(side, dtype), ForKind.VECTORIZED, fill)
    loads = For(column, const(0, dtype), const(side, dtype), ForKind.UNROLLED, along)
    stmts: list[Stmt] = [AllocBuffer(tile), _fresh(loads)]
    one = const(1, dtype)
    columns = [BufferLoad(tile, (Ramp(const(k * side, dtype), one, side),)) for k in range(side)]
    rows = _Shuffles().transposed(columns)
    stmts += rows.steps
    for k, vector in enumerate(rows.vectors):
        index = substitute(store.indices[0], {i: i_begin + k, j: j_begin})
        stmts.append(BufferStore(store.buffer, vector, (Ramp(index, one, side),)))
    return seq(*stmts)


@dataclass(slots=True)
class _Transposed:
    steps: list[Stmt]
    vectors: list[PrimExpr]


class _Shuffles:
    """Transposes vectors; every step is a shuffle of two that machines have."""

    def __init__(self) -> None:
        self._steps: list[Stmt] = []

    def transposed(self, vectors: Sequence[PrimExpr]) -> _Transposed:
        side = len(vectors)
        held = [self._bind(vector) for vector in vectors]
        for width in (1, 2):  # pairs of elements, then pairs of pairs, within blocks of four
            held = self._unpacked(held, width)
        blocks = side // 4
        rows: list[PrimExpr] = [held[0]] * side
        for place in range(4):
            columns = [held[4 * block + place] for block in range(blocks)]
            for block, vector in enumerate(self._blocks(columns)):
                rows[4 * block + place] = vector
        return _Transposed(self._steps, rows)

    def _bind(self, value: PrimExpr) -> PrimExpr:
        var = Var("v", value.dtype)
        self._steps.append(Bind(var, value))
        return var

    def _unpacked(self, vectors: list[PrimExpr], width: int) -> list[PrimExpr]:
        """Vectors `width` apart are interleaved by runs of `width` elements: lower halves of each block of
        four, then upper halves."""
        side, found = len(vectors), [vectors[0]] * len(vectors)
        for base in range(0, side, 4):
            for step in range(2):
                # width 1: (0, 1) → 0, 1 and (2, 3) → 2, 3; width 2: (0, 2) → 0, 1 and (1, 3) → 2, 3
                a, b = (2 * step, 2 * step + 1) if width == 1 else (step, step + 2)
                for half in range(2):
                    runs = [block + 2 * half + k for block in range(0, side, 4) for k in range(2)]
                    found[base + 2 * step + half] = self._pair(
                        vectors[base + a], vectors[base + b], _interleaved(runs, side, width)
                    )
        return found

    def _blocks(self, vectors: list[PrimExpr]) -> list[PrimExpr]:
        """Vectors of as many blocks of four as there are vectors, transposed by blocks."""
        if len(vectors) == 1:
            return vectors
        halves: tuple[list[PrimExpr], list[PrimExpr]] = ([], [])
        for a, b in zip(vectors[::2], vectors[1::2], strict=True):
            for parity, kept in enumerate(halves):
                blocks = range(parity, a.dtype.lanes // 2, 2)
                kept.append(self._pair(a, b, [4 * block + k for block in blocks for k in range(4)]))
        found = list(vectors)
        found[::2], found[1::2] = (self._blocks(half) for half in halves)
        return found

    def _pair(self, a: PrimExpr, b: PrimExpr, indices: Sequence[int]) -> PrimExpr:
        return self._bind(Shuffle((a, b), tuple(indices)))


def _interleaved(runs: Sequence[int], lanes: int, width: int) -> list[int]:
    """Elements of two vectors in turn: by single elements of `runs`, or by the runs themselves."""
    if width == 1:
        return [index for run in runs for index in (run, lanes + run)]
    return [
        index
        for k in range(0, len(runs), 2)
        for side in (0, lanes)
        for index in (side + runs[k], side + runs[k + 1])
    ]
