"""Finding blocks and loops."""

from __future__ import annotations

from heddle.tir.analysis.blocks import blocks_below, producers_and_consumers
from heddle.tir.nodes import For, SBlock, SBlockRealize
from heddle.tir.schedule.base import ScheduleBase, recorded
from heddle.tir.schedule.handles import LoopRV, SBlockRV
from heddle.tir.schedule.tree import (
    find_block,
    find_loop,
    reads_buffer,
    scope_of,
    writes_buffer,
)


class QueryMethods(ScheduleBase):
    """Primitives that return handles and change nothing."""

    @recorded()
    def get_sblock(self, name: str, func_name: str | None = None) -> SBlockRV:
        """Return the block with a name. Raises: ScheduleError T0402."""
        if func_name is not None:
            self._mod.get_global_var(func_name)
            self._target = func_name
        find_block(self.func, name)
        return SBlockRV(name)

    get_block = get_sblock

    @recorded()
    def get_loops(self, block: SBlockRV | str) -> list[LoopRV]:
        """Return the loops around a block inside its enclosing block, outermost first."""
        return [LoopRV(loop.loop_var) for loop in find_block(self.func, self._name(block)).loops()]

    @recorded()
    def get_child_blocks(self, block_or_loop: SBlockRV | LoopRV | str) -> list[SBlockRV]:
        """Return the blocks directly inside a block or loop."""
        if isinstance(block_or_loop, LoopRV):
            loop: For = find_loop(self.func, block_or_loop.var).stmt
            return _handles(blocks_below(loop.body))
        target: SBlock = find_block(self.func, self._name(block_or_loop)).stmt.block
        return _handles(producers_and_consumers(target))

    @recorded()
    def get_producers(self, block: SBlockRV | str) -> list[SBlockRV]:
        """Return the blocks of the same scope that write the buffers that a block reads."""
        return _handles(self._neighbours(self._name(block), producers=True))

    @recorded()
    def get_consumers(self, block: SBlockRV | str) -> list[SBlockRV]:
        """Return the blocks of the same scope that read the buffers that a block writes."""
        return _handles(self._neighbours(self._name(block), producers=False))

    @recorded()
    def get_output_blocks(self, scope_block: SBlockRV | str) -> list[SBlockRV]:
        """Return the blocks directly in a scope that write a buffer which is not allocated in that scope."""
        scope: SBlock = find_block(self.func, self._name(scope_block)).stmt.block
        own = set(scope.alloc_buffers)
        found = producers_and_consumers(scope)
        return _handles([r for r in found if any(w.buffer not in own for w in r.block.writes)])

    def _neighbours(self, name: str, producers: bool) -> list[SBlockRealize]:
        place = find_block(self.func, name)
        block: SBlock = place.stmt.block
        buffers = [region.buffer for region in (block.reads if producers else block.writes)]
        touches = writes_buffer if producers else reads_buffer
        others = [r for r in producers_and_consumers(scope_of(self.func, place)) if r.block is not block]
        return [r for r in others if any(touches(r.block, buffer) for buffer in buffers)]


def _handles(found: list[SBlockRealize]) -> list[SBlockRV]:
    return [SBlockRV(realize.block.name_hint) for realize in found]
