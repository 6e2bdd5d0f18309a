"""The initial value of a reduction as a block of its own."""

from __future__ import annotations

from heddle.ir.node import replace
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import Var, is_const_int
from heddle.prim.ops import all as all_of
from heddle.prim.ops import conjuncts
from heddle.prim.substitute import free_vars, substitute
from heddle.support.names import NameSupply
from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.analysis.own_writes import reads_own_writes
from heddle.tir.codes import T0409
from heddle.tir.nodes import (
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IterType,
    IterVar,
    PrimFunc,
    SBlock,
    SBlockRealize,
    Stmt,
    seq,
)
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.orders import reduction_variables
from heddle.tir.schedule.tree import (
    find_block,
    find_loop,
    replace_stmt,
)
from heddle.tir.substitute import substitute_stmt
from heddle.tir.transform.lower_blocks import lower_blocks


def decompose_reduction(func: PrimFunc, block_name: str, loop_var: Var) -> tuple[PrimFunc, str]:
    """for r: {init: C[i] = 0; C[i] += A[i, r]}   →   C[i] = 0;  for r: C[i] += A[i, r]

    The initialisation goes right before the loop, which must lie at or above every reduction loop of the
    block.
    """
    place = find_block(func, block_name)
    block: SBlock = place.stmt.block
    if block.init is None:
        raise ScheduleError(T0409, f"block {block_name!r} has no init", func, block)
    loops = place.loops()
    if all(loop.loop_var is not loop_var for loop in loops):
        raise ScheduleError(T0409, f"loop {loop_var.name!r} is not around block {block_name!r}", func, block)
    below = loops[[loop.loop_var for loop in loops].index(loop_var) :]
    _check_reduction_loops(func, place.stmt, loops, below)
    _check_untouched(func, place.stmt, loops, below)
    name = NameSupply(r.block.name_hint for r in blocks_in(func.body)).fresh(f"{block_name}_init")
    nest = _init_nest(place.stmt, name, below)
    update = with_access_regions(replace(block, init=None))
    changed = replace_stmt(func, block, update)
    loop = find_loop(changed, loop_var).stmt
    return replace_stmt(changed, loop, seq(nest, loop)), name


def _check_reduction_loops(
    func: PrimFunc, realize: SBlockRealize, loops: list[For], below: list[For]
) -> None:
    """All loops of the reduction must lie below, and none there may run the whole of it again."""
    inner = {loop.loop_var for loop in below}
    used = set(free_vars(*realize.iter_values))
    for loop in below:
        if loop.loop_var not in used and not is_const_int(loop.extent, 1):
            raise ScheduleError(
                T0409,
                f"loop {loop.loop_var.name!r} runs all of block {realize.block.name_hint!r} again",
                func,
                realize,
            )
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if axis.iter_type is IterType.CommReduce:
            outer = [
                v for v in free_vars(value) if v not in inner and any(v is loop.loop_var for loop in loops)
            ]
            if outer:
                raise ScheduleError(T0409, f"reduction loop {outer[0].name!r} lies outside", func, realize)


def _check_untouched(func: PrimFunc, realize: SBlockRealize, loops: list[For], below: list[For]) -> None:
    """Nothing under the loop may look at an element, or store it, between its new beginning and the old."""
    block, loop = realize.block, below[0]
    reducing = reduction_variables(realize)
    is_alone = sum(isinstance(node, SBlockRealize) for node in walk(loop)) == 1
    if is_alone and all(each.loop_var in reducing or is_const_int(each.extent, 1) for each in below):
        return  # the beginning stays right before the first iteration
    for buffer in (region.buffer for region in block.writes):
        places = [node.indices for node in _accesses(block.body, buffer) if isinstance(node, BufferStore)]
        own = [
            *(
                n
                for n in _accesses(block.body, buffer)
                if any(structural_equal(n.indices, p) for p in places)
            ),
            *(n for n in _accesses(block.init, buffer) if isinstance(n, BufferStore)),
        ]
        others = [node for node in _accesses(loop, buffer) if not any(node is known for known in own)]
        if others and not (
            all(isinstance(node, BufferLoad) for node in others)
            and reads_own_writes(replace(loop, body=lower_blocks(loop.body)), buffer, loops[: -len(below)])
        ):
            text = f"loop {loop.loop_var.name!r} uses elements of {buffer.name!r} that do not begin yet"
            raise ScheduleError(T0409, text, func, realize)


def _accesses(stmt: Stmt | None, buffer: Buffer) -> list[BufferLoad | BufferStore]:
    return [
        node
        for node in (() if stmt is None else walk(stmt))
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer
    ]


def _init_nest(realize: SBlockRealize, name: str, below: list[For]) -> Stmt:
    """The init statement under copies of the loops that its spatial axes use."""
    block = realize.block
    assert block.init is not None
    pairs = [
        (axis, value)
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type is IterType.DataPar
    ]
    used = set(free_vars(*(value for _, value in pairs)))
    kept = [loop for loop in below if loop.loop_var in used]
    fresh = {loop.loop_var: Var(f"{loop.loop_var.name}_init", loop.loop_var.dtype) for loop in kept}
    dropped = {loop.loop_var for loop in below} - set(fresh)
    kept_conditions = [c for c in conjuncts(realize.predicate) if not dropped & set(free_vars(c))]
    predicate = substitute(all_of(*kept_conditions), fresh)
    axes = tuple(IterVar(axis.dom, Var(axis.var.name, axis.var.dtype), axis.iter_type) for axis, _ in pairs)
    renamed = {axis.var: new.var for (axis, _), new in zip(pairs, axes, strict=True)}
    init = with_access_regions(SBlock(axes, (), (), name, substitute_stmt(block.init, renamed)))
    stmt: Stmt = SBlockRealize(tuple(substitute(value, fresh) for _, value in pairs), predicate, init)
    for loop in reversed(kept):
        kind = loop.kind if loop.kind in (ForKind.VECTORIZED, ForKind.UNROLLED) else ForKind.SERIAL
        stmt = For(fresh[loop.loop_var], loop.min, substitute(loop.extent, fresh), kind, stmt)
    return stmt
