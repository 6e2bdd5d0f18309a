"""Joining loops that stand side by side."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.arith import Analyzer
from heddle.ir.node import replace
from heddle.prim.nodes import IntImm, PrimExpr, Var, is_const_int
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.analysis.access_region import AccessRegions, Box
from heddle.tir.codes import T0420
from heddle.tir.nodes import For, ForKind, PrimFunc, Stmt, seq, statements
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import Place, find_loop, replace_stmt
from heddle.tir.substitute import StmtSubstituter


def merge(func: PrimFunc, loop_vars: Sequence[Var]) -> tuple[PrimFunc, Var]:
    """for i: B[i] = f(A[i]);  for j: C[j] = g(B[j])   →   for m: {B[m] = f(A[m]); C[m] = g(B[m])}

    The loops lie in nests that stand one after the other, equally deep and of equal extents, without other
    statements in them; the nests become one down to these loops. Two nests that share a buffer which one of
    them writes must touch a part of it in each iteration that no other iteration touches.
    """
    if len(loop_vars) < 2:
        raise ScheduleError(T0420, "expected two loops or more", func)
    places = [find_loop(func, var) for var in loop_vars]
    chains = _chains(func, places)
    tops = [chain[0] for chain in chains]
    parent = places[0].ancestors[-len(chains[0])]
    order = [id(stmt) for stmt in statements(parent)]
    first = order.index(id(tops[0])) if id(tops[0]) in order else 0
    if [id(top) for top in tops] != order[first : first + len(tops)]:
        raise ScheduleError(T0420, "the nests do not follow each other directly", func, tops[0])
    bodies = [chain[-1].body for chain in chains]
    for k, chain in enumerate(chains[1:], 1):
        _check_equal(func, chains[0], chain)
        mapping = {b.loop_var: a.loop_var for a, b in zip(chains[0], chain, strict=True)}
        bodies[k] = StmtSubstituter(mapping).visit(bodies[k])
    for k, body in enumerate(bodies):
        for earlier in bodies[:k]:
            _check_separate(func, chains[0], earlier, body)
    inner = chains[0][-1]
    merged = Var("_".join(var.name for var in loop_vars) + "_m", loop_vars[0].dtype)
    body = StmtSubstituter({inner.loop_var: merged}).visit(seq(*bodies))
    made: Stmt = replace(inner, loop_var=merged, body=body)
    for loop in reversed(chains[0][:-1]):
        made = replace(loop, body=made)
    for top in tops[1:]:
        func = replace_stmt(func, top, None)
    return replace_stmt(func, tops[0], made), merged


def _chains(func: PrimFunc, places: list[Place]) -> list[list[For]]:
    """Each loop with those around it up to the statements that stand side by side, outermost first."""
    shared = 0
    while all(len(p.ancestors) > shared for p in places) and all(
        p.ancestors[shared] is places[0].ancestors[shared] for p in places
    ):
        shared += 1
    chains: list[list[For]] = []
    for place in places:
        chain = [*place.ancestors[shared:], place.stmt]
        plain = all(isinstance(s, For) and s.kind is ForKind.SERIAL and not s.annotations for s in chain)
        if not plain or len(chain) != len(places[0].ancestors[shared:]) + 1:
            name = place.stmt.loop_var.name
            raise ScheduleError(
                T0420,
                f"loop {name!r}: expected serial loops alone, equally deep in each nest",
                func,
                place.stmt,
            )
        chains.append(chain)
    return chains


def _check_equal(func: PrimFunc, first: list[For], other: list[For]) -> None:
    analyzer = Analyzer()
    for a, b in zip(first, other, strict=True):
        zeros = is_const_int(a.min, 0) and is_const_int(b.min, 0)
        if not zeros or not analyzer.can_prove_equal(a.extent, b.extent):
            raise ScheduleError(
                T0420,
                f"loop {b.loop_var.name!r} runs over {b.extent} iterations from {b.min}, expected "
                f"{a.extent} from 0 as loop {a.loop_var.name!r}",
                func,
                b,
            )


def _check_separate(func: PrimFunc, loops: list[For], first: Stmt, second: Stmt) -> None:
    """Whether no iteration of one statement meets another iteration of the other."""
    merged = {loop.loop_var for loop in loops}
    a, b = AccessRegions(), AccessRegions()
    a.visit(first)
    b.visit(second)
    pairs = [(a.writes, b.reads), (a.reads, b.writes), (a.writes, b.writes)]
    for left, right in pairs:
        for buffer in set(left) & set(right):
            one, other = left[buffer], right[buffer]
            late = None
            if one is not None and other is not None:
                late = next((loop for loop in loops if not _is_own(loop.loop_var, merged, one, other)), None)
            if late is not None:
                raise ScheduleError(
                    T0420,
                    f"iterations of loop {late.loop_var.name!r} share parts of buffer {buffer.name!r}",
                    func,
                    late,
                )


def _is_own(var: Var, merged: set[Var], one: Box, other: Box) -> bool:
    """Whether both boxes have the same single index along some dimension, which is another one in every
    iteration and depends on no other of the merged loops."""
    analyzer = Analyzer()
    for (low, high), (low_b, high_b) in zip(one, other, strict=True):
        same = all(analyzer.can_prove_equal(low, end) for end in (high, low_b, high_b))
        following: PrimExpr = substitute(low, {var: var + 1})
        step = analyzer.simplify(following - low)
        alone = set(free_vars(low)) & merged <= {var}
        if same and alone and isinstance(step, IntImm) and step.value:
            return True
    return False
