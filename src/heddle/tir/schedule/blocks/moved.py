"""Whether a block that runs elsewhere comes before and behind the others as it did.

    for o in range(4):                        `B` may leave the loop: what later iterations write of `T` is
        for j in range(3): T[o, j] = ...      nothing that it reads. With `T[j]` it may not.
        for j in range(3): B[o, j] = T[o, j]

    for j in range(4): B[j] = A[j]            `B` may not move into the loop: `X` of earlier iterations
    for i in range(4):                        would write what it reads.
        C[i] = B[i]
        X: A[i + 1] = 0

What a block touches is taken from the regions that it declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from heddle.support.frozen import frozen
from heddle.tir.analysis.blocks import blocks_in
from heddle.tir.nodes import Buffer, For, PrimFunc, SBlock, SBlockRealize
from heddle.tir.schedule.independence import is_unit, may_meet
from heddle.tir.schedule.tree import Place, places, reads_buffer, writes_buffer


@frozen
class Neighbour:
    """Another block without blocks in it, the loops around it, and whether it is behind the one that
    moves."""

    block: SBlock
    loops: tuple[For, ...]
    is_behind: bool


def loops_around(place: Place) -> tuple[For, ...]:
    """All loops around a place, those outside of blocks too, outermost first."""
    return tuple(stmt for stmt in place.ancestors if isinstance(stmt, For))


def neighbours(func: PrimFunc, own: Place) -> list[Neighbour]:
    """The other blocks of a function, in order of the text."""
    found: list[Neighbour] = []
    is_behind = False
    for place in places(func):
        if place.stmt is own.stmt:
            is_behind = True
        elif isinstance(place.stmt, SBlockRealize) and not blocks_in(place.stmt.block.body):
            if not any(stmt is own.stmt for stmt in place.ancestors):
                found.append(Neighbour(place.stmt.block, loops_around(place), is_behind))
    return found


def first_out_of_order(
    func: PrimFunc,
    own: Place,
    others: Sequence[Neighbour],
    target: Sequence[For],
    will_be_behind: Callable[[Neighbour], bool],
    is_fit: Callable[[Neighbour, Buffer], bool],
) -> tuple[SBlock, Buffer] | None:
    """A block whose order with one that moves would change, and a buffer by which that shows; None where
    there is none. `target`: the loops around the block's new place. `will_be_behind`: whether another block
    is behind that place. `is_fit`: whether a block may run in the same new loops, for all that a buffer
    tells.
    """
    around = loops_around(own)
    for other in others:
        for buffer in _conflicts(own.stmt.block, other.block):
            shared = _both(around, other.loops)
            left = [loop for loop in shared if not _holds(target, loop)]
            entered = [loop for loop in _both(target, other.loops) if not _holds(around, loop)]
            if (
                will_be_behind(other) is not other.is_behind
                or any(may_meet(func, loop, buffer) for loop in left)
                or (any(not is_unit(loop.extent) for loop in entered) and not is_fit(other, buffer))
            ):
                return other.block, buffer
    return None


def _conflicts(block: SBlock, other: SBlock) -> Iterator[Buffer]:
    """The buffers that one of two blocks writes and the other touches."""
    for region in block.reads:
        if writes_buffer(other, region.buffer):
            yield region.buffer
    for region in block.writes:
        if writes_buffer(other, region.buffer) or reads_buffer(other, region.buffer):
            yield region.buffer


def _both(loops: Sequence[For], others: Sequence[For]) -> list[For]:
    return [loop for loop in loops if _holds(others, loop)]


def _holds(loops: Sequence[For], loop: For) -> bool:
    return any(each is loop for each in loops)
