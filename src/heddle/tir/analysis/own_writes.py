"""Whether an iteration of a loop reads from a buffer only what it wrote itself.

for i in range(4):                           yes: B[0:5] was written before
    for j in range(5): B[j] = f(A[i, j])
    for j in range(i): C[i] += B[j]

for i in range(4):                           no: other iterations wrote B[0:i]
    B[i] = f(A[i])
    for j in range(i): C[i] += B[j]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.arith import Analyzer
from heddle.arith.iters.iter_map import detect_iter_map
from heddle.ir.node import children
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import LT, PrimExpr, Range, constant, is_const_int
from heddle.prim.ops import conjuncts, maximum, minimum
from heddle.prim.substitute import free_vars, substitute
from heddle.support.frozen import frozen
from heddle.tir.analysis.access_region import AccessRegions, Box
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
)


@frozen
class _Access:
    """A load or store, and what is around it below the loop, outermost first; of a branch also which."""

    node: BufferLoad | BufferStore
    around: tuple[tuple[Any, bool], ...]


def reads_own_writes(loop: For, buffer: Buffer, around: Sequence[For]) -> bool:
    """Whether what an iteration reads was written by it before. `around` are the loops outside. False where
    that is not known."""
    found: list[_Access] = []
    _collect(loop.body, buffer, (), found)
    boxes = _Boxes(_inside(loop, around))
    return all(
        boxes.cover(found[:position], access, buffer)
        for position, access in enumerate(found)
        if isinstance(access.node, BufferLoad)
    )


def _inside(loop: For, around: Sequence[For]) -> Analyzer:
    analyzer = Analyzer()
    for outer in (*around, loop):
        analyzer.bind(outer.loop_var, Range.from_min_extent(outer.min, outer.extent), allow_override=True)
    return analyzer


def stays_apart(loop: For, buffer: Buffer, around: Sequence[For]) -> bool:
    """Whether the iterations touch parts of a dimension that lie one after the other: none reads what another
    one wrote, but maybe what was written before the loop. False where that is not known."""
    analyzer = _inside(loop, around)
    collector = AccessRegions(buffer)
    collector.visit(loop.body)
    boxes = [box for box in (collector.reads.get(buffer), collector.writes.get(buffer)) if box is not None]
    following = {loop.loop_var: loop.loop_var + 1}
    return any(
        all(
            analyzer.can_prove(high < substitute(low, following))
            for low in (box[dim][0] for box in boxes)
            for high in (box[dim][1] for box in boxes)
        )
        for dim in range(buffer.ndim)
    )


def _collect(node: Any, buffer: Buffer, around: tuple[tuple[Any, bool], ...], found: list[_Access]) -> None:
    """In the order in which they happen."""
    if isinstance(node, IfThenElse):
        _collect(node.condition, buffer, around, found)
        _collect(node.then_case, buffer, (*around, (node, True)), found)
        if node.else_case is not None:
            _collect(node.else_case, buffer, (*around, (node, False)), found)
        return
    below = (*around, (node, True)) if isinstance(node, Stmt) else around
    for child in children(node):
        _collect(child, buffer, below, found)
    if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer:
        found.append(_Access(node, around))


class _Boxes:
    """What stores fill, by the store and how many of the statements around it also hold the load."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._filled: dict[tuple[int, int], Box | None] = {}

    def cover(self, stores: Sequence[_Access], load: _Access, buffer: Buffer) -> bool:
        """Whether stores before a load, with the loops that they are in and the load is not, fill all that
        it reads with those that it is in alone."""
        by_depth: dict[int, list[Box]] = {}
        for store in stores:
            shared = _shared(store, load)
            box = self._box(store, shared)
            if box is not None:
                self._join(by_depth.setdefault(shared, []), box)
        return any(self._is_inside(load, shared, buffer, boxes) for shared, boxes in by_depth.items())

    def _join(self, boxes: list[Box], box: Box) -> None:
        """Add a box, to the last one where it continues that in one dimension."""
        if boxes:
            pairs = list(zip(boxes[-1], box, strict=True))
            apart = [k for k, (a, b) in enumerate(pairs) if not structural_equal(a, b)]
            if len(apart) == 1:
                (low, last), (first, high) = pairs[apart[0]]
                if self._analyzer.can_prove_equal(first, last + 1):
                    boxes[-1] = (*boxes[-1][: apart[0]], (low, high), *boxes[-1][apart[0] + 1 :])
                    return
        boxes.append(box)

    def _box(self, store: _Access, shared: int) -> Box | None:
        if shared == 0 or not isinstance(store.node, BufferStore) or store.node.predicate is not None:
            return None
        key = id(store.node), shared
        if key not in self._filled:
            known = self._at(store, shared)
            self._filled[key] = _filled(store.node, store.around[shared:], known)
        return self._filled[key]

    def _at(self, access: _Access, shared: int) -> Analyzer:
        known = self._analyzer.clone()
        for stmt, _ in access.around[:shared]:
            if isinstance(stmt, For):
                known.bind(stmt.loop_var, Range.from_min_extent(stmt.min, stmt.extent), allow_override=True)
        return known

    def _is_inside(self, load: _Access, shared: int, buffer: Buffer, boxes: Sequence[Box]) -> bool:
        """Whether one of the boxes holds what the load reads."""
        known = self._at(load, shared)
        read = _read(load.node, [stmt for stmt, _ in load.around[shared:] if isinstance(stmt, For)], buffer)
        return any(
            all(
                known.can_prove(low <= first) and known.can_prove(last <= high)
                for (low, high), (first, last) in zip(box, read, strict=True)
            )
            for box in boxes
        )


def _shared(store: _Access, load: _Access) -> int:
    """How many of the statements around a store hold a load too, if the ways part in a sequence; else 0."""
    shared = 0
    for (a, is_first), (b, is_same) in zip(store.around, load.around, strict=False):
        if a is not b or is_first is not is_same:
            break
        shared += 1
    return shared if shared and isinstance(store.around[shared - 1][0], SeqStmt) else 0


def _filled(store: BufferStore, around: Sequence[tuple[Any, bool]], analyzer: Analyzer) -> Box | None:
    """The box that a store under loops fills; None where it may leave holes."""
    ranges: dict[Any, Range] = {}
    conditions: list[PrimExpr] = []
    for stmt, is_then in around:
        if isinstance(stmt, For):
            ranges[stmt.loop_var] = Range.from_min_extent(stmt.min, stmt.extent)
        elif isinstance(stmt, IfThenElse) and is_then:
            conditions.extend(conjuncts(stmt.condition))
        elif not isinstance(stmt, SeqStmt):
            return None
    used = set(free_vars(*store.indices))
    if any(v not in used and not analyzer.can_prove(dom.extent >= 1) for v, dom in ranges.items()):
        return None
    found = detect_iter_map(store.indices, ranges, True, "surjective", analyzer=analyzer)
    if found.errors:
        return None
    box: list[tuple[PrimExpr, PrimExpr]] = []
    for digit in found.indices:
        if len(digit.args) > 1 or (digit.args and not is_const_int(digit.args[0].scale, 1)):
            return None
        extent = digit.args[0].extent if digit.args else constant(1, digit.base.dtype)
        box.append((digit.base, analyzer.simplify(digit.base + extent - 1)))
    return _clipped(box, store.indices, conditions)


def _clipped(
    box: list[tuple[PrimExpr, PrimExpr]], indices: Sequence[PrimExpr], conditions: Sequence[PrimExpr]
) -> Box | None:
    """What conditions `index < end` leave of a box; None for others."""
    for condition in conditions:
        if not isinstance(condition, LT):
            return None
        dims = [k for k, index in enumerate(indices) if structural_equal(condition.a, index)]
        if not dims:
            return None
        for k in dims:
            box[k] = (box[k][0], minimum(box[k][1], condition.b - 1))
    return tuple(box)


def _read(load: BufferLoad | BufferStore, loops: Sequence[For], buffer: Buffer) -> Box:
    """The box that a load under loops reads, inside the buffer."""
    stmt: Stmt = Evaluate(BufferLoad(buffer, load.indices))
    for loop in reversed(loops):
        stmt = For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, stmt)
    collector = AccessRegions(buffer)
    collector.visit(stmt)
    box = collector.reads[buffer]
    assert box is not None
    return tuple(
        (maximum(low, 0), minimum(high, size - 1))
        for (low, high), size in zip(box, buffer.shape, strict=True)
    )
