"""Schedule: a loop function and the rewrites that were applied to it.

    sch = Schedule(func)
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, [None, 8])
    sch.parallel(i_0)
    sch.mod, sch.trace

Handles (`SBlockRV`, `LoopRV`) stay valid while their block or loop exists. Each primitive checks that it
keeps the
program's meaning, or raises ScheduleError and changes nothing. The trace replays on an equal function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map, replace
from heddle.prim.nodes import PrimExpr, Var
from heddle.tir.codes import T0401
from heddle.tir.nodes import For, ForKind, PrimFunc, SBlock, SBlockRealize
from heddle.tir.schedule import loops as loop_primitives
from heddle.tir.schedule.cache import cache_read, cache_write, set_scope
from heddle.tir.schedule.compute_at import compute_at, reverse_compute_at
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.inline import compute_inline, reverse_compute_inline
from heddle.tir.schedule.layout import transform_layout
from heddle.tir.schedule.padding import clamp_padding
from heddle.tir.schedule.prefetch import FAR, prefetch
from heddle.tir.schedule.reduction import decompose_reduction, pad_einsum
from heddle.tir.schedule.rfactor import rfactor
from heddle.tir.schedule.trace import Instruction, Trace
from heddle.tir.schedule.tree import (
    blocks_in,
    find_block,
    find_loop,
    producers_and_consumers,
    reads_buffer,
    replace_stmt,
    root_block,
    scope_of,
    writes_buffer,
)


@dataclass(eq=False, slots=True)
class SBlockRV:
    """A handle of a block."""

    name: str


@dataclass(eq=False, slots=True)
class LoopRV:
    """A handle of a loop."""

    var: Var


def recorded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Put a primitive's call into the trace when it succeeds."""

    def call(self: Schedule, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        outputs = list(result) if isinstance(result, list) else [] if result is None else [result]
        self.trace.append(Instruction(method.__name__, args, kwargs, tuple(outputs)))
        return result

    call.__name__, call.__doc__ = method.__name__, method.__doc__
    return call


class Schedule:
    """Schedules the function `main` of a module, or its only loop function, or a function alone."""

    def __init__(
        self, mod: IRModule | PrimFunc, *, seed: int | None = None, debug_mask: str | int = "none"
    ) -> None:
        if isinstance(mod, PrimFunc):
            mod = IRModule(Map({GlobalVar("main"): mod}))
        self._mod = mod
        names = [var.name_hint for var, func in mod.functions.items() if isinstance(func, PrimFunc)]
        self._target = "main" if "main" in names else names[0]
        self.trace = Trace()

    # ---- the program

    @property
    def mod(self) -> IRModule:
        return self._mod

    @property
    def func(self) -> PrimFunc:
        func: PrimFunc = self._mod[self._target]
        return func

    def _update(self, func: PrimFunc) -> None:
        self._mod = self._mod.with_functions(
            {**self._mod.functions, self._mod.get_global_var(self._target): func}
        )

    def work_on(self, func_name: str) -> None:
        """Choose the function that the following primitives rewrite."""
        self._mod.get_global_var(func_name)
        self._target = func_name

    def copy(self) -> Schedule:
        """A schedule of the same program that goes its own way; handles are valid in both."""
        other = Schedule(self._mod)
        other._target = self._target
        other.trace = self.trace.copy()
        return other

    def get(self, handle: SBlockRV | LoopRV) -> SBlock | For:
        """The block or loop that a handle stands for. Raises: ScheduleError T0401, T0402."""
        if isinstance(handle, SBlockRV):
            block: SBlock = find_block(self.func, handle.name).stmt.block
            return block
        loop: For = find_loop(self.func, handle.var).stmt
        return loop

    def realization(self, handle: SBlockRV) -> SBlockRealize:
        """Where a block is realized: its axes' values and its predicate."""
        realize: SBlockRealize = find_block(self.func, handle.name).stmt
        return realize

    def show(self) -> None:
        print(self.mod)

    # ---- handles

    def _name(self, block: SBlockRV | str) -> str:
        return block if isinstance(block, str) else block.name

    @recorded
    def get_sblock(self, name: str, func_name: str | None = None) -> SBlockRV:
        """The block of a name. Raises: ScheduleError T0402."""
        if func_name is not None:
            self.work_on(func_name)
        find_block(self.func, name)
        return SBlockRV(name)

    get_block = get_sblock

    @recorded
    def get_loops(self, block: SBlockRV | str) -> list[LoopRV]:
        """The loops around a block inside its enclosing block, outermost first."""
        return [LoopRV(loop.loop_var) for loop in find_block(self.func, self._name(block)).loops()]

    @recorded
    def get_child_blocks(self, block: SBlockRV | str) -> list[SBlockRV]:
        """The blocks directly inside a block."""
        target: SBlock = find_block(self.func, self._name(block)).stmt.block
        return [SBlockRV(r.block.name_hint) for r in producers_and_consumers(target)]

    def blocks(self) -> list[SBlockRV]:
        """All blocks but the root, in order of the text."""
        root = root_block(self.func)
        return [SBlockRV(r.block.name_hint) for r in blocks_in(self.func.body) if r.block is not root]

    @recorded
    def get_producers(self, block: SBlockRV | str) -> list[SBlockRV]:
        """The blocks of the same scope that write what a block reads."""
        return [SBlockRV(r.block.name_hint) for r in self._neighbours(self._name(block), producers=True)]

    @recorded
    def get_consumers(self, block: SBlockRV | str) -> list[SBlockRV]:
        """The blocks of the same scope that read what a block writes."""
        return [SBlockRV(r.block.name_hint) for r in self._neighbours(self._name(block), producers=False)]

    def _neighbours(self, name: str, producers: bool) -> list[SBlockRealize]:
        place = find_block(self.func, name)
        block: SBlock = place.stmt.block
        buffers = [region.buffer for region in (block.reads if producers else block.writes)]
        touches = writes_buffer if producers else reads_buffer
        others = [r for r in producers_and_consumers(scope_of(self.func, place)) if r.block is not block]
        return [r for r in others if any(touches(r.block, buffer) for buffer in buffers)]

    # ---- loops

    @recorded
    def split(self, loop: LoopRV, factors: Sequence[Any], preserve_unit_iters: bool = True) -> list[LoopRV]:
        """for i in range(n)  →  for i_0, i_1, ...: one loop a factor; one factor may be None."""
        func, new = loop_primitives.split(self.func, loop.var, factors)
        self._update(func)
        return [LoopRV(var) for var in new]

    @recorded
    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Directly nested loops  →  one loop over the product."""
        func, fused = loop_primitives.fuse(self.func, [loop.var for loop in loops])
        self._update(func)
        return LoopRV(fused)

    @recorded
    def reorder(self, *loops: LoopRV) -> None:
        """The loops of a chain in the given order."""
        self._update(loop_primitives.reorder(self.func, [loop.var for loop in loops]))

    @recorded
    def parallel(self, loop: LoopRV) -> None:
        """Run a loop's iterations on several threads."""
        self._update(loop_primitives.set_kind(self.func, loop.var, ForKind.PARALLEL))

    @recorded
    def vectorize(self, loop: LoopRV) -> None:
        """Run a loop's iterations as the lanes of vectors; the extent must be constant."""
        self._update(loop_primitives.set_kind(self.func, loop.var, ForKind.VECTORIZED))

    @recorded
    def unroll(self, loop: LoopRV) -> None:
        """Repeat a loop's body for each iteration."""
        self._update(loop_primitives.set_kind(self.func, loop.var, ForKind.UNROLLED))

    @recorded
    def narrow(self, loop: LoopRV, extent: PrimExpr) -> None:
        """Run only the first iterations of a loop; that the others change nothing is the caller's word."""
        self._update(loop_primitives.narrow(self.func, loop.var, extent))

    @recorded
    def annotate(self, target: SBlockRV | LoopRV, key: str, value: Any) -> None:
        """Attach a hint to a block or loop."""
        self._annotate(target, key, value)

    @recorded
    def unannotate(self, target: SBlockRV | LoopRV, key: str) -> None:
        """Take a hint off a block or loop."""
        self._annotate(target, key, None)

    def _annotate(self, target: SBlockRV | LoopRV, key: str, value: Any) -> None:
        if isinstance(target, LoopRV):
            self._update(loop_primitives.annotate_loop(self.func, target.var, key, value))
            return
        block: SBlock = find_block(self.func, target.name).stmt.block
        notes = block.annotations.without(key) if value is None else block.annotations.with_item(key, value)
        self._update(replace_stmt(self.func, block, replace(block, annotations=notes)))

    # ---- blocks

    @recorded
    def compute_inline(self, block: SBlockRV | str) -> None:
        """Compute a block's elements where they are read."""
        self._update(compute_inline(self.func, self._name(block)))

    @recorded
    def reverse_compute_inline(self, block: SBlockRV | str) -> None:
        """Compute a block where its producer stores."""
        self._update(reverse_compute_inline(self.func, self._name(block)))

    @recorded
    def compute_at(self, block: SBlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False) -> None:
        """Move a producer into a consumer's loop."""
        self._update(compute_at(self.func, self._name(block), loop.var))

    @recorded
    def reverse_compute_at(
        self, block: SBlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False
    ) -> None:
        """Move a consumer into a producer's loop."""
        self._update(reverse_compute_at(self.func, self._name(block), loop.var))

    @recorded
    def cache_read(
        self,
        block: SBlockRV | str,
        read_buffer_index: int,
        storage_scope: str,
        consumer_blocks: Sequence[SBlockRV] = (),
    ) -> SBlockRV:
        """Read through a copy; gives the copying block."""
        consumers = tuple(self._name(consumer) for consumer in consumer_blocks)
        func, name = cache_read(self.func, self._name(block), read_buffer_index, storage_scope, consumers)
        self._update(func)
        return SBlockRV(name)

    @recorded
    def cache_write(self, block: SBlockRV | str, write_buffer_index: int, storage_scope: str) -> SBlockRV:
        """Write through a copy; gives the copying block."""
        func, name = cache_write(self.func, self._name(block), write_buffer_index, storage_scope)
        self._update(func)
        return SBlockRV(name)

    @recorded
    def set_scope(self, block: SBlockRV | str, buffer_index: int, storage_scope: str) -> None:
        """Move a temporary buffer to another storage scope."""
        self._update(set_scope(self.func, self._name(block), buffer_index, storage_scope))

    @recorded
    def transform_layout(
        self, block: SBlockRV | str, buffer_index: int, index_map: Callable[..., Sequence[Any]]
    ) -> None:
        """Index a temporary buffer by other dimensions."""
        self._update(transform_layout(self.func, self._name(block), buffer_index, index_map))

    @recorded
    def decompose_reduction(self, block: SBlockRV | str, loop: LoopRV) -> SBlockRV:
        """Initialise before a loop instead of in its first iteration; gives the initialising block."""
        func, name = decompose_reduction(self.func, self._name(block), loop.var)
        self._update(func)
        return SBlockRV(name)

    @recorded
    def rfactor(self, loop: LoopRV, factor_axis: int) -> SBlockRV:
        """Make one loop of a reduction an axis of partial results; gives the block of those."""
        func, name = rfactor(self.func, loop.var, factor_axis)
        self._update(func)
        return SBlockRV(name)

    @recorded
    def pad_einsum(self, block: SBlockRV | str, padding: Sequence[int]) -> list[SBlockRV]:
        """Round a contraction's axes up to multiples; gives the padding blocks, then the copying-out one."""
        func, before, after = pad_einsum(self.func, self._name(block), padding)
        self._update(func)
        return [SBlockRV(name) for name in (*before, *after)]

    @recorded
    def clamp_padding(self, block: SBlockRV | str) -> None:
        """Repeat the last row in a padding block of `pad_einsum`, where what comes of padding is cut off."""
        self._update(clamp_padding(self.func, self._name(block)))

    @recorded
    def prefetch(
        self,
        block: SBlockRV | str,
        read_buffer_index: int,
        loop: LoopRV,
        index_map: Callable[..., Sequence[Any]],
        locality: int = FAR,
    ) -> None:
        """Ask in every iteration of a loop for the cache line of an element that is read later."""
        self._update(prefetch(self.func, self._name(block), read_buffer_index, loop.var, index_map, locality))

    def loop_of(self, block: SBlockRV | str, index: int) -> LoopRV:
        """One of a block's loops by position. Raises: ScheduleError T0401."""
        loops = find_block(self.func, self._name(block)).loops()
        if not -len(loops) <= index < len(loops):
            raise ScheduleError(T0401, f"block has {len(loops)} loops, no loop {index}", self.func)
        return LoopRV(loops[index].loop_var)
