"""The sizes of a loop function: constants of it that parameters could stand for.

Constants of float32 count as sizes too, by their bits: layers of quantised networks differ in their scales.

    for i in T.parallel(448, annotations={"grain": 2}):      # 448 and 2 are sizes
        for j in T.vectorized(8):                            # 8 is none: it decides what code is made
            B[i // 56, j] = A[i // 56 + 24, j // 2]          # 56 and 24 are sizes, 2 is none

Sizes are the integer constants of indices, conditions, extents and values, below 2**30, dimensions
of the parameters' buffers, and the grain of parallel loops. What decides what code is made is none: extents
of loops that are unrolled or become vectors, of short serial ones, and of innermost ones that are a few
vectors; divisors, but where a row of a parallel loop that holds others divides once; memory of known size
that a function allocates; arguments of intrinsics; hints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heddle.ir.node import Map, map_children, replace
from heddle.ir.structural import structural_digest
from heddle.prim.intrinsics import reinterpret
from heddle.prim.nodes import Broadcast, Call, FloatImm, IntImm, PrimExpr, Ramp, Var
from heddle.prim.ops import cast
from heddle.prim.substitute import free_vars
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.tir.analysis.blocks import walk_stmts
from heddle.tir.dot_product import DOT_PRODUCT
from heddle.tir.grain import GRAIN
from heddle.tir.nodes import (
    AllocBuffer,
    AttrStmt,
    Buffer,
    Evaluate,
    For,
    ForKind,
    PrimFunc,
    SBlock,
)
from heddle.tir.substitute import StmtSubstituter

ROWS_LEFT = "rows_left"
"""Annotation of a loop over a tile's rows: how many are needed from its first on. The number falls from one
tile to the next by the rows of a tile."""

_SIZE_DTYPES = ("uint8", "int8", "int16", "int32", "int64")
_RUN_TIME_LOOPS = (ForKind.SERIAL, ForKind.PARALLEL)
_PLAIN_HINTS = frozenset((GRAIN, "disable_unroll", "sweep", DOT_PRODUCT, ROWS_LEFT))
"""Hints that ask for no other code where extents are other ones."""
_SHORT, _SHORT_ROW = 8, 64
"""Iterations that are unrolled, and those of a loop without others that are a few vectors: where their number
is not known, as few may all go to the loop for what vectors leave."""
_LARGEST = 1 << 30
"""Multiples and sums of sizes below this stay in int64."""
_PLACEHOLDER = 1


@frozen
class Sizes:
    """A function's sizes, in the order in which they are met. Functions of equal `form` differ in their
    `values` alone. `hints` are the positions of those in grains: they decide how fast, not
    what."""

    form: bytes
    values: tuple[int, ...]
    hints: frozenset[int]


def sizes_of(func: PrimFunc) -> Sizes:
    """The sizes of a function."""
    values: list[int] = []
    hints: set[int] = set()

    def note(size: IntImm, is_hint: bool) -> PrimExpr:
        if is_hint:
            hints.add(len(values))
        values.append(size.value)
        return IntImm(size.dtype, _PLACEHOLDER)

    return Sizes(structural_digest(_replaced(func, note)), tuple(values), frozenset(hints))


def with_sizes(func: PrimFunc, exprs: Mapping[int, PrimExpr], params: tuple[Var, ...]) -> PrimFunc:
    """A function with expressions over new scalar parameters in the place of the sizes at these positions."""
    position = -1

    def give(size: IntImm, is_hint: bool) -> PrimExpr:
        nonlocal position
        position += 1
        made = exprs.get(position)
        return size if made is None else made.astype(str(size.dtype))

    made = _replaced(func, give)
    return replace(made, params=(*made.params, *params))


def _replaced(func: PrimFunc, size: Callable[[IntImm, bool], PrimExpr]) -> PrimFunc:
    rewriter = _SizeRewriter(func.buffers, size)
    buffers = {param: rewriter.buffer(buffer) for param, buffer in func.buffer_map.items()}
    body = rewriter.visit(func.body)
    return replace(func, buffer_map=Map(buffers), body=body)


def _is_short(node: For) -> bool:
    """A serial loop that is unrolled where its extent is known, or that is a few vectors."""
    if node.kind is not ForKind.SERIAL or node.annotations.get("disable_unroll"):
        return False
    if not isinstance(node.extent, IntImm) or node.extent.value > _SHORT_ROW:
        return False
    return node.extent.value <= _SHORT or not any(isinstance(s, For) for s in walk_stmts(node.body))


class _SizeRewriter(StmtSubstituter):
    """Rewrites every size, in an order that depends on the function's structure alone."""

    def __init__(self, params: tuple[Buffer, ...], size: Callable[[IntImm, bool], PrimExpr]) -> None:
        super().__init__({})
        self._params, self._size = frozenset(params), size
        self._rows: set[Var] = set()  # variables of parallel loops
        self._in_hint = False

    def visit_IntImm(self, node: IntImm) -> PrimExpr:
        is_size = node.dtype in _SIZE_DTYPES and abs(node.value) < _LARGEST
        return self._size(node, self._in_hint) if is_size else node

    def visit_FloatImm(self, node: FloatImm) -> PrimExpr:
        if node.dtype != "float32":
            return node
        bits = IntImm(DataType("int64"), int(np.float32(node.value).view(np.uint32)))
        made = self._size(bits, self._in_hint)
        if made is bits:
            return node
        if isinstance(made, IntImm):  # a placeholder
            return FloatImm(node.dtype, 0.0)
        return reinterpret("float32", cast("int32", made))

    def visit_BinaryExpr(self, node: Any) -> Any:
        return map_children(node, self.visit)  # nothing is folded: the structure stays

    def _divided(self, node: Any) -> Any:
        if node.dtype.is_float:
            return map_children(node, self.visit)
        is_outside = all(var.is_size or var in self._rows for var in free_vars(node.a))
        divisor = self.visit if is_outside else self._operand
        return type(node)(self.visit(node.a), divisor(node.b), span=node.span)

    visit_FloorDiv = visit_FloorMod = visit_Div = visit_Mod = _divided

    def _operand(self, node: Any) -> Any:
        """An operand that is no size if it is a constant."""
        return node if isinstance(node, (IntImm, FloatImm)) else self.visit(node)

    def visit_Call(self, node: Any) -> Any:
        if not isinstance(node, Call):
            return map_children(node, self.visit)
        return replace(node, args=tuple(self._operand(arg) for arg in node.args))

    def visit_Ramp(self, node: Ramp) -> Ramp:
        return replace(node, base=self._operand(node.base))

    def visit_Broadcast(self, node: Broadcast) -> Broadcast:
        return replace(node, value=self._operand(node.value))

    def visit_Evaluate(self, node: Evaluate) -> Evaluate:
        return replace(node, value=self._operand(node.value))

    def visit_AttrStmt(self, node: AttrStmt) -> AttrStmt:
        return replace(node, body=self.visit(node.body))

    def visit_AllocBuffer(self, node: AllocBuffer) -> AllocBuffer:
        return node

    def visit_For(self, node: For) -> For:
        if not _PLAIN_HINTS.issuperset(node.annotations):
            return node
        if node.kind not in _RUN_TIME_LOOPS or _is_short(node):
            return replace(node, body=self.visit(node.body))
        first, extent = self.visit(node.min), self.visit(node.extent)
        if node.kind is ForKind.PARALLEL and any(isinstance(inner, For) for inner in walk_stmts(node.body)):
            self._rows.add(node.loop_var)
        notes = self._with_grain(node.annotations) if node.kind is ForKind.PARALLEL else node.annotations
        return replace(node, min=first, extent=extent, annotations=notes, body=self.visit(node.body))

    def _with_grain(self, notes: Map) -> Map:
        grain = notes.get(GRAIN)
        if grain is None:
            return notes
        given = grain if isinstance(grain, PrimExpr) else IntImm(DataType("int64"), int(grain))
        self._in_hint = True
        made = self.visit(given)
        self._in_hint = False
        return notes if made is given else notes.with_item(GRAIN, made)

    def visit_SBlock(self, node: SBlock) -> SBlock:
        bare = replace(node, annotations=Map())
        return replace(map_children(bare, self.visit), annotations=node.annotations)

    def _rebuild(self, old: Buffer) -> Buffer:
        is_free = any(not isinstance(dim, IntImm) for dim in old.shape)
        return super()._rebuild(old) if is_free or old in self._params else old
