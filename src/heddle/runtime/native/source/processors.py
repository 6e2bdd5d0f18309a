"""Which processor a worker runs on: away from the thread that it works for."""

from heddle.runtime.native.source.system import choose_processors, read_processors
from heddle.systems.types import Array, Struct, i32, u64
from heddle.systems.words import local, native

NUM_WORDS = 128  # of 64 processors each: 8192, the most that Linux takes
MASK_BYTES = 1024
MOVE_CYCLES = 1 << 24  # the least between two moves: some milliseconds


class Processors(Struct):
    """The processors that a thread may run on, a bit each: cpu_set_t of that size."""

    words: Array[u64, 128]


@native
def leave_processor(cpu: i32) -> None:
    """Move this thread to another processor that it may run on. Nothing happens where there is none, or where
    the system cannot tell.

    Schedulers leave a thread that often sleeps where it is, even on the processor of the one that wakes it,
    while any program runs on the others, however unimportant. What the thread may run on is as before after
    the move.
    """
    mine = local(Processors)
    others = local(Processors)
    k: u64 = 0
    while k < NUM_WORDS:
        mine.words[k] = 0
        k += 1
    read_processors(MASK_BYTES, mine)
    k = 0
    while k < NUM_WORDS:
        others.words[k] = mine.words[k]
        k += 1
    word = u64(cpu) >> 6
    if word >= NUM_WORDS:
        return
    others.words[word] = others.words[word] & ~(u64(1) << (u64(cpu) & 63))
    choose_processors(MASK_BYTES, others)
    choose_processors(MASK_BYTES, mine)
