"""Which thread ran which part of a parallel loop, and when: while somebody takes a profile.

A loop that is worth several threads, but not waking them, is one part of its caller's. One that is worth a
single thread is not written down.
"""

from heddle.runtime.native.abi import Thread
from heddle.runtime.native.part_layout import PartLog
from heddle.systems.types import Atomic, Pointer, u64
from heddle.systems.words import RELAXED, RELEASE, Global, address, cold, cycle_counter, export, offset

part_log = Global(Atomic[Pointer[PartLog]])


@export
def heddle_log_parts(log: Pointer[PartLog]) -> u64:
    """Have the parts of loops written there that begin from now on; null: nowhere. Gives the time, in cycles.
    Loops that run may write into the log before, so its memory stays for ever."""
    part_log.store(log, RELEASE)
    return cycle_counter()


@cold
def note_part(
    log: Pointer[PartLog], owner: Pointer[Thread], me: Pointer[Thread], begin: u64, size: u64, start: u64
) -> None:
    """Write down a part that has just ended."""
    end = cycle_counter()
    place = log.count.add(1, RELAXED)
    if place >= log.capacity:
        return
    part = offset(log.parts, place)
    part.owner = address(owner)
    part.thread = address(me)
    part.begin = begin
    part.size = size
    part.start = start
    part.end = end
