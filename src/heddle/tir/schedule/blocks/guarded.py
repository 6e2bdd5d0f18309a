"""Blocks that look at what others made under a condition.

    A[i] = f(i)                                          # for each i
    B[i] = Select(hidden[i], -1, A[i])                   # has a value where nobody made A[i], too

Whether all is made that is looked at shows best while loops are straight: `with_made_reads` notes it on the
blocks of a function before rules work on it.
"""

from __future__ import annotations

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import PrimExpr, Range, Var
from heddle.prim.substitute import free_vars
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.codes import T0407
from heddle.tir.nodes import Buffer, IterType, PrimFunc, SBlock, SBlockRealize
from heddle.tir.schedule.blocks.indexing import axis_of, reading_axes, store_indices
from heddle.tir.schedule.blocks.moved import is_guarded
from heddle.tir.schedule.coverage import leaves_out
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import Place, analyzer_at, find_block, places, replace_stmt, writes_buffer

MADE = "made"
"""Annotation of blocks that look at nothing that was not made."""


def check_guarded(func: PrimFunc, place: Place, buffer: Buffer) -> None:
    """A consumer that looks at what was made under a condition has a value also where nothing was made: the
    producer must go over as much as it does."""
    block: SBlock = place.stmt.block
    if MADE not in block.annotations and not _is_made(func, place, buffer):
        text = f"block {block.name_hint!r} reads {buffer.name!r} under a condition, and goes over more"
        raise ScheduleError(T0407, text, func, block)


def with_made_reads(func: PrimFunc) -> PrimFunc:
    """The function with a note on its maps, if its blocks look at nothing that was not made, and some look at
    what others made under a condition. A map that others are inlined into looks at what they did."""
    found = [find_block(func, realize.block.name_hint) for realize in blocks_in(func.body)]
    guarded = [
        (place, region.buffer)
        for place in found
        for region in place.stmt.block.reads
        if region.buffer not in func.buffers and is_guarded(place.stmt.block, region.buffer)
    ]
    if not guarded or not all(_is_made(func, place, buffer) for place, buffer in guarded):
        return func
    for place in found:
        block: SBlock = place.stmt.block
        if block.iter_vars and all(axis.iter_type is IterType.DataPar for axis in block.iter_vars):
            noted = replace(block, annotations=block.annotations.with_item(MADE, True))
            func = replace_stmt(func, block, noted)
    return func


def _is_made(func: PrimFunc, place: Place, buffer: Buffer) -> bool:
    """Whether nothing is looked at under a condition, or it is made wherever the block goes. Axes that run
    whole in each iteration need one iteration."""
    block: SBlock = place.stmt.block
    if not is_guarded(block, buffer):
        return True
    producers = [
        each for each in places(func) if isinstance(each.stmt, SBlockRealize) and each.stmt is not place.stmt
    ]
    read = reading_axes(func, block, buffer)
    for producer in producers:
        made: SBlock = producer.stmt.block
        if not writes_buffer(made, buffer) or blocks_in(made.body):
            continue
        stored = store_indices(made, buffer)
        same = all(
            _surely_runs(made, index) if axis is None else _goes_as_far(made, index, _domain(block, axis))
            for index, axis in zip(stored, read, strict=True)
        )
        may_not_run = any(
            not analyzer_at(producer).can_prove(each.extent >= 1)
            for each in producer.loops()
            if each.loop_var not in free_vars(*producer.stmt.iter_values)
        )
        if not same or may_not_run or leaves_out(func, producer):
            return False
    return True


def _surely_runs(made: SBlock, index: PrimExpr) -> bool:
    """Whether the axes of an index have values at all."""
    used = set(free_vars(index))
    return all(Analyzer().can_prove(axis.dom.extent >= 1) for axis in made.iter_vars if axis.var in used)


def _goes_as_far(made: SBlock, index: PrimExpr, domain: Range) -> bool:
    axis = axis_of(index, made)
    return axis is not None and _holds_domain(_domain(made, axis), domain)


def _domain(block: SBlock, var: Var) -> Range:
    return next(axis.dom for axis in block.iter_vars if axis.var is var)


def _holds_domain(outer: Range, inner: Range) -> bool:
    analyzer = Analyzer()
    is_same = structural_equal((outer.min, outer.extent), (inner.min, inner.extent))
    return is_same or (
        analyzer.can_prove(outer.min <= inner.min) and analyzer.can_prove(inner.end <= outer.end)
    )
