"""What parallel loops cost: cycles per 1024 indices of their bodies, and cycles of waking a worker.

The owner of `busy` in `fork_join` uses all this, and nobody else.
"""

from heddle.runtime.native.abi import Thread
from heddle.systems.types import Address, Array, Function, Pointer, Struct, i32, u64
from heddle.systems.words import Global, address, cycle_counter, inline

Body = Function[[u64, u64, Address], i32]
UNKNOWN_RATE = 1 << 30  # of a body that was never timed: as if it were large


class Cost(Struct):
    """What a loop body costs: cycles per 1024 indices."""

    body: Body
    rate: u64
    runs: u64


costs = Global(Array[Cost, 64], align_bytes=64)
wake_cycles = Global(u64)
inline_cycles = Global(u64)  # spent since the last wake on loops that would have had helpers


@inline
def count_cycles(me: Pointer[Thread], start: u64, size: u64) -> None:
    """Add what happened since `start`, over `size` indices, to the thread's account."""
    me.cycles += cycle_counter() - start
    me.indices += size


@inline
def cost_of(fn: Body) -> Pointer[Cost]:
    """Where the cost of a loop body is kept: by some bits of its address, so another body may take the
    place."""
    return costs[(address(fn) >> 4) & 63]


@inline
def settle_account(me: Pointer[Thread], fn: Body) -> None:
    """Move the thread's account to the cost of `fn`."""
    cycles = me.cycles
    indices = me.indices
    me.cycles = 0
    me.indices = 0
    if indices != 0:
        cost = cost_of(fn)
        cost.body = fn
        cost.rate = (cycles << 10) // indices


@inline
def note_wake(cycles: u64) -> None:
    """Remember what waking cost. One slow wake must not stop waking for long."""
    before = wake_cycles.value
    mean = (before + min(cycles, before << 1)) >> 1
    wake_cycles.value = cycles if before == 0 else mean
