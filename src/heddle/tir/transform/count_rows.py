"""CountRows: places along axes of free sizes are counted up from row to row, not divided out for each.

    for f in 0 .. n * h (parallel):          for block in 0 .. ceil(n * h / rows) (parallel):
        for i in 0 .. w:                         image, row = block * rows // h, block * rows % h
            A[f // h, f % h, i] = 1.0    →       for f in block * rows .. min(block * rows + rows, n * h):
                                                     for i in 0 .. w:
                                                         A[image, row, i] = 1.0
                                                     row += 1;  if row == h:  row = 0, image += 1

A division of 64 bits by a number that only the machine knows takes as long as some vectors of a row. Rows of
a block are at most those that are worth a thread.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heddle.ir.node import Map, replace
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk, walk_distinct
from heddle.prim.nodes import Call, FloorDiv, FloorMod, IntImm, PrimExpr, Var, constant, is_const_int
from heddle.prim.ops import cast, ceildiv, equal, floordiv, floormod, maximum, minimum
from heddle.support.frozen import frozen
from heddle.tir.fresh_definitions import defined_by
from heddle.tir.grain import GRAIN
from heddle.tir.nodes import (
    AllocBuffer,
    Bind,
    Buffer,
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

MOST_ROWS = 64
"""From here on nothing is gained."""


class CountRows(FunctionPass):
    """Loops on threads that have a grain. Runs before divisions are moved out of loops."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        body = _Counter().visit(func.body)
        return func if body is func.body else func.with_body(body)


@frozen
class _Digit:
    """A division of `whole`, the loop's variable or what is left of it, by a size: the place along an axis,
    and the rest for the axes before, both counted in cells and named for a row."""

    whole: PrimExpr
    size: PrimExpr
    cells: tuple[Buffer, Buffer]
    names: tuple[Var, Var]

    @staticmethod
    def of(whole: PrimExpr, size: PrimExpr) -> _Digit:
        dtype, one = whole.dtype, (constant(1, "int64"),)
        cells = decl_buffer(one, str(dtype), "place"), decl_buffer(one, str(dtype), "rest")
        return _Digit(whole, size, cells, (Var("at", dtype), Var("before", dtype)))


class _Counter(StmtRewriter):
    def visit_For(self, node: For) -> Any:
        digits = _digits(node)
        if digits:
            return _counted(node, digits)
        body = self.visit(node.body)
        return node if body is node.body else replace(node, body=body)


def _grain(loop: For) -> PrimExpr:
    grain = loop.annotations.get(GRAIN, 1)
    return grain if isinstance(grain, PrimExpr) else constant(int(grain), "int64")


def _digits(loop: For) -> list[_Digit]:
    """The divisions of a loop's variable that its body has, the last axis first; none where constants are all
    that it is divided by."""
    if loop.kind is not ForKind.PARALLEL or not is_const_int(loop.min, 0) or is_const_int(_grain(loop), 1):
        return []
    divisions = [node for node in walk_distinct(loop.body) if isinstance(node, (FloorDiv, FloorMod))]
    if all(isinstance(node.b, IntImm) for node in divisions):
        return []
    inside = {name for node in walk_distinct(loop) for name in defined_by(node)}
    divisions = [
        node for node in divisions if not any(part in inside or _acts(part) for part in walk(node.b))
    ]
    found: list[_Digit] = []
    whole: PrimExpr = loop.loop_var
    while True:
        size = next((node.b for node in divisions if structural_equal(node.a, whole)), None)
        if size is None:
            break
        found.append(_Digit.of(whole, size))
        whole = FloorDiv(whole, size)
    return found if any(not isinstance(digit.size, IntImm) for digit in found) else []


def _acts(part: Any) -> bool:
    return isinstance(part, BufferLoad) or (isinstance(part, Call) and not part.op.record.is_pure)


def _counted(loop: For, digits: list[_Digit]) -> Stmt:
    """Blocks of rows on threads, in each of which the rows are counted."""
    dtype = loop.loop_var.dtype
    least = cast(dtype, _grain(loop))
    rows, block, step = (Var(name, dtype) for name in ("rows", "block", "step"))
    first = Var("first", dtype)
    notes = Map({**loop.annotations, GRAIN: ceildiv(least, rows)})
    inner = seq(
        Bind(loop.loop_var, first + step),
        *(Bind(*pair) for digit in digits for pair in zip(digit.names, map(_get, digit.cells), strict=True)),
        _Places(digits).visit(loop.body),
        _next_row(digits),
    )
    body = seq(
        Bind(first, block * rows),
        *_begun(first, digits),
        For(step, constant(0, dtype), minimum(rows, loop.extent - first), ForKind.SERIAL, inner),
    )
    blocks = For(block, constant(0, dtype), ceildiv(loop.extent, rows), ForKind.PARALLEL, body, None, notes)
    return seq(Bind(rows, maximum(minimum(least, MOST_ROWS), 1)), blocks)


def _begun(first: Var, digits: list[_Digit]) -> list[Stmt]:
    """Places and rests of the first row of a block."""
    made: list[Stmt] = []
    whole: PrimExpr = first
    for digit in digits:
        place, rest = digit.cells
        made += [AllocBuffer(place), AllocBuffer(rest)]
        made += [_set(place, floormod(whole, digit.size)), _set(rest, floordiv(whole, digit.size))]
        whole = _get(rest)
    return made


def _next_row(digits: list[_Digit]) -> Stmt:
    """One more in the last place; a place that is full counts the one before it."""
    digit, *others = digits
    place, rest = digit.cells
    carry = [_set(place, constant(0, place.dtype)), _set(rest, _get(rest) + 1)]
    if others:
        carry.append(_next_row(others))
    return seq(_set(place, _get(place) + 1), IfThenElse(equal(_get(place), digit.size), seq(*carry)))


def _get(cell: Buffer) -> PrimExpr:
    return BufferLoad(cell, (constant(0, "int64"),))


def _set(cell: Buffer, value: PrimExpr) -> Stmt:
    return BufferStore(cell, value, (constant(0, "int64"),))


class _Places(Rewriter):
    """Divisions as what is counted."""

    def __init__(self, digits: list[_Digit]) -> None:
        self._digits = digits

    def _known(self, node: Any) -> Any:
        for digit in self._digits:
            if structural_equal(node.b, digit.size) and structural_equal(node.a, digit.whole):
                return digit.names[0 if isinstance(node, FloorMod) else 1]
        return self.default(node)

    visit_FloorDiv = visit_FloorMod = _known
