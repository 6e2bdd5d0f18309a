"""Cutting a loop into loops that run one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.prim.nodes import IntImm, PrimExpr, Var, as_expr, constant, is_const_int
from heddle.prim.ops import greater_equal, maximum, minimum
from heddle.prim.substitute import free_vars
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.codes import T0420
from heddle.tir.nodes import For, IterType, PrimFunc, SBlock, SBlockRealize, Stmt, seq
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import analyzer_at, find_loop, fresh_copy, replace_stmt
from heddle.tir.substitute import StmtSubstituter


def loop_partition(func: PrimFunc, loop_var: Var, factors: Sequence[Any]) -> tuple[PrimFunc, list[Var]]:
    """for i in range(n): f(i)   →   for i_0 in range(0, 4): f(i_0);  for i_1 in range(4, n): f(i_1)

    Each factor is how many iterations one of the loops takes; one may be None, which takes what is left.
    Together they must be all. A factor that may be negative counts as zero where it is. A reduction is
    initialised in the first loop, or in the one that has the only iteration.

    Raises: ScheduleError T0420 for factors that cannot be all, or where nothing would initialise a reduction.
    """
    place = find_loop(func, loop_var)
    loop: For = place.stmt
    analyzer = analyzer_at(place)
    bounds = _bounds(func, loop, factors, analyzer)
    made: list[Stmt] = []
    new_vars: list[Var] = []
    for k, (low, high) in enumerate(bounds):
        source = loop if k == 0 else fresh_copy(func.with_body(seq(func.body, *made)), loop)
        assert isinstance(source, For)
        begins = is_const_int(high - low, 1) if is_const_int(loop.extent, 1) else k == 0
        body = source.body if begins else _without_inits(func, source)
        if body is not source.body and not _runs_first(factors[0], bounds[0], loop, analyzer):
            raise ScheduleError(
                T0420,
                f"the first part of loop {loop_var.name!r} initialises a reduction and may have no iteration",
                func,
                loop,
                help="let the first factor be a number",
            )
        var = Var(f"{loop_var.name}_{k}", loop_var.dtype)
        body = StmtSubstituter({source.loop_var: var}).visit(body)
        made.append(replace(source, loop_var=var, min=low, extent=high - low, body=body))
        new_vars.append(var)
    return replace_stmt(func, loop, seq(*made)), new_vars


def _bounds(
    func: PrimFunc, loop: For, factors: Sequence[Any], analyzer: Analyzer
) -> list[tuple[PrimExpr, PrimExpr]]:
    """Where each loop begins and ends: never before the whole loop's begin, never beyond its end. The first
    does not run where its end is negative, as that of the first n - 2 of n iterations."""
    dtype, extent = loop.loop_var.dtype, loop.extent
    if not is_const_int(loop.min, 0) or sum(f is None for f in factors) > 1 or not factors:
        raise ScheduleError(
            T0420, f"loop {loop.loop_var.name!r} cannot be cut by {list(factors)}", func, loop
        )
    sizes = [None if f is None else as_expr(f, dtype) for f in factors]
    if any(isinstance(size, IntImm) and size.value <= 0 for size in sizes):
        raise ScheduleError(T0420, f"factors {list(factors)}: expected positive numbers", func, loop)
    simplify = analyzer.simplify
    sizes[1:] = [size if size is None else _not_negative(size, analyzer) for size in sizes[1:]]
    known: PrimExpr = constant(0, dtype)
    for size in sizes:
        known = known if size is None else known + size
    rest = simplify(maximum(extent - known, 0))
    bounds, begin, taken = [], constant(0, dtype), constant(0, dtype)
    for size in sizes:
        taken = simplify(taken + (rest if size is None else size))
        end = simplify(minimum(taken, extent))
        bounds.append((begin, end))
        begin = simplify(_not_negative(end, analyzer))
    left = simplify(extent - begin)
    if None not in factors and not is_const_int(left, 0):
        raise ScheduleError(
            T0420,
            f"factors {list(factors)} may leave out iterations of loop {loop.loop_var.name!r}",
            func,
            loop,
            help="leave one factor open (None)",
        )
    return bounds


def _runs_first(factor: Any, bounds: tuple[PrimExpr, PrimExpr], loop: For, analyzer: Analyzer) -> bool:
    """Whether the first part has an iteration wherever the whole loop has one."""
    size = bounds[1] - bounds[0] if factor is None else as_expr(factor, loop.loop_var.dtype)
    return analyzer.can_prove(greater_equal(size, 1))


def _not_negative(size: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    return size if analyzer.can_prove(greater_equal(size, 0)) else maximum(size, 0)


def _without_inits(func: PrimFunc, loop: For) -> Stmt:
    """The body of a later loop: reductions over it were initialised before."""
    changed: dict[int, SBlock] = {}
    is_once = is_const_int(loop.extent, 1)
    for realize in blocks_in(loop.body):
        block = realize.block
        pairs = list(zip(block.iter_vars, realize.iter_values, strict=True))
        reducing = [value for axis, value in pairs if axis.iter_type is IterType.CommReduce]
        spatial = [value for axis, value in pairs if axis.iter_type is not IterType.CommReduce]
        is_used, is_spatial = (loop.loop_var in free_vars(*values) for values in (reducing, spatial))
        if block.init is None or not (is_used or is_once):
            continue
        if is_spatial and not is_once:
            raise ScheduleError(
                T0420, f"loop serves spatial and reduction axes of block {block.name_hint!r}", func, loop
            )
        changed[id(block)] = with_access_regions(replace(block, init=None))
    return _ReplaceBlocks(changed).visit(loop.body) if changed else loop.body


class _ReplaceBlocks(StmtSubstituter):
    """Exchanges blocks, known by identity."""

    def __init__(self, changed: dict[int, SBlock]) -> None:
        super().__init__({})
        self._changed = changed

    def visit_SBlockRealize(self, node: SBlockRealize) -> Stmt:
        found = self._changed.get(id(node.block))
        return replace(node, block=found if found is not None else self.visit(node.block))
