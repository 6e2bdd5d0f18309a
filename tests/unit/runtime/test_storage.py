import gc
import os
import weakref
from pathlib import Path

import pytest

from heddle.runtime import cpu, cuda, storage
from heddle.runtime.storage import Allocator, allocator_for, clear_allocators
from heddle.support import settings
from heddle.support.diagnostics import Trap, UsageError


def test_pool_lends_a_freed_block_again():
    pool = Allocator(cpu(0), "pooled")
    first = pool.alloc(5000)
    address = first.address
    assert address % 64 == 0
    assert pool.books.bytes_in_use == 5120
    del first
    assert (pool.books.bytes_in_use, pool.books.cached_bytes) == (0, 5120)
    again = pool.alloc(5100)
    assert again.address == address
    assert pool.books.num_fresh_blocks == 1
    assert pool.books.num_allocations == 2
    other = pool.alloc(5100)
    assert other.address != address


def test_naive_gives_back():
    naive = Allocator(cpu(0), "naive")
    storage = naive.alloc(100)
    assert naive.books.bytes_in_use == 104
    del storage
    assert naive.books.bytes_in_use == 0
    assert naive.books.peak_bytes == 104


def test_sizes_near_each_other_share_a_class_when_large():
    pool = Allocator(cpu(0), "pooled")
    size = 5_000_000
    first = pool.alloc(size)
    address = first.address
    del first
    assert pool.alloc(size + 1000).address == address


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4096, 4097, (1 << 20) + 1, (1 << 21), 12_345_678])
def test_class_holds_the_request_and_wastes_little(size):
    pool = Allocator(cpu(0), "pooled")
    storage = pool.alloc(size)
    assert storage.size_bytes == size
    assert size <= pool.books.bytes_in_use <= max(64, size * 1.126)


@pytest.mark.parametrize("kind", ["naive", "pooled"])
def test_limit_is_a_trap_and_leaves_the_books_right(kind):
    allocator = Allocator(cpu(0), kind)
    allocator.memory_limit_bytes = 10_000
    held = allocator.alloc(4096)
    with pytest.raises(Trap, match=r"U0601.*10000 bytes.*8192 more(.|\n)*4096 bytes are in use"):
        allocator.alloc(8192)
    assert allocator.books.bytes_in_use == 4096
    del held
    gc.collect()
    assert allocator.alloc(8192).size_bytes == 8192  # the cached block makes room


@pytest.mark.parametrize("kind", ["naive", "pooled"])
def test_a_pool_without_a_limit_has_what_the_machine_has(kind, monkeypatch):
    """Each allocation may be less than that: the system would promise all of them, and end the process."""
    monkeypatch.setattr(storage, "system_memory_bytes", lambda: 10_000)
    allocator = Allocator(cpu(0), kind)
    assert allocator.memory_limit_bytes is None
    held = [allocator.alloc(4096), allocator.alloc(4096)]
    with pytest.raises(Trap, match=r"U0601.*10000 bytes.*4096 more"):
        allocator.alloc(4096)
    allocator.memory_limit_bytes = 20_000
    held.append(allocator.alloc(4096))
    allocator.memory_limit_bytes = None
    with pytest.raises(Trap, match="U0601"):
        allocator.alloc(4096)


def test_the_machines_memory_is_known():
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = settings.system_memory_bytes()
    assert found is not None and found > 0
    assert Allocator(cpu(0), "pooled").books.limit_bytes == found
    swap = [line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines() if "SwapTotal" in line]
    assert found <= pages + 1024 * int(swap[0])


def test_absurd_sizes_are_traps():
    with pytest.raises(Trap, match="U0601"):
        allocator_for().alloc(1 << 60)
    with pytest.raises(ValueError, match="U0602"):
        allocator_for().alloc(-1)


@pytest.mark.fact("5.4")
def test_one_allocator_a_device_and_kind():
    assert allocator_for(cpu(0)) is allocator_for(cpu(0), "pooled")
    assert allocator_for(cpu(0)) is not allocator_for(cpu(1))
    assert allocator_for(cpu(0), "naive") is not allocator_for(cpu(0))
    with pytest.raises(UsageError, match="U0202"):
        allocator_for(cuda(0))
    with pytest.raises(UsageError, match="U0602"):
        allocator_for(cpu(0), "arena")


def test_clear_drops_cached_blocks():
    allocator = allocator_for(cpu(3))
    allocator.alloc(4096)
    assert allocator.books.cached_bytes == 4096
    clear_allocators()
    assert allocator.books.cached_bytes == 0


def test_an_allocation_fails_on_request_once():
    allocator = Allocator(cpu(0), "pooled")
    allocator.fail_allocation(1)
    kept = allocator.alloc(100)
    with pytest.raises(Trap, match="U0601"):
        allocator.alloc(100)
    assert allocator.alloc(100).size_bytes == kept.size_bytes


def test_a_pool_outlives_its_allocator():
    """What native code made may die when the interpreter has dropped its modules: its pool must be there."""
    allocator = Allocator(cpu(5), "pooled")
    pool = weakref.ref(allocator.books)
    del storage._by_address[allocator.address], allocator
    gc.collect()
    assert pool() is not None
