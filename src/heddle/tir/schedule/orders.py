"""Whether loops may stand in another order, and whether a statement may run again."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import Var
from heddle.prim.substitute import free_vars
from heddle.tir.analysis.blocks import blocks_below, walk_stmts
from heddle.tir.analysis.commuting import commutes
from heddle.tir.nodes import BufferLoad, For, IterType, PrimFunc, SBlock, SBlockRealize, Stmt
from heddle.tir.schedule.independence import is_unit, keeps_contract, shared_by_iterations
from heddle.tir.schedule.tree import Place, replace_stmt


def first_dependent_pair(func: PrimFunc, before: Sequence[For], after: Sequence[For]) -> For | None:
    """A loop of a chain that may not stand in another order, None where all may."""
    blocks = blocks_below(before[-1].body)
    if len(blocks) == 1 and blocks[0] is before[-1].body and _may_run_in_order(blocks[0], before, after):
        return None
    position = {loop.loop_var: k for k, loop in enumerate(after)}
    free: dict[Var, bool] = {}

    def is_free(loop: For) -> bool:
        if loop.loop_var not in free:
            free[loop.loop_var] = shared_by_iterations(func, loop) is None
        return free[loop.loop_var]

    for k, outer in enumerate(before):
        for last, inner in enumerate(before[k + 1 :], k + 1):
            if position[outer.loop_var] > position[inner.loop_var]:
                if _reduce_together(blocks, outer, inner) or is_free(outer):
                    continue
                if not (is_free(inner) and _is_free_around(func, before[k : last + 1])):
                    return outer
    return None


def _is_free_around(func: PrimFunc, chain: Sequence[For]) -> bool:
    """Whether iterations of the innermost loop are independent also in different iterations of the others:
    those of i in `for j: for i: C[i + 2 * j] = ...` are only where j is the same."""
    *outer, inner = chain
    body: Stmt = inner.body
    for loop in reversed(outer):
        body = replace(loop, body=body)
    moved = replace(inner, body=body)
    return shared_by_iterations(replace_stmt(func, chain[0], moved), moved) is None


def _may_run_in_order(realize: SBlockRealize, before: Sequence[For], after: Sequence[For]) -> bool:
    """A block whose spatial iterations are apart and whose reduction keeps its order or may have any; and
    loops that it knows nothing of run it again, which changes nothing unless it adds to what it finds."""
    if not keeps_contract(realize.block):
        return False
    reducing = reduction_variables(realize)
    orders = [[loop.loop_var for loop in loops if loop.loop_var in reducing] for loops in (before, after)]
    if orders[0] != orders[1] and not commutes(realize.block):
        return False
    used = set(free_vars(*realize.iter_values))
    if all(loop.loop_var in used or is_unit(loop.extent) for loop in before):
        return True
    written = {region.buffer for region in realize.block.writes}
    return realize.block.init is None and not any(r.buffer in written for r in realize.block.reads)


def keeps_reduction_order(place: Place) -> bool:
    """Whether a block's reduction gives the same under loops over its axes, one after the other: it may have
    any order, or the loops go through its reduction axes so."""
    realize: SBlockRealize = place.stmt
    order: list[Var] = []
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if axis.iter_type is IterType.CommReduce:
            order += [var for var in free_vars(value) if var not in order]
    loops = [loop.loop_var for loop in place.loops() if loop.loop_var in order]
    return loops == [var for var in order if var in loops] or commutes(realize.block)


def changes_when_repeated(body: Stmt) -> SBlock | None:
    """A block that may give something else where a statement runs twice: one that changes what it finds. A
    reduction that begins anew inside of it does not, but for other elements that it reads of what it
    writes."""
    for realize in blocks_below(body):
        block = realize.block
        written = {region.buffer for region in block.writes}
        inside = {stmt.loop_var for stmt in walk_stmts(body) if isinstance(stmt, For)}
        is_again = block.init is not None and reduction_variables(realize) <= inside
        found = [r for r in block.reads if r.buffer in written]
        if is_again:
            kept = {node.buffer for node in walk_distinct(block.init) if isinstance(node, BufferLoad)}  # type: ignore[arg-type]
            found = [
                r for r in found if r.buffer in kept or not any(structural_equal(r, w) for w in block.writes)
            ]
        if found or (block.init is not None and not is_again):
            return block
    return None


def _reduce_together(blocks: Sequence[SBlockRealize], *loops: For) -> bool:
    """Whether loops are reduction loops of all blocks inside, whose reductions may run in any order."""
    variables = {loop.loop_var for loop in loops}
    return bool(blocks) and all(
        reduction_variables(each) >= variables and commutes(each.block) for each in blocks
    )


def reduction_variables(realize: SBlockRealize) -> set[Var]:
    """The variables in what a block's reduction axes are bound to."""
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return {var for axis, value in pairs if axis.iter_type is IterType.CommReduce for var in free_vars(value)}
