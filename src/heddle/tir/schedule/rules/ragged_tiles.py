"""A loop of any length in tiles of several sizes, so that no tile has a condition.

    for x in range(n): ...   →   for t in range(count_0): (14 iterations at begin_0 + t * 14)
                                 for t in range(count_1): (7 iterations at begin_1 + t * 7)
                                 ...

Tiles of the largest size come first. What they leave is taken by the smallest size that holds it, begun
earlier so that it ends with the loop, or, where the loop is shorter than that, by smaller ones. Short loops
begin with the size that makes the whole cheapest: 36 iterations are five times 7 and 1, not three times 14.
Which size that is stands in a table, packed into words. Each size is a schedule of the same function;
`joined` puts their bodies one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.ir.node import replace
from heddle.prim.nodes import PrimExpr, SizeVar, Var, constant
from heddle.prim.ops import (
    bitwise_and,
    cast,
    floordiv,
    floormod,
    if_then_else,
    logical_and,
    minimum,
    shift_right,
)
from heddle.support.frozen import frozen
from heddle.tir.fresh_definitions import with_fresh_definitions
from heddle.tir.nodes import Bind, For, PrimFunc, SBlock, Stmt, seq
from heddle.tir.schedule.tree import HOLDS, find_loop, replace_stmt, root_block
from heddle.tir.stmt_rewriter import StmtRewriter
from heddle.tir.substitute import substitute_stmt


@frozen
class Tiles:
    """`count` tiles of `size` iterations, from `begin` on; the last ends with the loop at the latest."""

    size: int
    begin: Var
    count: Var
    is_first: bool = False


_ENTRY_BITS = 3
_ENTRIES = 63 // _ENTRY_BITS
_TABLE = 3 * _ENTRIES - 1
"""Loops from this length on begin with the largest size."""


def tile_sizes(largest: int) -> tuple[int, ...]:
    """A size, its half (or 5, or else 4), 5, 3 and 1, as far as they are smaller: 14, 7, 5, 3, 1. With more
    of them short rows would gain some hundredths, and compiling would take longer by as much as there is more
    code.

    Images of 160 pixels end in rows of 5. As two tiles such a row takes nearly twice as long: a small tile
    waits for its own sums, and the weights are read for each tile.
    """
    half = max(5 if largest > 5 else 4, -(-largest // 2))
    return (largest, *sorted((size for size in {half, 5, 3, 1} if size < largest), reverse=True))


def tiles_of(length: int, sizes: Sequence[int]) -> list[int]:
    """The tiles of a loop that begins with the first of the sizes."""
    made, rest = [], length
    for size, smaller in zip(sizes, (*sizes[1:], 0), strict=True):
        whole, left = divmod(rest, size)
        is_last = smaller > 0 and left > smaller and length >= size  # the smaller tiles would be several
        made += [size] * (whole + is_last)
        rest = 0 if is_last else left
    return made


def first_size(length: int, sizes: Sequence[int], cost: Callable[[int], float]) -> int:
    """The number of the size to begin with, where a tile of a size takes `cost`."""
    totals = [sum(map(cost, tiles_of(length, sizes[number:]))) for number in range(len(sizes))]
    return totals.index(min(totals))


def ragged_tiles(
    length: PrimExpr, sizes: Sequence[int], cost: Callable[[int], float]
) -> tuple[list[Tiles], list[Bind]]:
    """The tiles of each size for a loop of any length, and the definitions of their numbers. Sizes fall, down
    to 1; `cost` is what a tile of a size takes, in any unit."""
    tiles: list[Tiles] = []
    binds: list[Bind] = []

    def named(name: str, value: PrimExpr) -> Var:
        var = SizeVar(name, str(length.dtype))
        binds.append(Bind(var, value))
        return var

    zero, one = (constant(n, length.dtype) for n in (0, 1))
    first = named("first", cast(length.dtype, _first_number(length, sizes, cost)))
    begin, rest = named("begin", zero), named("rest", length)
    for number, (size, smaller) in enumerate(zip(sizes, (*sizes[1:], 0), strict=True)):
        may_begin = first <= number
        whole = named("whole", if_then_else(may_begin, floordiv(rest, size), zero))
        left = named("left", rest - whole * size)
        is_last = logical_and(may_begin, logical_and(left > smaller, length >= size))
        more = named("more", if_then_else(is_last, one, zero)) if smaller else zero
        tiles.append(Tiles(size, begin, named("count", whole + more), not tiles))
        if smaller:
            begin = named("begin", begin + whole * size)
            rest = named("rest", if_then_else(is_last, zero, left))
    return tiles, binds


def _first_number(length: PrimExpr, sizes: Sequence[int], cost: Callable[[int], float]) -> PrimExpr:
    """`first_size` of a length that is not known."""
    if len(sizes) > 1 << _ENTRY_BITS:
        raise ValueError(f"{len(sizes)} sizes do not fit into {_ENTRY_BITS} bits")
    numbers = [first_size(each, sizes, cost) for each in range(_TABLE)] + [0]
    words = [
        sum(number << (_ENTRY_BITS * place) for place, number in enumerate(numbers[low : low + _ENTRIES]))
        for low in range(0, len(numbers), _ENTRIES)
    ]
    at = minimum(cast("int64", length), _TABLE)
    word: PrimExpr = constant(words[-1], "int64")
    for number in reversed(range(len(words) - 1)):
        word = if_then_else(at < _ENTRIES * (number + 1), constant(words[number], "int64"), word)
    return bitwise_and(shift_right(word, floormod(at, _ENTRIES) * _ENTRY_BITS), (1 << _ENTRY_BITS) - 1)


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


class _Renamed(StmtRewriter):
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
