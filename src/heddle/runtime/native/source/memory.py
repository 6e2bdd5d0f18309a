"""Pools of memory: storages on loan, in blocks of size classes.

A pool's lock guards its books and its free blocks. A block starts with a Head and a Storage, then comes the
memory. A free block's `owner` is the next free one of its class.
"""

from heddle.runtime.native.abi import (
    BAD_REQUEST,
    HEAD_BYTES,
    NO_MEMORY,
    NUM_SIZE_CLASSES,
    Kind,
    Pool,
    Storage,
    StorageBlock,
)
from heddle.runtime.native.source.sizes import round_up
from heddle.runtime.native.source.system import advise_huge_pages, aligned_alloc, free, pause
from heddle.runtime.native.source.thread import heddle_set_error
from heddle.systems.types import Address, Pointer, i64, u64
from heddle.systems.words import (
    ACQUIRE,
    RELEASE,
    Text,
    cast,
    cold,
    export,
    fill,
    inline,
    leading_zeros,
    native,
    null,
    offset,
    size_of,
)

no_storage = Text("memory limit of %e bytes reached: %g more bytes do not fit into it")
no_system_memory = Text("the system has no %g bytes of memory left")
negative_storage = Text("storage size must not be negative, got %g bytes")

LOG_CLASSES = 3  # to a power of two
LEAST_BYTES = 64
MOST_BYTES = 1 << 56
ALIGN_BYTES = 64
HUGE_FROM_BYTES = 4 << 20
HUGE_PAGE_BYTES = 2 << 20


@native
def pool_lock(pool: Pointer[Pool]) -> None:
    """Take a pool's lock; spins while another thread has it."""
    while pool.lock.exchange(1, ACQUIRE) != 0:
        pause()


@native
def pool_unlock(pool: Pointer[Pool]) -> None:
    """Give a pool's lock back."""
    pool.lock.store(0, RELEASE)


@inline
def size_class(size_bytes: i64) -> tuple[u64, i64]:
    """The class of a size, and the bytes of its blocks: eight classes to a power of two, from 64 bytes."""
    last = u64(max(size_bytes, LEAST_BYTES) - 1)
    log = 63 - leading_zeros(last)
    step_log = log - LOG_CLASSES
    quotient = last >> step_log
    return log << LOG_CLASSES | quotient & 7, i64((quotient + 1) << step_log)


@native
def pool_trim_locked(pool: Pointer[Pool]) -> None:
    """Give the free blocks back to the system. The lock is held."""
    number: u64 = 0
    while number < NUM_SIZE_CLASSES:
        block = pool.free_blocks[number]
        pool.free_blocks[number] = null
        while block != null:
            following = next_free(block)
            free(block)
            block = following
        number += 1
    pool.cached_bytes = 0


@inline
def next_free(block: Pointer[StorageBlock]) -> Pointer[StorageBlock]:
    """The block behind this one in its list of free blocks."""
    return cast(Pointer[StorageBlock], block.head.owner)


@export
def heddle_pool_trim(pool: Pointer[Pool]) -> None:
    """Give the free blocks of a pool back to the system."""
    pool_lock(pool)
    pool_trim_locked(pool)
    pool_unlock(pool)


@native
def pool_poison(pool: Pointer[Pool], block: Pointer[StorageBlock]) -> None:
    """Of a pool that says so, blocks hold nothing but ones when they are lent and given back: floats that are
    NaN, integers -1."""
    if pool.poisons != 0:
        fill(offset(block, 1), 255, u64(block.storage.block_bytes))


# ---- lending


@inline
def fresh_block(size_bytes: i64) -> Pointer[StorageBlock]:
    """A block from the system, with room for what stands before the memory; null where there is none. Large
    ones ask for pages of 2 MiB, where the system has them."""
    amount = round_up(u64(size_bytes) + size_of(StorageBlock), ALIGN_BYTES)
    if amount < HUGE_FROM_BYTES:
        return cast(Pointer[StorageBlock], aligned_alloc(ALIGN_BYTES, amount))
    amount = round_up(amount, HUGE_PAGE_BYTES)
    block = aligned_alloc(HUGE_PAGE_BYTES, amount)
    if block != null:
        advise_huge_pages(block, amount)
    return cast(Pointer[StorageBlock], block)


@inline
def has_room(pool: Pointer[Pool], size_bytes: i64) -> bool:
    """Whether a fresh block fits below the limit; free ones are given back if that makes room."""
    limit = u64(pool.limit_bytes)
    wanted = u64(pool.bytes_in_use + size_bytes)
    if wanted + u64(pool.cached_bytes) > limit:
        pool_trim_locked(pool)
        return wanted <= limit
    return True


@cold
def refuse(pool: Pointer[Pool], size_bytes: i64) -> None:
    """Say that the system has no memory. The lock is held; free blocks are given back."""
    pool_trim_locked(pool)
    pool_unlock(pool)
    heddle_set_error(NO_MEMORY, no_system_memory, 0, size_bytes)


@inline
def unshelve(pool: Pointer[Pool], block: Pointer[StorageBlock], number: u64, block_bytes: i64) -> None:
    """Take the first free block of its class from the shelf. The lock is held."""
    pool.free_blocks[number] = next_free(block)
    pool.cached_bytes -= block_bytes


@inline
def book(pool: Pointer[Pool], block_bytes: i64) -> None:
    """Count what is lent. The lock is held."""
    in_use = pool.bytes_in_use + block_bytes
    pool.bytes_in_use = in_use
    pool.peak_bytes = max(pool.peak_bytes, in_use)


@native
def pool_take_waiting(pool: Pointer[Pool], size_bytes: i64) -> Pointer[Storage]:
    """As `pool_take` where a block of the class waits, the usual case; null where it takes more than that.
    Kind, class, size of the block and device are the block's from before."""
    if pool.poisons != 0:
        return null
    number, block_bytes = size_class(size_bytes)
    pool_lock(pool)
    block = pool.free_blocks[number]
    ordinal = pool.num_allocations
    if block == null or ordinal == pool.failing_allocation:
        pool_unlock(pool)
        return null
    pool.num_allocations = ordinal + 1
    unshelve(pool, block, number, block_bytes)
    book(pool, block_bytes)
    pool_unlock(pool)
    block.head.count = 1
    block.head.owner = pool
    block.storage.size_bytes = size_bytes
    return block.storage


@native
def pool_take(pool: Pointer[Pool], size_bytes: i64) -> Pointer[Storage]:
    """A storage that counts once, or null after heddle_set_error."""
    if size_bytes < 0:
        heddle_set_error(BAD_REQUEST, negative_storage, 0, size_bytes)
        return null
    if size_bytes > MOST_BYTES:
        heddle_set_error(NO_MEMORY, no_system_memory, 0, size_bytes)
        return null
    number, block_bytes = size_class(size_bytes)
    pool_lock(pool)
    ordinal = pool.num_allocations
    pool.num_allocations = ordinal + 1
    if ordinal == pool.failing_allocation:
        refuse(pool, size_bytes)
        return null
    block = pool.free_blocks[number]
    if block != null:
        unshelve(pool, block, number, block_bytes)
    else:
        if not has_room(pool, block_bytes):
            limit = pool.limit_bytes
            pool_unlock(pool)
            heddle_set_error(NO_MEMORY, no_storage, limit, size_bytes)
            return null
        block = fresh_block(block_bytes)
        if block == null:
            refuse(pool, size_bytes)
            return null
        pool.num_fresh_blocks += 1
    book(pool, block_bytes)
    pool_unlock(pool)
    block.head.count = 1
    block.head.kind = Kind.STORAGE
    block.head.flags = 0
    block.head.owner = pool
    block.head.link = number
    block.storage.size_bytes = size_bytes
    block.storage.block_bytes = block_bytes
    block.storage.device_type = pool.device_type
    block.storage.device_id = pool.device_id
    pool_poison(pool, block)
    return block.storage


@native
def pool_give(storage: Pointer[Storage]) -> None:
    """Take back a storage that nothing counts any more."""
    block = cast(Pointer[StorageBlock], offset(cast(Address, storage), -HEAD_BYTES))
    pool = cast(Pointer[Pool], block.head.owner)
    pool_poison(pool, block)
    size_bytes = storage.block_bytes
    pool_lock(pool)
    pool.bytes_in_use -= size_bytes
    if pool.keeps_blocks == 0:
        pool_unlock(pool)
        free(block)
        return
    number = block.head.link
    block.head.owner = pool.free_blocks[number]
    pool.free_blocks[number] = block
    pool.cached_bytes += size_bytes
    pool_unlock(pool)
