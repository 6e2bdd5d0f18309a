"""Other axes for a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heddle.arith import Analyzer
from heddle.arith.sizes import product
from heddle.ir.node import replace
from heddle.prim.nodes import PrimExpr, Range, Var, constant, is_const_int
from heddle.prim.ops import cast
from heddle.prim.substitute import free_vars
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.commuting import commutes
from heddle.tir.codes import T0416
from heddle.tir.index_map import IndexMap
from heddle.tir.nodes import ForKind, IterType, IterVar, PrimFunc, SBlock, SBlockRealize, Stmt
from heddle.tir.schedule.blocks.nest import numbered_nest
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.independence import keeps_contract
from heddle.tir.schedule.tree import find_block, replace_stmt, sole_block
from heddle.tir.substitute import substitute_stmt


def transform_block_layout(func: PrimFunc, block_name: str, index_map: IndexMap) -> PrimFunc:
    """for i, j in grid(2, 8): B[i, j] = f(A[i, j])

        →   for f in range(16): B[f // 8, f % 8] = f(A[f // 8, f % 8])

    The map, here `i * 8 + j`, gives the new axes from the old; it must be affine and reach every point of
    their ranges once. New axes may mix only old axes of one kind. The block's iterations must be free to run
    in any order: no spatial axis carries values to its next point. The loops around, which must run straight
    over the axes and hold nothing else, are made anew.
    """
    place = find_block(func, block_name)
    realize: SBlockRealize = place.stmt
    block = realize.block
    axes = {axis.var: axis for axis in block.iter_vars}
    if len(index_map.initial_indices) != len(axes):
        raise ScheduleError(
            T0416,
            f"block {block_name!r} has {len(axes)} axes, the map takes {len(index_map.initial_indices)}",
            func,
            block,
        )
    if not keeps_contract(block):
        raise ScheduleError(
            T0416,
            f"iterations of block {block_name!r} may depend on others, and keep their order",
            func,
            block,
        )
    _check_order_of_reduction(func, block, index_map)
    shape = [axis.dom.extent for axis in block.iter_vars]
    back, extents = index_map.inverse(shape), index_map.map_shape(shape)
    reaches_all = Analyzer().can_prove_equal(
        product(extents), product(shape)
    )  # 4 * i leaves three of four out
    if back is None or not reaches_all or not all(is_const_int(axis.dom.min, 0) for axis in block.iter_vars):
        raise ScheduleError(
            T0416, f"the map is no bijection of the axes of block {block_name!r}", func, block
        )
    made = []
    old = dict(zip(index_map.initial_indices, block.iter_vars, strict=True))
    for k, (index, extent) in enumerate(zip(index_map.final_indices, extents, strict=True)):
        kinds = {old[var].iter_type for var in free_vars(index) if var in old} or {IterType.DataPar}
        if len(kinds) > 1:
            raise ScheduleError(
                T0416, f"new axis {k} of block {block_name!r} mixes spatial and reduction axes", func, block
            )
        dtype = extent.dtype
        made.append(
            IterVar(Range.from_min_extent(constant(0, dtype), extent), Var(f"v{k}", dtype), kinds.pop())
        )
    values = back.map_indices([axis.var for axis in made])
    pairs = zip(block.iter_vars, values, strict=True)
    mapping = {axis.var: cast(axis.var.dtype, value) for axis, value in pairs}
    changed = substitute_stmt(replace(block, iter_vars=()), mapping)
    changed = with_access_regions(replace(changed, iter_vars=tuple(made)))
    return replace_stmt(func, _straight_nest(func, block_name), numbered_nest(changed, span=realize.span))


def _check_order_of_reduction(func: PrimFunc, block: SBlock, index_map: IndexMap) -> None:
    """A reduction keeps the order of its axes, each as it is, or must be one that may have any."""
    reducing = {
        var
        for var, axis in zip(index_map.initial_indices, block.iter_vars, strict=True)
        if axis.iter_type is IterType.CommReduce and not is_const_int(axis.dom.extent, 1)
    }
    order = [index for index in index_map.final_indices if reducing & set(free_vars(index))]
    if order != [var for var in index_map.initial_indices if var in reducing] and not commutes(block):
        text = f"the reduction of block {block.name_hint!r} is not known to give the same in any order"
        raise ScheduleError(T0416, text, func, block)


def _straight_nest(func: PrimFunc, block_name: str) -> Stmt:
    """The loops that run over a block's axes one by one, in any order."""
    place = find_block(func, block_name)
    realize: SBlockRealize = place.stmt
    loops = place.loops()
    own = {value for value in realize.iter_values if isinstance(value, Var)}
    extents = {loop.loop_var: loop.extent for loop in loops}
    pairs = list(zip(realize.block.iter_vars, realize.iter_values, strict=True))
    are_whole = all(_is_whole(axis.dom, value, extents) for axis, value in pairs)
    straight = all(
        loop.loop_var in own and loop.kind is ForKind.SERIAL and is_const_int(loop.min, 0) for loop in loops
    )
    if not are_whole or not straight or len(own) != len(loops) or not is_const_int(realize.predicate, 1):
        raise ScheduleError(
            T0416, f"the loops do not run straight over the axes of block {block_name!r}", func, realize
        )
    if not loops:
        return realize
    sole_block(func, loops[0], T0416)
    return loops[0]


def _is_whole(domain: Range, value: PrimExpr, extents: Mapping[Var, PrimExpr]) -> bool:
    """Whether a loop runs over a whole axis, or the axis has one point."""
    size = extents.get(value) if isinstance(value, Var) else constant(1, value.dtype)
    is_place = isinstance(value, Var) or is_const_int(value, 0)
    return is_place and size is not None and Analyzer().can_prove_equal(size, domain.extent)


def reorder_block_iter_var(func: PrimFunc, block_name: str, new_order: Sequence[int]) -> PrimFunc:
    """with sblock: i, j = axes(a, b)   →   with sblock: j, i = axes(b, a)      for new_order = [1, 0]

    The order of axes means nothing to the program; intrinsics are matched by it.
    """
    realize: SBlockRealize = find_block(func, block_name).stmt
    block = realize.block
    if sorted(new_order) != list(range(len(block.iter_vars))):
        raise ScheduleError(
            T0416,
            f"{list(new_order)} is no order of the {len(block.iter_vars)} axes of {block_name!r}",
            func,
            block,
        )
    axes = tuple(block.iter_vars[k] for k in new_order)
    values: tuple[PrimExpr, ...] = tuple(realize.iter_values[k] for k in new_order)
    return replace_stmt(
        func, realize, replace(realize, iter_values=values, block=replace(block, iter_vars=axes))
    )
