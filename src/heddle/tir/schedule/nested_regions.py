"""What blocks of blocks read and write, after a primitive changed what is inside."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from heddle.tir.analysis.access_region import with_access_regions
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.nodes import PrimFunc, SBlock
from heddle.tir.substitute import StmtSubstituter


@lru_cache(maxsize=64)  # schedule rules try the same primitives in turn
def with_nested_regions(func: PrimFunc) -> PrimFunc:
    """The function with the regions of blocks that hold blocks found anew; those that match regions of
    buffers keep what they declare."""
    holders = {
        id(realize.block)
        for realize in blocks_in(func.body)
        if (realize.block.reads or realize.block.writes) and blocks_in(realize.block.body)
    }
    return func.with_body(_Refresh(holders).visit(func.body)) if holders else func


class _Refresh(StmtSubstituter):
    def __init__(self, holders: set[int]) -> None:
        super().__init__({})
        self._holders = holders

    def visit_SBlock(self, node: SBlock) -> Any:
        made = self.default(node)
        if id(node) not in self._holders or made.match_buffers:
            return made
        return with_access_regions(made)
