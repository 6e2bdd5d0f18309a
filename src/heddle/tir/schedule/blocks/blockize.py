"""Making loops, or blocks that stand side by side, one block."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.arith.iters.iter_map import normalize_iter_map_to_expr
from heddle.arith.iters.iter_nodes import IterMark
from heddle.arith.iters.iter_subspace import subspace_divide
from heddle.ir.node import Map, replace
from heddle.ir.structural import structural_equal
from heddle.prim.nodes import LT, PrimExpr, Range, Var, constant, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import conjuncts
from heddle.prim.substitute import free_vars, substitute
from heddle.tir.analysis.access_region import block_access_regions, with_access_regions
from heddle.tir.analysis.blocks import blocks_below
from heddle.tir.codes import T0414
from heddle.tir.fresh_definitions import with_fresh_definitions
from heddle.tir.nodes import (
    For,
    ForKind,
    IterType,
    IterVar,
    PrimFunc,
    SBlock,
    SBlockRealize,
    SeqStmt,
    Stmt,
    seq,
    statements,
)
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.tree import (
    Place,
    analyzer_at,
    find_block,
    find_loop,
    fresh_block_name,
    replace_stmt,
    sole_block,
)
from heddle.tir.substitute import StmtSubstituter, substitute_stmt


def blockize(func: PrimFunc, loop_var: Var, preserve_unit_iters: bool = True) -> tuple[PrimFunc, str]:
    """for i_0: for i_1 in range(4): with sblock("B"): v = axis(i_0 * 4 + i_1); B[v] = f(A[v])

        →   for i_0:
                with sblock("B_o"):
                    v_o = axis(i_0)
                    for i_1 in range(4):
                        with sblock("B"):
                            v_i = axis(i_1)
                            B[v_o * 4 + v_i] = f(A[v_o * 4 + v_i])

    The loop must hold one block alone, whose axes each divide into a part from the loops around and a part
    from this loop and those inside. The initialisation of a reduction becomes that of the new block. Gives
    the new block's name.
    """
    place = find_loop(func, loop_var)
    loops, realize = sole_block(func, place.stmt, T0414)
    if realize.block.match_buffers:
        raise ScheduleError(T0414, "the block matches regions of buffers", func, realize.block)
    _check_begins_anywhere(func, realize.block)
    if any(is_const_int(loop.extent, 0) for loop in loops):  # of fused ones nothing says which axis is empty
        raise ScheduleError(T0414, "a loop runs no times", func, realize.block)
    parts = _Division(func, place, loops, realize, preserve_unit_iters)
    name = fresh_block_name(func, f"{realize.block.name_hint}_o")
    init_name = fresh_block_name(func, f"{realize.block.name_hint}_init")
    made = SBlock(tuple(parts.outer_axes), (), (), name, parts.body(), parts.init(init_name))
    values = tuple(parts.outer_values)
    whole = SBlockRealize(values, parts.outer_predicate, with_access_regions(made), span=realize.span)
    return replace_stmt(func, place.stmt, whole), name


def _check_begins_anywhere(func: PrimFunc, block: SBlock) -> None:
    """All elements begin before the first is updated: an update must look at its own alone."""
    reads, writes = block_access_regions(block)
    looked_at = {region.buffer for region in reads} & {region.buffer for region in writes}
    if block.init is not None and looked_at:
        name = next(iter(looked_at)).name
        raise ScheduleError(
            T0414, f"a reduction reads other elements of {name!r}, which it writes", func, block
        )


class _Division:
    """The axes of a block and of the block around it, made of the parts of its axes' values."""

    def __init__(
        self, func: PrimFunc, place: Place, loops: list[For], realize: SBlockRealize, keep_units: bool
    ) -> None:
        self.block, self.loops = realize.block, loops
        self._around = {loop.loop_var for loop in place.loops()}
        self.outer_axes: list[IterVar] = []
        self.outer_values: list[PrimExpr] = []
        self._inner: list[tuple[IterVar, PrimExpr]] = []
        self._mapping: dict[Var, PrimExpr] = {}
        divided = _divide(func, place, loops, realize)
        for axis, (outer, inner) in zip(self.block.iter_vars, divided, strict=True):
            self._mapping[axis.var] = self._split(axis, outer, inner, keep_units)
        if self.block.init is not None:
            _check_init(func, loops, realize, set(free_vars(*(value for _, value in self._inner))))
        self._place_conditions(func, realize)

    def _split(self, axis: IterVar, outer: IterMark, inner: IterMark, keep_units: bool) -> PrimExpr:
        value: PrimExpr = constant(0, axis.var.dtype)
        for mark, suffix in ((outer, "o"), (inner, "i")):
            value = value * mark.extent
            if is_const_int(mark.extent, 1) and not keep_units:
                continue
            dom = Range.from_min_extent(constant(0, axis.var.dtype), mark.extent)
            part = IterVar(dom, Var(f"{axis.var.name}_{suffix}", axis.var.dtype), axis.iter_type)
            at = normalize_iter_map_to_expr(mark)
            if suffix == "o":
                self.outer_axes.append(part)
                self.outer_values.append(at)
            else:
                self._inner.append((part, at))
            value = value + part.var
        return value

    def _place_conditions(self, func: PrimFunc, realize: SBlockRealize) -> None:
        """Each condition goes to the block whose loops it depends on."""
        inner_vars = {loop.loop_var for loop in self.loops}
        outer, inner = [], []
        for condition in conjuncts(realize.predicate):
            if not inner_vars & set(free_vars(condition)):
                outer.append(condition)
            else:
                inner.append(self._over_axes(func, realize, condition))
        self.outer_predicate, self._conditions = all_of(*outer), inner

    def _over_axes(self, func: PrimFunc, realize: SBlockRealize, condition: PrimExpr) -> PrimExpr:
        """A condition `value < end` on an axis's value, said of the axes: inside of the new block no variable
        of a loop around it is used."""
        inside = {loop.loop_var for loop in self.loops}
        pairs = zip(self.outer_axes, self.outer_values, strict=True)
        told = {value: axis.var for axis, value in pairs if isinstance(value, Var)}
        if isinstance(condition, LT):
            for axis, value in zip(self.block.iter_vars, realize.iter_values, strict=True):
                if structural_equal(value, condition.a):
                    at = {part.var: inner for part, inner in self._inner}
                    end = substitute(condition.b, told)
                    if not self._around & set(free_vars(end)):
                        return substitute(self._mapping[axis.var], at) < end  # type: ignore[no-any-return]
        if set(free_vars(condition)) <= inside:
            return condition
        raise ScheduleError(T0414, f"condition {condition} does not divide", func, realize)

    def body(self) -> Stmt:
        """The loops with the block, without its initialisation."""
        inner = substitute_stmt(replace(self.block, iter_vars=(), init=None), self._mapping)
        inner = replace(inner, iter_vars=tuple(axis for axis, _ in self._inner))
        values = tuple(value for _, value in self._inner)
        stmt: Stmt = SBlockRealize(values, all_of(*self._conditions), with_access_regions(inner))
        for loop in reversed(self.loops):
            stmt = replace(loop, body=stmt)
        return stmt

    def init(self, name: str) -> Stmt | None:
        """The initialisation under copies of the loops that spatial axes use."""
        if self.block.init is None:
            return None
        spatial = [(axis, value) for axis, value in self._inner if axis.iter_type is IterType.DataPar]
        used = set(free_vars(*(value for _, value in spatial)))
        kept = tuple(axis for axis, _ in spatial)
        body = substitute_stmt(self.block.init, self._mapping)
        made = with_access_regions(SBlock(kept, (), (), name, body))
        units = {loop.loop_var: loop.min for loop in self.loops if is_const_int(loop.extent, 1)}
        dropped = {loop.loop_var for loop in self.loops} - used - set(units)
        dropped |= {axis.var for axis in self.outer_axes if axis.iter_type is IterType.CommReduce}
        conditions = [substitute(c, units) for c in self._conditions if not dropped & set(free_vars(c))]
        stmt: Stmt = SBlockRealize(tuple(value for _, value in spatial), all_of(*conditions), made)
        for loop in reversed([loop for loop in self.loops if loop.loop_var in used]):
            stmt = replace(loop, body=stmt, kind=ForKind.SERIAL, annotations=Map())
        return with_fresh_definitions(stmt)


def _check_init(func: PrimFunc, loops: list[For], realize: SBlockRealize, told: set[Var]) -> None:
    """A loop that no inner axis tells of runs the block again: the init does not know its conditions."""
    for loop in loops:
        if loop.loop_var not in told and not is_const_int(loop.extent, 1):
            again = f"loop {loop.loop_var.name!r} runs all of block {realize.block.name_hint!r} again"
            raise ScheduleError(T0414, again, func, realize)


def _divide(
    func: PrimFunc, place: Place, loops: list[For], realize: SBlockRealize
) -> list[tuple[IterMark, IterMark]]:
    block = realize.block
    around = [*place.loops(), *loops]
    iters = {loop.loop_var: Range.from_min_extent(loop.min, loop.extent) for loop in around}
    starts = [axis.dom.min for axis in block.iter_vars]
    if not all(is_const_int(start, 0) for start in [*starts, *(loop.min for loop in around)]):
        raise ScheduleError(T0414, "expected loops and axes from 0", func, realize)
    zeros = {var: constant(0, var.dtype) for var in free_vars(*realize.iter_values) if var in iters}
    analyzer = analyzer_at(place)
    if not all(is_const_int(analyzer.simplify(substitute(v, zeros)), 0) for v in realize.iter_values):
        raise ScheduleError(T0414, f"the axes of block {block.name_hint!r} do not start at 0", func, realize)
    inner = {loop.loop_var for loop in loops}
    if any(var in inner for loop in loops for var in free_vars(loop.extent)):
        raise ScheduleError(T0414, "an inner loop's extent depends on an outer loop", func, loops[0])
    divided = subspace_divide(realize.iter_values, iters, inner, analyzer=analyzer)
    if not divided and block.iter_vars:
        values = ", ".join(map(str, realize.iter_values))
        raise ScheduleError(
            T0414,
            f"the axes ({values}) of block {block.name_hint!r} do not divide at loop "
            f"{loops[0].loop_var.name!r}",
            func,
            realize,
        )
    return divided[:-1]


def blockize_blocks(func: PrimFunc, names: Sequence[str]) -> tuple[PrimFunc, str]:
    """for i: {B[i] = f(A[i]); C[i] = g(B[i])}   →   for i: with sblock("B_C_o"): {B[i] = ...; C[i] = ...}

    The blocks, with loops around them, must follow each other directly. Each loop around them becomes an axis
    of the new block, spatial where all of them use it so. Gives the new block's name.
    """
    if not names:
        raise ScheduleError(T0414, "expected blocks", func)
    run, around = _run_of(func, [find_block(func, name) for name in names])
    axes, mapping = [], {}
    held = [realize for stmt in run for realize in blocks_below(stmt)]
    for loop in around:
        var = Var(f"v_{loop.loop_var.name}", loop.loop_var.dtype)
        dom = Range.from_min_extent(loop.min, loop.extent)
        axes.append(IterVar(dom, var, _kind_of(func, loop, held)))
        mapping[loop.loop_var] = var
    name = fresh_block_name(func, "_".join(names) + "_o")
    body = seq(*(StmtSubstituter(mapping).visit(stmt) for stmt in run))
    made = with_access_regions(SBlock(tuple(axes), (), (), name, body))
    whole = SBlockRealize(tuple(loop.loop_var for loop in around), constant(True), made)
    for stmt in run[1:]:
        func = replace_stmt(func, stmt, None)
    return replace_stmt(func, run[0], whole), name


def _run_of(func: PrimFunc, places: list[Place]) -> tuple[list[Stmt], list[For]]:
    """The statements that hold the blocks, side by side, and the loops around."""
    shared = 0
    paths = [(*place.ancestors, place.stmt) for place in places]
    while all(len(path) > shared + 1 for path in paths) and all(p[shared] is paths[0][shared] for p in paths):
        shared += 1
    if len(places) == 1:
        shared = len(paths[0]) - 1
    parent = paths[0][shared - 1]
    held = {id(path[shared]) for path in paths}
    order = list(statements(parent)) if isinstance(parent, SeqStmt) else [paths[0][shared]]
    positions = [k for k, stmt in enumerate(order) if id(stmt) in held]
    run = [order[k] for k in positions]
    blocks = sum(len(blocks_below(stmt)) for stmt in run)
    if positions != list(range(positions[0], positions[-1] + 1)) or blocks != len(places):
        raise ScheduleError(
            T0414, "the blocks do not follow each other directly, or others lie between", func, places[0].stmt
        )
    return run, Place(paths[0][shared], paths[0][:shared]).loops()


def _kind_of(func: PrimFunc, loop: For, held: list[SBlockRealize]) -> IterType:
    """What a loop is for all the blocks that use it."""
    kinds = {
        axis.iter_type
        for realize in held
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if loop.loop_var in free_vars(value)
    }
    if kinds <= {IterType.DataPar}:
        return IterType.DataPar
    if len(kinds) == 1:
        return kinds.pop()
    names = " and ".join(sorted(kind.name for kind in kinds))
    raise ScheduleError(T0414, f"loop {loop.loop_var.name!r} is {names} for the blocks", func, loop)
