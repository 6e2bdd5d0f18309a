"""Primitives on blocks."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.tir.codes import T0410, T0412, T0416, T0426
from heddle.tir.schedule.base import ScheduleBase, recorded
from heddle.tir.schedule.blocks.block_layout import reorder_block_iter_var
from heddle.tir.schedule.blocks.blockize import blockize, blockize_blocks
from heddle.tir.schedule.blocks.compute_at import compute_at, reverse_compute_at
from heddle.tir.schedule.blocks.decompose_padding import decompose_padding
from heddle.tir.schedule.blocks.decompose_reduction import decompose_reduction
from heddle.tir.schedule.blocks.inline import compute_inline, reverse_compute_inline
from heddle.tir.schedule.blocks.pad_einsum import pad_einsum
from heddle.tir.schedule.blocks.padding import clamp_padding
from heddle.tir.schedule.blocks.rfactor import rfactor
from heddle.tir.schedule.blocks.row_tiles import tile_rows
from heddle.tir.schedule.blocks.tensorize import tensorize
from heddle.tir.schedule.error import ScheduleError
from heddle.tir.schedule.handles import AT_ROOT, INLINED, LoopRV, SBlockRV
from heddle.tir.tensor_intrin import TensorIntrin


class BlockMethods(ScheduleBase):
    """Primitives that move, join and cut blocks."""

    @recorded(rewrite=compute_inline)
    def compute_inline(self, block: SBlockRV | str) -> None:
        """Inline a block: compute its elements where they are read."""
        self._update(compute_inline(self.func, self._name(block)))

    @recorded(rewrite=reverse_compute_inline)
    def reverse_compute_inline(self, block: SBlockRV | str) -> None:
        """Inline a block into its producer: compute it where the producer stores."""
        self._update(reverse_compute_inline(self.func, self._name(block)))

    @recorded(rewrite=compute_at)
    def compute_at(self, block: SBlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False) -> None:
        """Move a producer under a loop of its consumer, or to a sampled location."""
        if loop.var is INLINED:
            self._update(compute_inline(self.func, self._name(block)))
        elif loop.var is not AT_ROOT:
            self._update(compute_at(self.func, self._name(block), loop.var, preserve_unit_loops))

    @recorded(rewrite=reverse_compute_at)
    def reverse_compute_at(
        self, block: SBlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False
    ) -> None:
        """Move a consumer into a producer's loop."""
        self._update(reverse_compute_at(self.func, self._name(block), loop.var, preserve_unit_loops))

    # ---- blocks of blocks

    @recorded(rewrite=blockize)
    def blockize(self, target: LoopRV | Sequence[SBlockRV], preserve_unit_iters: bool = True) -> SBlockRV:
        """Convert a loop with its body, or adjacent blocks, to one block. Return that block."""
        if isinstance(target, LoopRV):
            func, name = blockize(self.func, target.var, preserve_unit_iters)
        else:
            func, name = blockize_blocks(self.func, [self._name(block) for block in target])
        self._update(func)
        return SBlockRV(name)

    @recorded(rewrite=tensorize)
    def tensorize(
        self, block_or_loop: SBlockRV | LoopRV | str, tensor_intrin: str, preserve_unit_iters: bool = True
    ) -> None:
        """Replace a block, or a loop with its body, by a registered tensor intrinsic that computes the
        same.
        """
        intrin = TensorIntrin.get(tensor_intrin)
        assert intrin is not None
        func = self.func
        if isinstance(block_or_loop, LoopRV):
            func, name = blockize(func, block_or_loop.var, preserve_unit_iters)
        else:
            name = self._name(block_or_loop)
        self._update(tensorize(func, name, intrin))

    @recorded(rewrite=reorder_block_iter_var, numbers=T0416)
    def reorder_block_iter_var(self, block: SBlockRV | str, new_order: Sequence[int]) -> None:
        """Reorder the axes of a block."""
        self._update(reorder_block_iter_var(self.func, self._name(block), new_order))

    # ---- reductions

    @recorded(rewrite=decompose_reduction)
    def decompose_reduction(self, block: SBlockRV | str, loop: LoopRV) -> SBlockRV:
        """Initialise a reduction before a loop instead of in its first iteration. Return the initialising
        block."""
        func, name = decompose_reduction(self.func, self._name(block), loop.var)
        self._update(func)
        return SBlockRV(name)

    @recorded(rewrite=rfactor, numbers=T0412)
    def rfactor(self, loop: LoopRV, factor_axis: int) -> SBlockRV:
        """Make a reduction loop an axis of partial results (rfactor). Return the block that computes them."""
        func, name = rfactor(self.func, loop.var, factor_axis)
        self._update(func)
        return SBlockRV(name)

    @recorded(rewrite=tile_rows, numbers=T0426)
    def tile_rows(self, block: SBlockRV | str, axis: int, rows: int) -> None:
        """Divide an axis of the last block, and the matching rows of temporaries, into tiles."""
        self._update(tile_rows(self.func, self._name(block), axis, rows))

    # ---- padding

    @recorded(rewrite=pad_einsum, numbers=T0410)
    def pad_einsum(self, block: SBlockRV | str, padding: Sequence[int]) -> list[SBlockRV]:
        """Pad a contraction's axes to multiples. Return the padding blocks, then the block that copies the
        result."""
        func, before, after = pad_einsum(self.func, self._name(block), padding)
        self._update(func)
        return [SBlockRV(name) for name in (*before, *after)]

    @recorded(rewrite=clamp_padding)
    def clamp_padding(self, block: SBlockRV | str) -> None:
        """Repeat the last row in a padding block of `pad_einsum`, if results of padding are discarded
        anyway.
        """
        self._update(clamp_padding(self.func, self._name(block)))

    @recorded(rewrite=decompose_padding)
    def decompose_padding(self, block: SBlockRV | str, loop: LoopRV) -> SBlockRV:
        """Store the padding constant before a loop, so that the loop stores only values. Return the
        constant's block."""
        func, name = decompose_padding(self.func, self._name(block), loop.var)
        self._update(func)
        return SBlockRV(name)

    def can_decompose_padding(self, block: SBlockRV | str, loop: LoopRV) -> bool:
        """Whether `decompose_padding` applies."""
        try:
            decompose_padding(self.func, self._name(block), loop.var)
        except ScheduleError:
            return False
        return True
