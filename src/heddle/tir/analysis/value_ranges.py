"""Infer ranges of the integers that a loop function computes, from ranges of its inputs.

    out[i] = first[checked(at[i], 9)] + cast(x[i] < y[i])     first in [0, 7]   →   out in [0, 8]

Integers of tensors wrap around, unlike sizes and indices: if a result may leave its dtype, it may be any
value of the dtype. The analysis is flow-insensitive: the range of a buffer holds all values that are ever
stored in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from heddle.ir.visitor import walk_distinct
from heddle.prim.checked_index import CHECKED_INDEX, REQUIRE_INDEX
from heddle.prim.intrinsics import RAW_MEMORY
from heddle.prim.nodes import (
    Add,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType
from heddle.tir.nodes import (
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    PrimFunc,
    SBlock,
    SBlockRealize,
)

Range = tuple[int, int]
"""The least and the greatest value."""
_EMPTY: Range = (1, 0)
_ROUNDS = 3
"""So often a range may grow; then it is that of its dtype."""


def has_ranges(dtype: DataType) -> bool:
    """Whether values of a dtype have ranges: integers and bools, no vectors."""
    return dtype.lanes == 1 and (dtype.is_int or dtype.is_bool)


def union(a: Range, b: Range) -> Range:
    """The least range that holds both."""
    if a[0] > a[1]:
        return b
    return a if b[0] > b[1] else (min(a[0], b[0]), max(a[1], b[1]))


def value_ranges(func: PrimFunc, given: Mapping[Buffer, Range]) -> ValueRanges | None:
    """What a function computes where parameter buffers hold values in the given ranges; one that is not
    given, and that the function does not write, holds anything. None for a function that uses memory by
    address, or sees one buffer as two.
    """
    nodes = list(walk_distinct(func.body))
    if any(map(_hides_memory, nodes)):
        return None
    stores = [node for node in nodes if isinstance(node, BufferStore) and has_ranges(node.buffer.dtype)]
    found = ValueRanges()
    written = {store.buffer for store in stores}
    for buffer in func.buffers:
        if has_ranges(buffer.dtype):
            unknown = _EMPTY if buffer in written else int_range(buffer.dtype)
            found.buffers[buffer] = given.get(buffer, unknown)
    binders = [node for node in nodes if isinstance(node, (For, SBlockRealize, Bind, Let))]
    for turn in range(_ROUNDS + 1):
        before = dict(found.buffers), dict(found.scalars)
        for binder in binders:
            found.bind(binder, turn == _ROUNDS)
        for store in stores:
            found.store(store, turn == _ROUNDS)
        if before == (found.buffers, found.scalars):
            return found
    return found


def _hides_memory(node: Any) -> bool:
    if isinstance(node, Call):
        record = node.op.record
        return record.capability == RAW_MEMORY or not (record.is_pure or node.op.name == REQUIRE_INDEX)
    return isinstance(node, DeclBuffer) or (isinstance(node, SBlock) and bool(node.match_buffers))


@dataclass
class ValueRanges:
    """Ranges by buffer, and by variable for loops, blocks and bindings."""

    buffers: dict[Buffer, Range] = field(default_factory=dict)
    scalars: dict[Var, Range] = field(default_factory=dict)
    _known: dict[int, Range] = field(default_factory=dict)

    def bind(self, node: Any, is_last: bool) -> None:
        """Note what a statement or a `Let` binds."""
        self._known.clear()
        if isinstance(node, For):
            low, extent = self.of(node.min), self.of(node.extent)
            self._note(node.loop_var, (low[0], low[1] + max(extent[1] - 1, 0)), is_last)
        elif isinstance(node, SBlockRealize):
            for var, value in zip(node.block.iter_vars, node.iter_values, strict=True):
                self._note(var.var, self.of(value), is_last)
        elif has_ranges(node.var.dtype):
            self._note(node.var, self.of(node.value), is_last)

    def _note(self, var: Var, found: Range, is_last: bool) -> None:
        whole = int_range(var.dtype)
        joined = union(self.scalars.get(var, _EMPTY), _within(found, var.dtype))
        self.scalars[var] = whole if is_last and joined != self.scalars.get(var) else joined

    def store(self, node: BufferStore, is_last: bool) -> None:
        """Note what a store may write."""
        self._known.clear()
        before = self.buffers.get(node.buffer, _EMPTY)
        joined = union(before, self.of(node.value) if has_ranges(node.value.dtype) else _whole(node.buffer))
        self.buffers[node.buffer] = _whole(node.buffer) if is_last and joined != before else joined

    def of(self, expr: PrimExpr) -> Range:
        """The range of an integer or bool."""
        if isinstance(expr, IntImm):
            return expr.value, expr.value
        if isinstance(expr, Var):
            low, high = self.scalars.get(expr) or int_range(expr.dtype)
            return (max(low, 0), high) if expr.is_size else (low, high)
        if isinstance(expr, BufferLoad):
            return self.buffers.get(expr.buffer, _EMPTY) if has_ranges(expr.dtype) else int_range(expr.dtype)
        rule = _RULES.get(type(expr))
        if rule is None or not has_ranges(expr.dtype):
            return int_range(expr.dtype)
        found = self._known.get(id(expr))
        if found is None:
            found = self._known[id(expr)] = _within(rule(self, expr), expr.dtype)
        return found


def _whole(buffer: Buffer) -> Range:
    return int_range(buffer.dtype)


def _within(found: Range, dtype: DataType) -> Range:
    """What is certain not to wrap, or the whole dtype."""
    whole = int_range(dtype)
    return found if whole[0] <= found[0] and found[1] <= whole[1] else whole


def _corners(operation: Callable[[int, int], int]) -> Callable[[ValueRanges, Any], Range]:
    """Of operations whose extremes lie at the ends of their operands."""

    def rule(ranges: ValueRanges, node: Any) -> Range:
        a, b = ranges.of(node.a), ranges.of(node.b)
        if a[0] > a[1] or b[0] > b[1]:
            return _EMPTY
        found = [operation(x, y) for x in a for y in b]
        return min(found), max(found)

    return rule


def _floordiv(ranges: ValueRanges, node: Any) -> Range:
    a, b = ranges.of(node.a), ranges.of(node.b)
    if b[0] <= 0 or a[0] > a[1]:
        return int_range(node.dtype)
    found = [x // y for x in a for y in b]
    return min(found), max(found)


def _floormod(ranges: ValueRanges, node: Any) -> Range:
    a, b = ranges.of(node.a), ranges.of(node.b)
    if b[0] <= 0:
        return int_range(node.dtype)
    return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


def _cast(ranges: ValueRanges, node: Cast) -> Range:
    return ranges.of(node.value) if has_ranges(node.value.dtype) else int_range(node.dtype)


def _select(ranges: ValueRanges, node: Select) -> Range:
    return union(ranges.of(node.true_value), ranges.of(node.false_value))


def _let(ranges: ValueRanges, node: Let) -> Range:
    return ranges.of(node.body)


def _call(ranges: ValueRanges, node: Call) -> Range:
    name = node.op.name
    args: tuple[Any, ...] = node.args
    if name == CHECKED_INDEX:
        return 0, max(ranges.of(args[1])[1] - 1, 0)
    if name == "tir.if_then_else":
        return union(ranges.of(args[1]), ranges.of(args[2]))
    if name == "tir.likely":
        return ranges.of(args[0])
    if name == "tir.bitwise_and":
        tops = [found[1] for found in map(ranges.of, args) if found[0] >= 0]
        return (0, min(tops)) if tops else int_range(node.dtype)
    if name == "tir.shift_right":
        a, b = map(ranges.of, args)
        if b[0] >= 0 and b[1] < node.dtype.bits and a[0] <= a[1]:
            found = [x >> y for x in a for y in b]
            return min(found), max(found)
    return int_range(node.dtype)


_RULES: dict[type, Callable[[ValueRanges, Any], Range]] = {
    Add: _corners(lambda a, b: a + b),
    Sub: _corners(lambda a, b: a - b),
    Mul: _corners(lambda a, b: a * b),
    Min: _corners(min),
    Max: _corners(max),
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    Cast: _cast,
    Select: _select,
    Let: _let,
    Call: _call,
}
