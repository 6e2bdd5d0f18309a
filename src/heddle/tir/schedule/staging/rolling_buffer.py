"""Keeping what consecutive iterations both need."""

from __future__ import annotations

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.prim.nodes import IntImm, PrimExpr, Range, constant
from heddle.prim.ops import equal, floormod, logical_and, logical_or
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.analysis.access_region import AccessRegions, Box
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.codes import T0418
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    PrimFunc,
    SBlock,
    Stmt,
    decl_buffer,
    statements,
)
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.staging.access import AccessRewriter, exchange_buffer
from heddle.tir.schedule.tree import (
    Place,
    analyzer_at,
    find_block,
    reads_buffer,
    replace_stmt,
    writes_buffer,
)


def rolling_buffer(func: PrimFunc, block_name: str, buffer: Buffer) -> PrimFunc:
    """for i: {for r in range(3): B[i + r] = f(A[i + r]);  C[i] = g(B[i..i+3])}

        →   for i: {for r in range(3): B[(i + r) % 3] = f(A[i + r]) where i == 0 or r >= 2;
                    C[i] = g(B[i % 3], ..., B[(i + 2) % 3])}

    For a producer that compute_at put into a serial loop whose windows overlap: the buffer holds one window,
    and each iteration computes only what the one before did not.
    """
    place = find_block(func, block_name)
    block: SBlock = place.stmt.block
    loop, nest = _shared_loop(func, place, buffer)
    inner = place.ancestors[[id(a) for a in place.ancestors].index(id(loop)) + 1 :]
    window = _box(nest, buffer, writes=True)
    if window is None:
        raise _refusal(func, block, "what it writes is not known")
    analyzer = analyzer_at(place)
    dim, size, step = _rolling_dimension(func, block, loop, window, analyzer)
    _check_others(func, block, buffer, loop, window, dim, inner)
    low = window[dim][0]
    store_index = next(r for r in block.writes if r.buffer is buffer).region[dim].min
    values = dict(zip((axis.var for axis in block.iter_vars), place.stmt.iter_values, strict=True))
    row: PrimExpr = substitute(store_index, values)
    is_new = logical_or(equal(loop.loop_var, loop.min), row >= low + (size - step))
    realize = replace(place.stmt, predicate=logical_and(place.stmt.predicate, is_new))
    func = replace_stmt(func, place.stmt, realize)
    shape = [*buffer.shape[:dim], constant(size, buffer.shape[dim].dtype), *buffer.shape[dim + 1 :]]
    small = decl_buffer(shape, buffer.dtype, buffer.name, scope=buffer.scope)
    return exchange_buffer(func, buffer, small, lambda: _Fold(buffer, small, dim, size))


def _refusal(func: PrimFunc, block: SBlock, why: str) -> ScheduleError:
    return ScheduleError(T0418, f"block {block.name_hint!r}: {why}", func, block)


def _shared_loop(func: PrimFunc, place: Place, buffer: Buffer) -> tuple[For, Stmt]:
    """The innermost loop that holds the block and all readers, and the part of its body with the block."""
    block: SBlock = place.stmt.block
    for depth in range(len(place.ancestors) - 1, -1, -1):
        around = place.ancestors[depth]
        if not isinstance(around, For):
            if isinstance(around, SBlock):
                break
            continue
        users = [r.block for r in blocks_in(around) if reads_buffer(r.block, buffer) and r.block is not block]
        if not users:
            continue
        path = [*place.ancestors[depth + 1 :], place.stmt]
        part = (
            path[1]
            if len(path) > 1 and path[0] is around.body and path[1] in statements(path[0])
            else path[0]
        )
        if around.kind is not ForKind.SERIAL:
            raise _refusal(func, block, f"loop {around.loop_var.name!r} is not serial")
        return around, part
    raise _refusal(func, block, "no loop holds it with those who read it; use compute_at first")


def _box(stmt: Stmt, buffer: Buffer, writes: bool) -> Box | None:
    found = AccessRegions()
    found.visit(stmt)
    return (found.writes if writes else found.reads).get(buffer)


def _rolling_dimension(
    func: PrimFunc, block: SBlock, loop: For, window: Box, analyzer: Analyzer
) -> tuple[int, int, int]:
    """The dimension along which the window moves, its size, and how far it moves."""
    moving: list[tuple[int, int, int]] = []
    for dim, (low, high) in enumerate(window):
        step = analyzer.simplify(substitute(low, {loop.loop_var: loop.loop_var + 1}) - low)
        size = analyzer.simplify(high - low + 1)
        if isinstance(step, IntImm) and step.value == 0:
            continue
        if not (isinstance(step, IntImm) and isinstance(size, IntImm) and 0 < step.value < size.value):
            raise _refusal(
                func,
                block,
                f"windows of {size} that move by {step} along dimension {dim} do not overlap in loop "
                f"{loop.loop_var.name!r}",
            )
        moving.append((dim, size.value, step.value))
    if len(moving) != 1:
        raise _refusal(
            func, block, f"its window moves along {len(moving)} dimensions in loop {loop.loop_var.name!r}"
        )
    return moving[0]


def _check_others(
    func: PrimFunc, block: SBlock, buffer: Buffer, loop: For, window: Box, dim: int, inner: tuple[Stmt, ...]
) -> None:
    """All uses lie in the loop, read inside the window, and the window is the same for its inner loops."""
    if buffer in func.buffers:
        raise _refusal(func, block, f"buffer {buffer.name!r} belongs to the caller")
    inside = {id(realize.block) for realize in blocks_in(loop)}
    analyzer = Analyzer()
    analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
    for realize in blocks_in(func.body):
        user = realize.block
        if not user.reads and not user.writes:
            continue
        is_user = reads_buffer(user, buffer) or writes_buffer(user, buffer)
        if is_user and id(user) not in inside:
            raise _refusal(func, block, f"block {user.name_hint!r} outside the loop uses {buffer.name!r}")
        if writes_buffer(user, buffer) and user is not block:
            raise _refusal(func, block, f"block {user.name_hint!r} too writes {buffer.name!r}")
    read = _box(loop.body, buffer, writes=False)
    low, high = window[dim]
    fits = (
        read is not None
        and analyzer.can_prove(read[dim][0] >= low)
        and analyzer.can_prove(read[dim][1] <= high)
    )
    if not fits:
        raise _refusal(func, block, f"what is read of {buffer.name!r} may lie outside the window")
    own = {stmt.loop_var for stmt in inner if isinstance(stmt, For)}
    if own & set(free_vars(low)):
        raise _refusal(func, block, "its window depends on an inner loop")


class _Fold(AccessRewriter):
    """Indices of one dimension become positions in the window."""

    def __init__(self, old: Buffer, new: Buffer, dim: int, size: int) -> None:
        super().__init__()
        self._old, self._new, self._dim, self._size = old, new, dim, size

    def _folded(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        at = floormod(indices[self._dim], constant(self._size, indices[self._dim].dtype))
        return (*indices[: self._dim], at, *indices[self._dim + 1 :])

    def load(self, node: BufferLoad) -> PrimExpr:
        return (
            replace(node, buffer=self._new, indices=self._folded(node.indices))
            if node.buffer is self._old
            else node
        )

    def store(self, node: BufferStore) -> Stmt:
        if node.buffer is not self._old:
            return node
        return replace(node, buffer=self._new, indices=self._folded(node.indices))
