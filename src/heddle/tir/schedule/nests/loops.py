"""Primitives on loops: split, fuse, reorder, and the kinds and annotations of loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from heddle.arith import Analyzer
from heddle.ir.node import Map, replace
from heddle.prim.nodes import IntImm, PrimExpr, Range, Var, as_expr, constant, is_const_int
from heddle.prim.ops import cast, ceildiv, logical_and, minimum
from heddle.prim.substitute import free_vars
from heddle.runtime.dtype import DataType
from heddle.tir.analysis.blocks import blocks_below
from heddle.tir.codes import T0403, T0404, T0405
from heddle.tir.nodes import For, ForKind, IterType, IterVar, PrimFunc, SBlock, SBlockRealize, Stmt
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.independence import shared_by_iterations
from heddle.tir.schedule.orders import changes_when_repeated, first_dependent_pair
from heddle.tir.schedule.tree import (
    HOLDS,
    Place,
    analyzer_at,
    find,
    find_loop,
    replace_stmt,
)
from heddle.tir.substitute import StmtSubstituter


class _Rebind(StmtSubstituter):
    """Replaces loop variables below a loop, simplifies block bindings and puts a predicate before those of
    the blocks met first, which may read elements that are there only where it holds.

    `made` are the loops that stand for the old one, and their extents. A loop of free extent stays in the
    bindings, also where it cannot run twice and its variable is always 0: perhaps it does not run at all.
    """

    def __init__(
        self,
        mapping: dict[Var, PrimExpr],
        place: Place,
        made: Iterable[tuple[Var, PrimExpr]],
        analyzer: Analyzer,
        predicate: PrimExpr | None = None,
    ) -> None:
        super().__init__(mapping)
        self._analyzer, self._predicate = analyzer, predicate
        around = [(loop.loop_var, loop.extent) for loop in place.loops()]
        self._free = {var for var, extent in (*around, *made) if not isinstance(extent, IntImm)}

    def visit_For(self, node: For) -> Any:
        low, extent = self.visit(node.min), self.visit(node.extent)
        if not isinstance(extent, IntImm):
            self._free.add(node.loop_var)
        self._analyzer.bind(node.loop_var, Range.from_min_extent(low, extent), allow_override=True)
        return replace(node, min=low, extent=extent, body=self.visit(node.body))

    def visit_SBlockRealize(self, node: SBlockRealize) -> Any:
        values = self._bindings([self.visit(value) for value in node.iter_values])
        predicate = self.visit(node.predicate)
        if self._predicate is not None:
            predicate = logical_and(self._predicate, predicate)
        return SBlockRealize(values, self._analyzer.simplify(predicate), node.block, span=node.span)

    def _bindings(self, values: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        simple = tuple(self._analyzer.simplify(value) for value in values)
        lost = self._free.intersection(free_vars(*values)).difference(free_vars(*simple))
        return tuple(
            value if lost.intersection(free_vars(value)) else short
            for value, short in zip(values, simple, strict=True)
        )


def split(
    func: PrimFunc, loop_var: Var, factors: Sequence[Any], disable_predication: bool = False
) -> tuple[PrimFunc, list[Var]]:
    """for i in range(n)  →  for i_0, i_1 in grid(ceildiv(n, f), f): with i = i_0 * f + i_1, where i < n

    Exactly one factor may be None: it takes what the others leave. Without None the product must cover the
    extent.
    """
    place = find_loop(func, loop_var)
    loop: For = place.stmt
    if not is_const_int(loop.min, 0) or sum(f is None for f in factors) > 1:
        raise ScheduleError(T0403, f"loop {loop_var.name!r} cannot be split by {list(factors)}", func, loop)
    dtype = loop_var.dtype
    analyzer = analyzer_at(place)
    extents = _split_extents(func, loop, factors, analyzer)
    new_vars = [Var(f"{loop_var.name}_{k}", dtype) for k in range(len(extents))]
    value: PrimExpr = constant(0, dtype)
    for var, extent in zip(new_vars, extents, strict=True):
        analyzer.bind(var, Range.from_min_extent(constant(0, dtype), extent))
        value = value * extent + var
    guard: PrimExpr | None = value < loop.extent
    if disable_predication or analyzer.can_prove(guard):
        guard = None
    pairs = list(zip(new_vars, extents, strict=True))
    body: Stmt = _Rebind({loop_var: value}, place, pairs, analyzer, guard).visit(loop.body)
    for k in reversed(range(len(new_vars))):
        kind = loop.kind if k == 0 else ForKind.SERIAL
        notes = loop.annotations if k == 0 else Map()
        body = For(
            new_vars[k],
            constant(0, dtype),
            extents[k],
            kind,
            body,
            loop.thread_binding,
            notes,
            span=loop.span,
        )
    return replace_stmt(func, loop, body), new_vars


def split_overlapping(func: PrimFunc, loop_var: Var, factor: int) -> tuple[PrimFunc, list[Var]]:
    """for i in range(13)   →   for i_0 in range(2): for i_1 in range(8): with i = min(i_0 * 8, 5) + i_1

    The last of the inner loops begins earlier where the factor does not divide the extent, so that none needs
    a condition. Iterations that run twice must not change what they find.
    """
    place = find_loop(func, loop_var)
    loop: For = place.stmt
    extent = loop.extent
    if not is_const_int(loop.min, 0) or not isinstance(extent, IntImm) or not 0 < factor <= extent.value:
        raise ScheduleError(
            T0403, f"loop {loop_var.name!r} cannot be split by {factor}, with an overlap", func, loop
        )
    if extent.value % factor:
        _check_may_run_twice(func, loop)
    begin, count = (constant(n, loop_var.dtype) for n in (0, -(-extent.value // factor)))
    return _tiled(func, place, factor, begin, count)


def split_part(
    func: PrimFunc, loop_var: Var, factor: int, begin: PrimExpr, count: PrimExpr
) -> tuple[PrimFunc, list[Var]]:
    """for i in range(n)   →   for i_0 in range(count): for i_1 in range(8):
                                   with i = min(begin + i_0 * 8, n - 8) + i_1

    A part of the iterations. The caller knows that the others run elsewhere, and that n >= 8 where the count
    is not 0. Iterations that run twice must not change what they find. The outer loop is annotated with what
    the caller knows.
    """
    place = find_loop(func, loop_var)
    loop: For = place.stmt
    if not is_const_int(loop.min, 0) or factor < 1:
        raise ScheduleError(T0403, f"loop {loop_var.name!r} cannot be split by {factor}", func, loop)
    _check_may_run_twice(func, loop)
    known = replace(loop, annotations=loop.annotations.with_item(HOLDS, loop.extent >= factor))
    func = replace_stmt(func, loop, known)
    return _tiled(func, find_loop(func, loop_var), factor, begin, count)


def _tiled(
    func: PrimFunc, place: Place, factor: int, begin: PrimExpr, count: PrimExpr
) -> tuple[PrimFunc, list[Var]]:
    """`count` runs of `factor` iterations from `begin` on, none of which goes beyond the end."""
    loop: For = place.stmt
    loop_var, dtype, analyzer = loop.loop_var, loop.loop_var.dtype, analyzer_at(place)
    outer, inner = (Var(f"{loop_var.name}_{k}", dtype) for k in range(2))
    for var, size in ((outer, count), (inner, constant(factor, dtype))):
        analyzer.bind(var, Range.from_min_extent(constant(0, dtype), size))
    value = minimum(begin + outer * factor, loop.extent - factor) + inner
    body = _Rebind({loop_var: value}, place, [(outer, count)], analyzer).visit(loop.body)
    body = For(inner, constant(0, dtype), constant(factor, dtype), ForKind.SERIAL, body, span=loop.span)
    return replace_stmt(func, loop, replace(loop, loop_var=outer, extent=count, body=body)), [outer, inner]


def _check_may_run_twice(func: PrimFunc, loop: For) -> None:
    changing = changes_when_repeated(loop.body)
    if changing is not None:
        raise ScheduleError(
            T0403,
            f"block {changing.name_hint!r} changes what it finds, and some of its iterations would run twice",
            func,
            loop,
        )
    shared = shared_by_iterations(func, loop)
    if shared is not None:
        raise ScheduleError(
            T0403,
            f"iterations of loop {loop.loop_var.name!r} share elements of buffer {shared.name!r}, and some "
            "would run again behind others",
            func,
            loop,
        )


def split_ragged(func: PrimFunc, loop_var: Var, factor: int) -> tuple[PrimFunc, list[Var]]:
    """for i in range(n)   →   for i_0 in range(ceildiv(n, 8)): for i_1 in range(min(8, n - i_0 * 8)): ...

    With i = i_0 * 8 + i_1. The last of the inner loops is shorter where the factor does not divide the
    extent, so that none needs a condition.
    """
    place = find_loop(func, loop_var)
    loop: For = place.stmt
    if not is_const_int(loop.min, 0) or factor < 1:
        raise ScheduleError(T0403, f"loop {loop_var.name!r} cannot be split by {factor}", func, loop)
    dtype, analyzer = loop_var.dtype, analyzer_at(place)
    outer, inner = (Var(f"{loop_var.name}_{k}", dtype) for k in range(2))
    count = analyzer.simplify(ceildiv(loop.extent, factor))
    analyzer.bind(outer, Range.from_min_extent(constant(0, dtype), count))
    length = analyzer.simplify(minimum(factor, loop.extent - outer * factor))
    analyzer.bind(inner, Range.from_min_extent(constant(0, dtype), length))
    value = outer * factor + inner
    body = _Rebind({loop_var: value}, place, [(outer, count), (inner, length)], analyzer).visit(loop.body)
    body = For(inner, constant(0, dtype), length, ForKind.SERIAL, body, span=loop.span)
    made = replace(loop, loop_var=outer, extent=count, body=body)
    return replace_stmt(func, loop, made), [outer, inner]


def _split_extents(func: PrimFunc, loop: For, factors: Sequence[Any], analyzer: Analyzer) -> list[PrimExpr]:
    dtype = loop.loop_var.dtype
    given = [None if f is None else as_expr(f, dtype) for f in factors]
    product: PrimExpr = constant(1, dtype)
    for factor in given:
        product = product if factor is None else product * factor
    if len(given) == 0 or any(isinstance(factor, IntImm) and factor.value < 1 for factor in given):
        raise ScheduleError(T0403, f"factors {list(factors)}: expected positive numbers", func, loop)
    if None not in factors and not analyzer.can_prove(product >= loop.extent):
        raise ScheduleError(
            T0403,
            f"factors {list(factors)} may leave out iterations of loop {loop.loop_var.name!r}",
            func,
            loop,
            help="leave one factor open (None)",
        )
    rest = analyzer.simplify(ceildiv(loop.extent, product))
    return [rest if factor is None else factor for factor in given]


def _nest(func: PrimFunc, loop_vars: Sequence[Var]) -> tuple[Place, list[For]]:
    """Loops that lie directly inside each other, outermost first."""
    place = find_loop(func, loop_vars[0])
    loops: list[For] = [place.stmt]
    for var in loop_vars[1:]:
        inner = loops[-1].body
        if not (isinstance(inner, For) and inner.loop_var is var):
            raise ScheduleError(
                T0404,
                f"loop {var.name!r} does not lie directly inside {loops[-1].loop_var.name!r}",
                func,
                loops[0],
            )
        loops.append(inner)
    return place, loops


def fuse(func: PrimFunc, loop_vars: Sequence[Var]) -> tuple[PrimFunc, Var]:
    """for i, j in grid(n, m)  →  for f in range(n * m): with i = f // m, j = f % m

    The made loop is of the outermost one's kind. If that one may run in any order, all must.
    """
    if not loop_vars:
        raise ScheduleError(T0404, "no loops are given to fuse", func)
    place, loops = _nest(func, loop_vars)
    if not all(is_const_int(loop.min, 0) for loop in loops):
        raise ScheduleError(T0404, "only loops from 0 can be fused", func, loops[0])
    if any(var in loop_vars for loop in loops for var in free_vars(loop.extent)):
        raise ScheduleError(T0404, "an inner loop's extent depends on an outer loop", func, loops[0])
    if loops[0].kind in (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING):
        for loop in loops[1:]:
            check_spatial(func, loop)
            check_independent(func, loop)
    dtype = max((var.dtype for var in loop_vars), key=lambda found: found.bits)
    fused = Var("_".join(loop.loop_var.name for loop in loops) + "_fused", dtype)
    analyzer = analyzer_at(place)
    extents = [cast(dtype, loop.extent) for loop in loops]
    total: PrimExpr = constant(1, dtype)
    for extent in extents:
        total = total * extent
    total = analyzer.simplify(total)
    analyzer.bind(fused, Range.from_min_extent(constant(0, dtype), total))
    mapping: dict[Var, PrimExpr] = {}
    rest: PrimExpr = fused
    for var, extent in reversed(list(zip(loop_vars, extents, strict=True))[1:]):
        if is_const_int(analyzer.simplify(extent), 0):
            # no iteration has a value to give, but the block is still in this loop
            mapping[var] = cast(var.dtype, rest)
            continue
        mapping[var] = cast(var.dtype, analyzer.simplify(rest % extent))
        rest = rest // extent
    mapping[loop_vars[0]] = cast(loop_vars[0].dtype, analyzer.simplify(rest))
    body = _Rebind(mapping, place, [(fused, total)], analyzer).visit(loops[-1].body)
    made = For(
        fused, constant(0, dtype), total, loops[0].kind, body, None, loops[0].annotations, span=loops[0].span
    )
    return replace_stmt(func, loops[0], made), fused


def reorder(func: PrimFunc, loop_vars: Sequence[Var]) -> PrimFunc:
    """for i, j, k in grid(n, m, l): f(i, j, k)   →   for k, j, i in grid(l, m, n): f(i, j, k)

    The given loops, here k and i, stand in the given order; other loops of their nest keep their places.
    The loops must lie on one chain without other statements between. Two loops change places only if
    iterations of one of them are independent, or if all blocks inside reduce over both.
    """
    if not loop_vars:
        raise ScheduleError(T0404, "no loops are given to reorder", func)
    places = {var: find_loop(func, var) for var in loop_vars}
    top = min(places.values(), key=lambda place: len(place.ancestors))
    chain: list[For] = [top.stmt]
    missing = set(loop_vars) - {top.stmt.loop_var}
    while missing:
        inner = chain[-1].body
        if not isinstance(inner, For):
            raise ScheduleError(T0404, "the loops do not lie on one chain", func, chain[-1])
        chain.append(inner)
        missing.discard(inner.loop_var)
    headers = iter([places[var].stmt for var in loop_vars])
    chosen = set(loop_vars)
    ordered = [next(headers) if loop.loop_var in chosen else loop for loop in chain]
    _check_dependent_extents(func, ordered)
    late = first_dependent_pair(func, chain, ordered)
    if late is not None:
        raise ScheduleError(T0404, f"iterations of loop {late.loop_var.name!r} depend on others", func, late)
    body: Stmt = chain[-1].body
    for header in reversed(ordered):
        body = replace(header, body=body)
    return replace_stmt(func, chain[0], body)


def _check_dependent_extents(func: PrimFunc, ordered: list[For]) -> None:
    seen: set[Var] = set()
    inner = {loop.loop_var for loop in ordered}
    for loop in ordered:
        late = [v for v in free_vars(loop.min, loop.extent) if v in inner and v not in seen]
        if late:
            raise ScheduleError(
                T0404, f"the bounds of {loop.loop_var.name!r} depend on {late[0].name!r}", func, loop
            )
        seen.add(loop.loop_var)


def set_kind(func: PrimFunc, loop_var: Var, kind: ForKind, thread: str | None = None) -> PrimFunc:
    """for i in range(n): C[i] = f(i)   →   for i in KIND(n): C[i] = f(i)   KIND: parallel, vectorized, unroll

    A parallel or vectorised loop must run over spatial axes only, and its iterations must be independent:
    none may touch an element that another one stores, unless both store the same.
    """
    loop: For = find_loop(func, loop_var).stmt
    if kind in (ForKind.PARALLEL, ForKind.VECTORIZED):
        check_spatial(func, loop)
        check_independent(func, loop)
    if kind is ForKind.VECTORIZED and not isinstance(loop.extent, IntImm):
        raise ScheduleError(T0405, f"loop {loop_var.name!r} has no constant extent to vectorise", func, loop)
    return replace_stmt(func, loop, replace(loop, kind=kind, thread_binding=thread))


def check_spatial(func: PrimFunc, loop: For) -> None:
    """Raises: ScheduleError T0405 where a loop runs over an axis that is not data-parallel."""
    for block, axis in _driven(loop):
        if axis.iter_type is not IterType.DataPar:
            raise ScheduleError(
                T0405,
                f"loop {loop.loop_var.name!r} runs over the {axis.iter_type.name} axis "
                f"{axis.var.name!r} of block {block.name_hint!r}",
                func,
                loop,
            )


def reduces(loop: For) -> bool:
    """Whether a loop runs over a reduction axis."""
    return any(axis.iter_type is IterType.CommReduce for _, axis in _driven(loop))


def _driven(loop: For) -> list[tuple[SBlock, IterVar]]:
    """The axes of blocks inside that a loop is in the values of."""
    return [
        (realize.block, axis)
        for realize in blocks_below(loop.body)
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if loop.loop_var in free_vars(value)
    ]


def check_independent(func: PrimFunc, loop: For) -> None:
    """Raises: ScheduleError T0405 where iterations of a loop share elements of a buffer."""
    shared = shared_by_iterations(func, loop)
    if shared is not None:
        raise ScheduleError(
            T0405,
            f"iterations of loop {loop.loop_var.name!r} share elements of buffer {shared.name!r}",
            func,
            loop,
        )


def add_unit_loop(func: PrimFunc, stmt: Any, is_loop: bool) -> tuple[PrimFunc, Var]:
    """C[i] = f(i)   →   for u in range(1): C[i] = f(i)"""
    place = find(func, lambda found: found is stmt if is_loop else getattr(found, "block", None) is stmt)
    assert place is not None
    var = Var("u", stmt.loop_var.dtype if is_loop else DataType("int64"))
    made = For(var, constant(0, var.dtype), constant(1, var.dtype), ForKind.SERIAL, place.stmt)
    return replace_stmt(func, place.stmt, made), var


def narrow(func: PrimFunc, loop_var: Var, extent: int | PrimExpr) -> PrimFunc:
    """for i in range(n): C[i] = f(i)   →   for i in range(m): C[i] = f(i)

    The caller knows that iterations from m on change nothing.
    """
    loop: For = find_loop(func, loop_var).stmt
    return replace_stmt(func, loop, replace(loop, extent=minimum(extent, loop.extent)))
