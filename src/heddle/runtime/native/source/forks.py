"""A fork while other threads run.

The forking thread takes the lock of every pool, so that no other one is within a pool's books, and gives it
back in parent and child. It holds the interpreter's lock all the while (these run inside the C library's
fork); whoever holds a pool's lock without the interpreter's needs nothing but time. In the child the workers
are gone: their pool is made as new.
"""

from heddle.runtime.native.abi import Pool
from heddle.runtime.native.source.fork_join import heddle_pool_reset
from heddle.runtime.native.source.making import refuse_memory
from heddle.runtime.native.source.memory import pool_lock, pool_unlock
from heddle.runtime.native.source.system import calloc
from heddle.systems.types import Atomic, Pointer, Struct, i32
from heddle.systems.words import ACQ_REL, ACQUIRE, Global, cast, export, null, size_of


class KnownPool(Struct):
    """A pool that was registered, and the one that was registered before."""

    pool: Pointer[Pool]
    before: Pointer["KnownPool"]


known_pools = Global(Atomic[Pointer[KnownPool]])
held_pools = Global(Pointer[KnownPool])  # the first of those that the forking thread has taken


@export
def heddle_pool_register(pool: Pointer[Pool]) -> i32:
    """Pools are never unregistered. 0, or -1 after heddle_set_error."""
    made = cast(Pointer[KnownPool], calloc(1, size_of(KnownPool)))
    if made == null:
        refuse_memory(size_of(KnownPool))
        return -1
    made.pool = pool
    before = known_pools.load(ACQUIRE)
    made.before = before
    while not known_pools.compare_exchange(before, made, ACQ_REL, ACQUIRE):
        before = known_pools.load(ACQUIRE)
        made.before = before
    return 0


@export
def heddle_fork_before() -> None:
    """Lock every pool, so that no thread is inside one while the process forks."""
    known = known_pools.load(ACQUIRE)
    held_pools.value = known
    while known != null:
        pool_lock(known.pool)
        known = known.before


@export
def heddle_fork_parent() -> None:
    """Unlock what `heddle_fork_before` locked."""
    held = held_pools.value
    while held != null:
        pool_unlock(held.pool)
        held = held.before


@export
def heddle_fork_child() -> None:
    """Unlock the pools in the new process, which has no workers yet."""
    heddle_fork_parent()
    heddle_pool_reset()
