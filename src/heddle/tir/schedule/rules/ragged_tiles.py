"""A loop of any length in tiles of several sizes, so that no tile has a condition.

    for x in range(n): ...   →   for t in range(count_0): (14 iterations at begin_0 + t * 14)
                                 for t in range(count_1): (7 iterations at begin_1 + t * 7)
                                 ...

Tiles of the first size come first. What they leave is taken by the smallest size that holds it, begun earlier
so that it ends with the loop, or, where the loop is shorter than that, by smaller ones. Each size is a
schedule of the same function; `joined` puts their bodies one behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heddle.ir.node import replace
from heddle.ir.visitor import Rewriter
from heddle.prim.nodes import PrimExpr, SizeVar, Var, constant
from heddle.prim.ops import floordiv, floormod, if_then_else, logical_and
from heddle.tir.nodes import Bind, For, PrimFunc, SBlock, Stmt, seq
from heddle.tir.schedule.tree import HOLDS, find_loop, replace_stmt, root_block
from heddle.tir.substitute import substitute_stmt
from heddle.tir.transform.fresh_definitions import with_fresh_definitions


@dataclass(frozen=True, slots=True)
class Tiles:
    """`count` tiles of `size` iterations, from `begin` on; the last ends with the loop at the latest."""

    size: int
    begin: Var
    count: Var
    is_first: bool = False


def tile_sizes(largest: int) -> tuple[int, ...]:
    """A size, its half, its quarter, and 1."""
    return tuple(sorted({largest, -(-largest // 2), -(-largest // 4), 1}, reverse=True))


def ragged_tiles(length: PrimExpr, sizes: Sequence[int]) -> tuple[list[Tiles], list[Bind]]:
    """The tiles of each size for a loop of any length, and the definitions of their numbers. Sizes fall, down
    to 1."""
    tiles: list[Tiles] = []
    binds: list[Bind] = []

    def named(name: str, value: PrimExpr) -> Var:
        var = SizeVar(name, str(length.dtype))
        binds.append(Bind(var, value))
        return var

    zero, one = (constant(n, length.dtype) for n in (0, 1))
    begin, rest = named("begin", zero), named("rest", length)
    for size, smaller in zip(sizes, (*sizes[1:], 0), strict=True):
        whole, left = named("whole", floordiv(rest, size)), named("left", floormod(rest, size))
        is_last = logical_and(left > smaller, length >= size)  # the smaller tiles would be several
        more = named("more", if_then_else(is_last, one, zero)) if smaller else zero
        tiles.append(Tiles(size, begin, named("count", whole + more), not tiles))
        if smaller:
            begin = named("begin", begin + whole * size)
            rest = named("rest", if_then_else(is_last, zero, left))
    return tiles, binds


def joined(parts: Sequence[tuple[PrimFunc, Var]], binds: Sequence[Bind]) -> PrimFunc:
    """One function of several that differ below one loop, given with each: the bodies follow each other."""
    func, var = parts[0]
    loop = find_loop(func, var).stmt
    bodies, buffers = [_Renamed(0).visit(loop.body)], list(root_block(func).alloc_buffers)
    for number, (other, its_var) in enumerate(parts[1:], 1):
        below = substitute_stmt(find_loop(other, its_var).stmt.body, {its_var: var})
        bodies.append(_Renamed(number).visit(with_fresh_definitions(below)))
        buffers += [buffer for buffer in root_block(other).alloc_buffers if buffer not in buffers]
    func = replace_stmt(func, loop, replace(loop, body=seq(*bodies)))
    root = root_block(func)
    body: Stmt = seq(*binds, root.body)
    return replace_stmt(func, root, replace(root, body=body, alloc_buffers=tuple(buffers)))


class _Renamed(Rewriter):
    """Gives the blocks of later parts names of their own. What holds in a loop has done its work."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def visit_SBlock(self, node: SBlock) -> Any:
        made = self.default(node)
        return replace(made, name_hint=f"{made.name_hint}_part{self._number}") if self._number else made

    def visit_For(self, node: For) -> Any:
        made: For = self.default(node)
        return replace(made, annotations=made.annotations.without(HOLDS))
