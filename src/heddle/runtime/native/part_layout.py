"""What the pool writes down of the parts of parallel loops, for profiles.

Object code in files knows nothing of this: it is no part of the interface that `abi.py` describes.
"""

from heddle.systems.types import Atomic, Pointer, Struct, u64


class Part(Struct):
    """A part of a parallel loop: the records of the thread that called the loop and of the one that ran the
    part (`heddle_thread`), its first index, how many, and when it began and ended, in cycles."""

    owner: u64
    thread: u64
    begin: u64
    size: u64
    start: u64
    end: u64


class PartLog(Struct):
    """Room for `capacity` parts. `count` are those that there were: more, where it was short."""

    parts: Pointer[Part]
    capacity: u64
    count: Atomic[u64]
