"""Structures in which the thread pool records parts of parallel loops, for profiles.

Stored object code does not use them, so they are not part of the interface in `abi.py`.
"""

from heddle.systems.types import Atomic, Pointer, Struct, u64


class Part(Struct):
    """A part of a parallel loop: the `heddle_thread` records of the thread that called the loop and of the
    thread that ran the part, the first index, the number of iterations, and the start and end time in cycles.
    """

    owner: u64
    thread: u64
    begin: u64
    size: u64
    start: u64
    end: u64


class PartLog(Struct):
    """Space for `capacity` parts. `count` is the number of parts that ran; it is larger than `capacity` if
    some did not fit."""

    parts: Pointer[Part]
    capacity: u64
    count: Atomic[u64]
