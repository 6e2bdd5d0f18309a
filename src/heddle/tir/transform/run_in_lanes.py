"""RunInLanes: loops that schedules mark → vector loops, and what is left over under a mask.

    for k in 0 .. n {reassoc}:            for l in 0 .. 64 (vectorized): sums[l] = 0.0
        s[0] = s[0] + A[k]                for b in 0 .. n // 64:
                                    →         for l in 0 .. 64 (vectorized): sums[l] = sums[l] + A[b * 64 + l]
                                          ... blocks of 16, then the last lanes where b * 16 + l < n ...
                                          for l in 0 .. 32 (vectorized): sums[l] = sums[l] + sums[l + 32]; ...
                                          s[0] = s[0] + sums[0]

    for i in 0 .. n {lanes}:              for b in 0 .. n // 16:
        B[i] = exp(A[i])            →         for l in 0 .. 16 (vectorized): B[b * 16 + l] = ...
                                          for l in 0 .. 16 (vectorized): if n // 16 * 16 + l < n: ...

A marked parallel loop becomes a parallel loop over runs of 1,024 elements, each of which is as above.
Unrolled loops inside a marked reduction are reductions side by side: each has vectors of its own, and all
take a step together.

The order of a sum depends on the width of the vectors alone, and on how many sums there are side by side. A
marked loop that is no reduction into one place, or no plain statement, or shorter than one vector, runs in
its own order. Requires: flat buffers. Runs before VectorizeLoop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar

from heddle.ir.node import replace
from heddle.ir.pass_options import option
from heddle.ir.structural import structural_equal
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import walk
from heddle.prim.nodes import Add, IntImm, Let, Max, Min, Mul, PrimExpr, Var, constant, is_const_int
from heddle.prim.ops import (
    ceildiv,
    const,
    floordiv,
    floormod,
    if_then_else,
    less,
    max_value,
    min_value,
    minimum,
)
from heddle.prim.substitute import free_vars, substitute
from heddle.runtime.dtype import DataType
from heddle.support.frozen import frozen
from heddle.tir.fresh_definitions import definitions, with_fresh_definitions
from heddle.tir.grain import GRAIN
from heddle.tir.nodes import (
    AllocBuffer,
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
from heddle.tir.substitute import substitute_stmt

REDUCTION, MAP = "reassoc", "lanes"
"""Annotations of serial loops, the second of parallel ones too."""
_RUN = 1024
"""Elements of a parallel loop that are one run of vectors."""
CHAINS = 4
"""Vectors that a reduction keeps: one addition takes as long as several can be under way."""
_CHAINS_SIDE_BY_SIDE = 8
"""Vectors of all reductions side by side, if those have no more themselves."""
_MOST_SIDE_BY_SIDE = 32
"""Reductions whose vectors may be registers."""
_Operator = type[Add] | type[Mul] | type[Max] | type[Min]
_IDENTITIES: dict[_Operator, Callable[[str], PrimExpr]] = {
    Add: lambda dtype: constant(0, dtype),
    Mul: lambda dtype: constant(1, dtype),
    Max: min_value,
    Min: max_value,
}


_Step = Callable[[PrimExpr, Var], Stmt]
"""What one lane does: from the loop's variable and the lane's number."""
_LastStep = Callable[[PrimExpr, Var, PrimExpr], Stmt]
"""As a step, with whether the lane is there."""


@frozen(slots=False)
class RunInLanes(FunctionPass):
    """`vector_bits` is the width of the target's vectors; 0 where it has none."""

    vector_bits: int = option(256, at_least=0)
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Loops(self.vector_bits).visit(func.body))


@frozen
class _Reduction:
    """`store` is target[index] = operator(target[index], term)."""

    store: BufferStore
    operator: _Operator
    term: PrimExpr


class _Loops(StmtRewriter):
    def __init__(self, vector_bits: int) -> None:
        self._bits = vector_bits

    def visit_For(self, node: For) -> Any:
        is_map = bool(node.annotations.get(MAP))
        marked = is_map if node.kind is ForKind.PARALLEL else node.annotations.get(REDUCTION) or is_map
        is_loop = node.kind in (ForKind.SERIAL, ForKind.PARALLEL)
        around = [] if is_map or not marked else _side_by_side(node)
        store = around[-1].body if around else node.body
        if not marked or not is_loop or not isinstance(store, BufferStore):
            return self.default(node)
        lanes = self._bits // max(8, store.value.dtype.bits)
        if lanes < 2 or (isinstance(node.extent, IntImm) and node.extent.value < lanes):
            return node
        if node.kind is ForKind.PARALLEL:
            return _runs(node, lanes)
        if is_map:
            step = _map_step(node)
            return seq(*_blocks(step, node.min, node.extent, lanes, _guarded(step)))
        found = reduction_of(replace(node, body=store))
        return node if found is None else _in_lanes(node, around, found, lanes)


def _side_by_side(loop: For) -> list[For]:
    """The unrolled loops inside a marked one, over reductions that take their steps together."""
    found: list[For] = []
    inner = loop.body
    while isinstance(inner, For) and inner.kind is ForKind.UNROLLED and isinstance(inner.extent, IntImm):
        found.append(inner)
        inner = inner.body
    is_few = prod(_extent(each) for each in found) <= _MOST_SIDE_BY_SIDE
    return found if is_few and all(is_const_int(each.min, 0) for each in found) else []


def _extent(loop: For) -> int:
    assert isinstance(loop.extent, IntImm)
    return int(loop.extent.value)


def _runs(loop: For, lanes: int) -> For:
    """A parallel loop over runs of vectors."""
    run = Var("run", loop.loop_var.dtype)
    begin, count = run * _RUN, ceildiv(loop.extent, _RUN)
    is_even = isinstance(loop.extent, IntImm) and loop.extent.value % _RUN == 0
    length = const(_RUN, run.dtype) if is_even else minimum(_RUN, loop.extent - begin)
    notes = loop.annotations
    if isinstance(grain := notes.get(GRAIN), int):
        notes = notes.with_item(GRAIN, max(1, grain // _RUN))
    step = _map_step(loop)
    body = seq(*_blocks(step, loop.min + begin, length, lanes, _guarded(step)))
    return replace(loop, loop_var=run, min=const(0, run.dtype), extent=count, body=body, annotations=notes)


def _map_step(loop: For) -> _Step:
    return lambda place, _lane: substitute_stmt(loop.body, {loop.loop_var: place})


def reduction_of(loop: For) -> _Reduction | None:
    """The reduction that a loop is, if its body is one into a place that does not move. Names that are bound
    around the operator are bound around the term: what is reduced into does not use them."""
    store = loop.body
    assert isinstance(store, BufferStore)
    value, bound = store.value, list[Let]()
    while isinstance(value, Let):
        bound.append(value)
        value = value.body
    if not isinstance(value, (Add, Mul, Max, Min)) or store.predicate is not None or value.dtype.bits < 16:
        return None
    data = store.buffer.data
    loads = [n for n in walk(store.value) if isinstance(n, BufferLoad) and n.buffer.data is data]
    if len(loads) != 1 or loads[0] is not value.a or not structural_equal(loads[0].indices, store.indices):
        return None
    if loop.loop_var in free_vars(*store.indices):
        return None
    term = value.b
    for binding in reversed(bound):
        term = replace(binding, body=term)
    return _Reduction(store, type(value), term)


def _in_lanes(loop: For, around: Sequence[For], found: _Reduction, lanes: int) -> Stmt:
    """Partial results in several vectors, then in one, then halves of it, and at last the place itself; the
    same for each of the reductions side by side."""
    dtype, index_dtype = found.store.value.dtype, loop.loop_var.dtype
    count = prod(_extent(each) for each in around)
    chains = max(1, min(CHAINS, _CHAINS_SIDE_BY_SIDE // count))
    is_short = isinstance(loop.extent, IntImm) and loop.extent.value < chains * lanes
    wide = lanes if is_short else chains * lanes
    partial = decl_buffer((count * wide,), str(dtype), f"{found.store.buffer.name}_lanes", scope="local")
    nothing, begins = _IDENTITIES[found.operator](str(dtype)), _number(around, index_dtype) * wide

    def step(place: PrimExpr, lane: Var) -> Stmt:
        term = substitute(found.term, {loop.loop_var: place})
        index = (begins + lane,)
        return _each(around, BufferStore(partial, found.operator(BufferLoad(partial, index), term), index))

    def last_step(place: PrimExpr, lane: Var, is_there: PrimExpr) -> Stmt:
        """All lanes are stored: a vector that is stored under a mask does not stay in a register."""
        term = if_then_else(is_there, substitute(found.term, {loop.loop_var: place}), nothing)
        index = (begins + lane,)
        return _each(around, BufferStore(partial, found.operator(BufferLoad(partial, index), term), index))

    first = Var("l", index_dtype)
    identity = BufferStore(partial, nothing, (first,))
    stmts: list[Stmt] = [AllocBuffer(partial), _vectors(first, count * wide, wide, identity)]
    begin, left = loop.min, loop.extent
    for width in dict.fromkeys((wide, lanes)):
        stmts += _blocks(step, begin, left, width, last_step if width == lanes else None)
        begin, left = begin + floordiv(left, width) * width, floormod(left, width)
    folds, half = list[Stmt](), wide
    while half > 1:
        half //= 2
        folds.append(_folded(found.operator, partial, begins, half, index_dtype))
    place = BufferLoad(found.store.buffer, found.store.indices)
    result = replace(found.store, value=found.operator(place, BufferLoad(partial, (begins,))))
    folded = _each(around, seq(*folds, result))
    return seq(*stmts, with_fresh_definitions(folded, definitions(folded)))


def _number(around: Sequence[For], dtype: DataType) -> PrimExpr:
    """Which of the reductions side by side it is."""
    number: PrimExpr = const(0, dtype)
    for loop in around:
        number = number * loop.extent + loop.loop_var
    return number


def _each(around: Sequence[For], body: Stmt) -> Stmt:
    """What is done for each of the reductions side by side."""
    for loop in reversed(around):
        body = replace(loop, body=body)
    return body


def _guarded(step: _Step) -> _LastStep:
    """The step in those lanes that are there."""
    return lambda place, lane, is_there: IfThenElse(is_there, step(place, lane))


def _blocks(
    step: _Step, begin: PrimExpr, extent: PrimExpr, width: int, last_step: _LastStep | None
) -> list[Stmt]:
    """Blocks of `width` steps from `begin` on, and what is left after the last of them if `last_step` says
    how."""
    block, lane, rest = (Var(name, extent.dtype) for name in ("block", "l", "l"))
    whole, stmts = floordiv(extent, width), list[Stmt]()
    if not is_const_int(whole, 0):
        body = _vector(lane, width, step(begin + block * width + lane, lane))
        stmts.append(For(block, const(0, extent.dtype), whole, ForKind.SERIAL, body))
    if last_step is not None and not is_const_int(floormod(extent, width), 0):
        offset = whole * width + rest
        stmts.append(_vector(rest, width, last_step(begin + offset, rest, less(offset, extent))))
    return [with_fresh_definitions(stmt, definitions(stmt)) for stmt in stmts]


def _vector(lane: Var, width: int, body: Stmt) -> For:
    return For(lane, const(0, lane.dtype), const(width, lane.dtype), ForKind.VECTORIZED, body)


def _vectors(lane: Var, count: int, width: int, body: Stmt) -> Stmt:
    """A statement for each of `count` lanes, vector by vector."""
    if count == width:
        return _vector(lane, width, body)
    number = Var("v", lane.dtype)
    moved = substitute_stmt(body, {lane: number * width + lane})
    every = const(count // width, lane.dtype)
    return For(number, const(0, lane.dtype), every, ForKind.UNROLLED, _vector(lane, width, moved))


def _folded(operator: _Operator, partial: Buffer, begins: PrimExpr, half: int, dtype: DataType) -> Stmt:
    """The lower half of the partial results combined with the upper one."""
    lane = Var("l", dtype)
    index: PrimExpr = begins + lane if half > 1 else begins
    value = operator(BufferLoad(partial, (index,)), BufferLoad(partial, (index + half,)))
    store = BufferStore(partial, value, (index,))
    return _vector(lane, half, store) if half > 1 else store
