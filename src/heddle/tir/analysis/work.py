"""Count the work of a loop function: arithmetic operations, and elements that it reads and writes.

Counts are scalar expressions over the function's symbolic sizes. A loop whose bounds depend on outer loops
counts with its largest extent.

Operations are `+ - * / min max` and the integer divisions in values that are stored, bound or evaluated, one
per lane. Comparisons, conditions, casts, selections, indices and calls of intrinsics (`exp`, `sqrt`) do not
count, but their operands do. A multiply-add counts as two. Of two branches, the more expensive one counts.
These are the rules of TVM's `estimate_tir_flops`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from heddle.arith import Analyzer, IntervalSet
from heddle.ir.module import IRModule
from heddle.ir.node import children
from heddle.prim.nodes import ArithExpr, IntImm, PrimExpr, Var, constant
from heddle.prim.ops import maximum
from heddle.prim.substitute import free_vars
from heddle.support.diagnostics import UsageError
from heddle.tir.codes import T0701
from heddle.tir.nodes import (
    AssertStmt,
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    SBlock,
    SBlockRealize,
    SeqStmt,
    Stmt,
    While,
)

ESTIMATED_FLOPS = "estimated_flops"
"""The attribute of a function that states its operation count, which then is not computed."""


def _int64(value: int) -> PrimExpr:
    return constant(value, "int64")


@dataclass(slots=True)
class Work:
    """The number of arithmetic operations, and the number of accessed elements per buffer."""

    flops: PrimExpr = field(default_factory=lambda: _int64(0))
    reads: dict[Buffer, PrimExpr] = field(default_factory=dict)
    writes: dict[Buffer, PrimExpr] = field(default_factory=dict)


def work_of(func: PrimFunc) -> Work:
    """Return the work of one call. Raises: UsageError T0701 if it depends on data (a `while` loop, or a loop
    bound that is loaded from a buffer)."""
    counter = _Counter()
    counter.stmt(func.body, _int64(1))
    return counter.finish()


def estimate_tir_flops(given: IRModule | PrimFunc | Stmt) -> float | PrimExpr:
    """Return the number of arithmetic operations of a statement, of one call of a function, or of all
    functions of a module: a number, or an expression if there are symbolic sizes.

    Raises: UsageError T0701 as `work_of`.
    """
    if isinstance(given, IRModule):
        parts = [_flops(func) for func in given.functions.values() if isinstance(func, PrimFunc)]
    else:
        parts = [_flops(given)]
    total: PrimExpr = _int64(0)
    for part in parts:
        total = total + part
    total = Analyzer().simplify(total)
    return float(total.value) if isinstance(total, IntImm) else total


def _flops(given: PrimFunc | Stmt) -> PrimExpr:
    if isinstance(given, PrimFunc):
        stated = given.attrs.get(ESTIMATED_FLOPS)
        return work_of(given).flops if stated is None else _int64(int(stated))
    counter = _Counter()
    counter.stmt(given, _int64(1))
    return counter.finish().flops


class _Counter:
    """Walks statements with the number of times that each is run."""

    def __init__(self) -> None:
        self._work = Work()
        self._analyzer = Analyzer()
        self._loops: dict[Var, IntervalSet] = {}

    def finish(self) -> Work:
        simplify = self._analyzer.simplify
        work = self._work
        return Work(
            simplify(work.flops),
            {buffer: simplify(count) for buffer, count in work.reads.items()},
            {buffer: simplify(count) for buffer, count in work.writes.items()},
        )

    def stmt(self, node: Any, times: PrimExpr) -> None:
        if isinstance(node, For):
            self._for(node, times)
        elif isinstance(node, SeqStmt):
            for inner in node.seq:
                self.stmt(inner, times)
        elif isinstance(node, SBlockRealize):
            self._block(node.block, times)
        elif isinstance(node, SBlock):
            self._block(node, times)
        elif isinstance(node, BufferStore):
            self._access(self._work.writes, node.buffer, times, node.indices)
            self._value(node.value, times)
        elif isinstance(node, IfThenElse):
            self._branches(node, times)
        elif isinstance(node, While):
            raise UsageError(T0701, "how often a while loop runs depends on data", span=node.span)
        elif isinstance(node, Bind):
            self._value(node.value, times)
        elif isinstance(node, AssertStmt):
            return
        else:
            for child in children(node):
                if isinstance(child, Stmt):
                    self.stmt(child, times)
                elif isinstance(child, PrimExpr):
                    self._value(child, times)

    def _for(self, node: For, times: PrimExpr) -> None:
        extent = self._greatest(node.extent)
        self._loops[node.loop_var] = IntervalSet(node.min, node.min + node.extent - 1)
        self.stmt(node.body, times * _as_int64(extent))

    def _greatest(self, extent: PrimExpr) -> PrimExpr:
        """An extent with outer loop variables at their worst."""
        if any(isinstance(node, BufferLoad) for node, _ in _parts(extent)):
            raise UsageError(T0701, "a loop's extent is loaded from a buffer", span=extent.span)
        for _ in range(len(self._loops) + 1):
            inner = [var for var in free_vars(extent) if var in self._loops]
            if not inner:
                return extent
            extent = self._analyzer.int_set(extent, {var: self._loops[var] for var in inner}).max_value
        raise UsageError(T0701, "a loop's extent has no bound in the function's sizes", span=extent.span)

    def _block(self, block: SBlock, times: PrimExpr) -> None:
        for axis in block.iter_vars:
            self._loops[axis.var] = IntervalSet(axis.dom.min, axis.dom.min + axis.dom.extent - 1)
        if block.init is not None:
            self.stmt(block.init, times)
        self.stmt(block.body, times)

    def _branches(self, node: IfThenElse, times: PrimExpr) -> None:
        """Both branches' accesses are kept at the greater number; of the operations the dearer branch's."""
        before = self._work
        found = []
        for case in (node.then_case, node.else_case):
            self._work = Work()
            if case is not None:
                self.stmt(case, times)
            found.append(self._work)
        self._work = before
        first, second = found
        before.flops = before.flops + maximum(first.flops, second.flops)
        for table, pair in (
            (before.reads, (first.reads, second.reads)),
            (before.writes, (first.writes, second.writes)),
        ):
            for buffer in {**pair[0], **pair[1]}:
                more = maximum(pair[0].get(buffer, _int64(0)), pair[1].get(buffer, _int64(0)))
                table[buffer] = table.get(buffer, _int64(0)) + more

    def _access(
        self, table: dict[Buffer, PrimExpr], buffer: Buffer, times: PrimExpr, indices: tuple[PrimExpr, ...]
    ) -> None:
        _add(table, buffer, times, _lanes(indices))
        self._loads(indices, times)

    def _loads(self, exprs: Iterable[Any], times: PrimExpr) -> None:
        """Loads are accesses, those inside indices too; arithmetic there is not counted. They are counted as
        numbers first: a value may load an element a thousand times."""
        counts: dict[Buffer, int] = {}
        left = list(exprs)
        while left:
            for node, _ in _parts(left.pop()):
                if isinstance(node, BufferLoad):
                    counts[node.buffer] = counts.get(node.buffer, 0) + _lanes(node.indices)
                    left += node.indices
        for buffer, count in counts.items():
            _add(self._work.reads, buffer, times, count)

    def _value(self, expr: Any, times: PrimExpr) -> None:
        self._loads((expr,), times)
        operations = sum(
            node.dtype.lanes
            for node, in_condition in _parts(expr)
            if isinstance(node, ArithExpr) and not in_condition
        )
        if operations:
            self._work.flops = self._work.flops + times * operations


def _add(table: dict[Buffer, PrimExpr], buffer: Buffer, times: PrimExpr, count: int) -> None:
    table[buffer] = table.get(buffer, _int64(0)) + times * count


def _lanes(indices: tuple[PrimExpr, ...]) -> int:
    """How many elements an access is."""
    return max((index.dtype.lanes for index in indices), default=1)


def _parts(expr: Any) -> list[tuple[Any, bool]]:
    """The nodes of a value, and whether each lies in a condition. What is inside the indices of a load is
    left to who counts that access."""
    found: list[tuple[Any, bool]] = []
    stack: list[tuple[Any, bool]] = [(expr, False)]
    while stack:
        node, in_condition = stack.pop()
        in_condition = in_condition or (isinstance(node, PrimExpr) and node.dtype.is_bool)
        found.append((node, in_condition))
        if isinstance(node, PrimExpr) and not isinstance(node, BufferLoad):
            stack.extend((child, in_condition) for child in children(node))
    return found


def _as_int64(expr: PrimExpr) -> PrimExpr:
    return expr if expr.dtype == "int64" else expr.astype("int64")
