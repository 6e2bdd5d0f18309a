"""TransposeInRegisters: loop nests that schedules mark → square tiles that are transposed with shuffles.

    for i in 0 .. m {transpose}:              for strips of 8 tiles along i:
        for j in 0 .. n:                          for j_block in 0 .. n // 16:
            B[i * n + j] = A[j * m + i]     →         for tiles of the strip:
                                                          16 vectors along i, one for each j
                                                          64 shuffles
                                                          16 vectors along j, one for each i
                                                  for j in n // 16 * 16 .. n: ...
                                              for i in m // 16 * 16 .. m: ...

Rows of fewer elements than a tile has, one behind the other, are packed into whole vectors.

What whole tiles leave of known extents is a tile under masks where it is more than a quarter of one; of an
unknown m it is one where there is anything left.

The annotation's value is the tile's side, a power of two from 4 on. The value may be any expression that is a
vector along i; the store is contiguous along j. Requires: flat buffers. Runs before VectorizeLoop.

**Source**: the classical transposition by unpacking pairs and quads and then moving 128-bit blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from heddle.arith import Analyzer
from heddle.ir.node import Map, replace
from heddle.ir.transform import FunctionPass, PassContext
from heddle.prim.nodes import Broadcast, IntImm, PrimExpr, Ramp, Shuffle, Var, is_const_int
from heddle.prim.ops import ceildiv, const, floordiv, floormod, if_then_else, maximum, minimum
from heddle.prim.substitute import substitute
from heddle.support.frozen import frozen
from heddle.tir.fresh_definitions import definitions, with_fresh_definitions
from heddle.tir.nodes import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
    decl_buffer,
    seq,
)
from heddle.tir.stmt_rewriter import StmtRewriter
from heddle.tir.substitute import substitute_stmt

TRANSPOSE = "transpose"
"""Annotation of the outer loop of a nest: the side of the tiles."""


class TransposeInRegisters(FunctionPass):
    """See the module."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Nests().visit(func.body))


class _Nests(StmtRewriter):
    def visit_For(self, node: For) -> Any:
        side = node.annotations.get(TRANSPOSE)
        inner = node.body
        if side is None or not isinstance(inner, For) or not isinstance(inner.body, BufferStore):
            return self.default(node)
        return seq(*_Nest(node, inner, inner.body, int(side)).stmts())


STRIP = 8
"""Tiles side by side: a page that was found in the page tables serves as many lines."""
_MASKED_BITS = 32
BLOCK_BITS = 128
"""Within so many bits machines interleave the halves of two vectors in one instruction."""
STRIPS_OF_THREADS = 8
"""Strips that a loop on threads has at least: fewer would leave threads idle."""


@frozen
class _Nest:
    """The two loops, what they store, and the side of a tile."""

    outer: For
    inner: For
    store: BufferStore
    side: int

    def stmts(self) -> list[Stmt]:
        """Whole tiles, and what is left of rows and columns: in tiles under masks where it is a good part of
        one, else one by one."""
        outer, side = self.outer, self.side
        i, dtype = outer.loop_var, outer.loop_var.dtype
        strip, zero, whole = Var(f"{i.name}_strip", dtype), const(0, dtype), floordiv(outer.extent, side)
        wide = self._tiles_in_strip(whole)
        marks = {key: value for key, value in outer.annotations.items() if key != TRANSPOSE}
        if "grain" in marks:
            grain = marks["grain"]
            parts = side * wide
            is_free = isinstance(grain, PrimExpr)
            marks["grain"] = maximum(floordiv(grain, parts), 1) if is_free else max(1, int(grain) // parts)
        count = None if wide == 1 else minimum(wide, whole - strip * wide)
        row = seq(*self._row(outer.min + strip * (wide * side), side, count))
        made: list[Stmt] = [For(strip, zero, ceildiv(whole, wide), outer.kind, row, annotations=Map(marks))]
        left = _left(outer, side)
        if masked := self._under_mask(left):
            made += self._row(outer.min + whole * side, masked)
        elif left is None and self._under_mask(side) and _left(self.inner, side) is not None:
            height = outer.extent - whole * side
            made.append(IfThenElse(height > 0, seq(*self._row(outer.min + whole * side, height))))
        elif left != 0:
            rest = replace(outer, min=outer.min + whole * side, extent=outer.extent - whole * side)
            made.append(_fresh(replace(rest, kind=ForKind.SERIAL, annotations=Map({}))))
        return made

    def _tiles_in_strip(self, whole: PrimExpr) -> int:
        """How many tiles along i are done before the next ones along j: they read the same pages. Threads get
        several strips each."""
        if not isinstance(whole, IntImm):
            return STRIP
        least = STRIP * STRIPS_OF_THREADS if self.outer.kind is ForKind.PARALLEL else 2
        return STRIP if whole.value >= least else 1

    def _under_mask(self, left: int | None) -> int:
        """How much of what is left a tile under masks takes: all or nothing. Processors mask words."""
        has_masks = self.store.value.dtype.bits == _MASKED_BITS
        return left if has_masks and left is not None and left * 4 > self.side else 0

    def _row(self, i_begin: PrimExpr, height: int | PrimExpr, count: PrimExpr | None = None) -> list[Stmt]:
        """`height` values of i, or so many for each of `count` tiles, for all of j."""
        i, j, inner, side = self.outer.loop_var, self.inner.loop_var, self.inner, self.side
        dtype = i.dtype
        block, zero, whole = Var(f"{j.name}_block", dtype), const(0, dtype), floordiv(inner.extent, side)

        def each(make: Callable[[PrimExpr], Stmt]) -> Stmt:
            if count is None:
                return make(i_begin)
            tile = Var(f"{i.name}_tile", dtype)
            return For(tile, zero, count, ForKind.SERIAL, make(i_begin + tile * side))

        def whole_tile(begin: PrimExpr) -> Stmt:
            return self._tile(begin, inner.min + block * side, height, side)

        def masked_tile(begin: PrimExpr) -> Stmt:
            return self._tile(begin, inner.min + done, height, masked)

        def one_by_one(begin: PrimExpr) -> Stmt:
            lane = Var(i.name, dtype)
            rest = replace(inner, min=inner.min + done, extent=inner.extent - done)
            moved = substitute_stmt(rest, {i: begin + lane})
            return _fresh(For(lane, zero, _as_expr(height, dtype), ForKind.SERIAL, moved))

        made: list[Stmt] = [For(block, zero, whole, ForKind.SERIAL, each(whole_tile))]
        left, done = _left(inner, side), whole * side
        if masked := self._under_mask(left):
            made.append(each(masked_tile))
        elif left != 0:
            made.append(each(one_by_one))
        return made

    def _tile(self, i_begin: PrimExpr, j_begin: PrimExpr, height: int | PrimExpr, width: int) -> Stmt:
        """Vectors along i into a local buffer, which LLVM keeps in registers; shuffles; stores along j.
        Beyond `height` and `width` nothing is read or stored."""
        i, j, store, side = self.outer.loop_var, self.inner.loop_var, self.store, self.side
        dtype, element = i.dtype, store.value.dtype
        tile = decl_buffer((side * side,), str(element), "tile", scope="local")
        lane, column = Var("l", dtype), Var("column", dtype)
        value = substitute(store.value, {i: i_begin + lane, j: j_begin + column})
        known = height if isinstance(height, int) else side
        if known < side or known is not height:
            value = if_then_else(lane < height, value, const(0, element))
        fill = BufferStore(tile, value, (column * side + lane,))
        along = For(lane, const(0, dtype), const(side, dtype), ForKind.VECTORIZED, fill)
        loads = For(column, const(0, dtype), const(width, dtype), ForKind.UNROLLED, along)
        stmts: list[Stmt] = [AllocBuffer(tile), _fresh(loads)]
        one, nothing = const(1, dtype), Broadcast(const(0, element), side)
        columns: list[PrimExpr] = [
            BufferLoad(tile, (Ramp(const(k * side, dtype), one, side),)) if k < width else nothing
            for k in range(side)
        ]
        shuffles = _Shuffles()
        rows = shuffles.transposed(columns)
        if height == side and width < side and self._is_dense(width):
            index = substitute(store.indices[0], {i: i_begin, j: j_begin})
            packed = shuffles.packed(rows.vectors, width)
            stmts += rows.steps
            stmts += [
                BufferStore(store.buffer, vector, (Ramp(index + k * side, one, side),))
                for k, vector in enumerate(packed)
            ]
            return seq(*stmts)
        stmts += rows.steps
        mask = Ramp(const(0, dtype), one, side) < Broadcast(const(width, dtype), side)
        for k, vector in enumerate(rows.vectors[:known]):
            index = substitute(store.indices[0], {i: i_begin + k, j: j_begin})
            predicate = mask if width < side else None
            stored: Stmt = BufferStore(store.buffer, vector, (Ramp(index, one, side),), predicate)
            stmts.append(stored if known is height else IfThenElse(const(k, dtype) < height, stored))
        return seq(*stmts)

    def _is_dense(self, width: int) -> bool:
        """Whether the store's rows are `width` long and lie one behind the other: those of a tile fill whole
        vectors then, and need no masks."""
        i, index = self.outer.loop_var, self.store.indices[0]
        step = Analyzer().simplify(substitute(index, {i: i + 1}) - index)
        return is_const_int(self.inner.extent, width) and is_const_int(step, width)


def _left(loop: For, side: int) -> int | None:
    """How many iterations whole tiles leave, where that is known."""
    rest = floormod(loop.extent, side)
    return rest.value if isinstance(rest, IntImm) else None


def _as_expr(size: int | PrimExpr, dtype: Any) -> PrimExpr:
    return const(size, dtype) if isinstance(size, int) else size


def _fresh(stmt: For) -> Stmt:
    return with_fresh_definitions(stmt, definitions(stmt))


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
        if side * max(held[0].dtype.bits, 8) <= BLOCK_BITS and held[0].dtype.bits < 32:
            return _Transposed(self._steps, self._riffled(held))
        for width in (1, 2):  # pairs of elements, then pairs of pairs, within blocks of four
            held = self._unpacked(held, width)
        blocks = side // 4
        rows: list[PrimExpr] = [held[0]] * side
        for place in range(4):
            columns = [held[4 * block + place] for block in range(blocks)]
            for block, vector in enumerate(self._blocks(columns)):
                rows[4 * block + place] = vector
        return _Transposed(self._steps, rows)

    def packed(self, rows: Sequence[PrimExpr], width: int) -> list[PrimExpr]:
        """The first `width` elements of each row, one row behind the other, in `width` vectors."""
        side, found = len(rows), []
        for vector in range(width):
            places = [divmod(vector * side + lane, width) for lane in range(side)]
            first, last = places[0][0], places[-1][0]
            held, own = rows[first], [column for _, column in places]
            for row in range(first + 1, last + 1):
                order = [
                    side + column if at == row else lane
                    for (at, column), lane in zip(places, own, strict=True)
                ]
                held, own = self._pair(held, rows[row], order), list(range(side))
            found.append(held)
        return found

    def _bind(self, value: PrimExpr) -> PrimExpr:
        var = Var("v", value.dtype)
        self._steps.append(Bind(var, value))
        return var

    def _riffled(self, vectors: list[PrimExpr]) -> list[PrimExpr]:
        """Each vector interleaved with that half of all behind it, lower halves and upper halves, as often as
        it takes: after a turn element e of row r is where element (2 e + r's highest bit) of row 2 r was."""
        side = len(vectors)
        half = side // 2
        for _ in range(side.bit_length() - 1):
            found = []
            for a, b in zip(vectors[:half], vectors[half:], strict=True):
                for begin in (0, half):
                    order = [place for k in range(begin, begin + half) for place in (k, side + k)]
                    found.append(self._pair(a, b, order))
            vectors = found
        return vectors

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
