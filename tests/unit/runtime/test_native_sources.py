"""The native library's sources: their committed text, and what the checking interpreter says of them."""

import ctypes
import random
import subprocess
import sys

import pytest

import heddle.vm.codes  # noqa: F401 - declares the machine's codes
from heddle.driver.native_text import FOLDER, PARTS, native_texts
from heddle.runtime.native import abi
from heddle.runtime.native.part_layout import Part, PartLog
from heddle.runtime.native.source import memory, thread
from heddle.runtime.size_class import block_bytes
from heddle.runtime.storage import Pool
from heddle.support.diagnostics import CODES, Trap
from heddle.systems.types import ctype_of, i32
from heddle.systems.words import Linkage
from tests.unit.runtime.native_machine import (
    books,
    changed_program,
    last_error,
    machine_of,
    new_pool,
    real_program,
)


def test_committed_text_is_that_of_the_sources():
    for name, text in native_texts().items():
        assert (FOLDER / name).read_text() == text, "run python -m heddle.driver.native_text"


def test_every_source_is_part_of_one_text():
    listed = {module.__name__ for modules in PARTS.values() for module in modules}
    program = real_program()
    declared = [tree.declared for tree in program.functions.values() if not tree.declared.is_inline]
    homes = {item.module for item in declared if item.linkage in (Linkage.INTERNAL, Linkage.EXPORTED)}
    homes |= {item.module for item in (*program.globals.values(), *program.texts.values())}
    assert homes == listed
    assert len(listed) == sum(map(len, PARTS.values()))


def test_hardly_any_text_is_written_by_hand():
    by_hand = [path for path in FOLDER.glob("*.ll") if path.name not in PARTS]
    assert [path.name for path in by_hand] == ["tiles.ll"]


def test_running_models_loads_layouts_of_the_language_and_no_more():
    code = "import sys, heddle.vm.relax.native; print([m for m in sys.modules if 'heddle.systems' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['heddle.systems', 'heddle.systems.types']"


WORDS = [value for name, value in vars(abi).items() if name.isupper() and isinstance(value, int)]


def test_error_words_are_of_declared_codes():
    assert abi.NO_MEMORY in WORDS
    for code in abi.MachineCode:
        assert f"V{code:04}" in CODES
    words = [word for word in WORDS if 1 << 16 < word < 1 << 32]
    assert len(words) >= 11
    for word in words:
        assert f"{'V' if word >> 8 < 600 else 'U'}{word >> 8:04}" in CODES
        assert word & 0xFF in set(abi.Family)


def test_structures_have_one_layout():
    assert Pool.bytes_in_use.offset == 0
    for struct in (abi.Error, abi.Thread, abi.Head, abi.Storage, abi.Pool, abi.Value, Part, PartLog):
        assert ctypes.sizeof(ctype_of(struct)) == struct.layout.size_bytes
    assert abi.Thread.layout.size_bytes <= abi.THREAD_BYTES
    assert (abi.Error.layout.size_bytes, abi.HEAD_BYTES) == (512, 32)
    assert abi.Error.layout.fields["message"].type.count == thread.MESSAGE_BYTES


# ---- memory

SIZES = (0, 1, 63, 64, 65, 72, 73, 127, 997, 4096, 4097, 99_991)


@pytest.mark.parametrize("size", [*SIZES, (4 << 20) - 128, 4 << 20, (4 << 20) + 1])
@pytest.mark.parametrize("keeps", [0, 1])
def test_a_storage_has_the_class_of_its_size(size, keeps):
    with machine_of() as machine:
        pool = new_pool(machine, keeps_blocks=keeps)
        storage = machine.call("pool_take", pool, size)
        assert (storage + 32) % 64 == 0
        assert machine.field(storage, abi.Storage.layout, "size_bytes") == size
        assert machine.field(storage, abi.Storage.layout, "block_bytes") == block_bytes(size)
        assert books(machine, pool, "bytes_in_use", "peak_bytes") == (block_bytes(size),) * 2
        machine.memory.range(storage + 32, block_bytes(size), 64, "write")
        machine.call("pool_give", storage)
        cached = block_bytes(size) if keeps else 0
        assert books(machine, pool, "bytes_in_use", "cached_bytes") == (0, cached)
        machine.call("heddle_pool_trim", pool)
        assert books(machine, pool, "cached_bytes") == (0,)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "kind", [{"keeps_blocks": 1}, {"keeps_blocks": 0}, {"poisons": 1, "keeps_blocks": 0}]
)
def test_books_are_right_whatever_comes_and_goes(seed, kind):
    rng = random.Random(seed)
    with machine_of() as machine:
        pool, held, peak = new_pool(machine, **kind), [], 0
        for _ in range(60):
            if held and rng.random() < 0.5:
                machine.call("pool_give", held.pop(rng.randrange(len(held)))[0])
            else:
                size = rng.choice(SIZES)
                held.append((machine.call("pool_take", pool, size), size))
            used = sum(block_bytes(size) for _, size in held)
            peak = max(peak, used)
            assert books(machine, pool, "bytes_in_use", "peak_bytes") == (used, peak)
        for storage, _ in held:
            machine.call("pool_give", storage)
        machine.call("heddle_pool_trim", pool)


def test_freed_blocks_are_lent_again_the_warmest_first():
    with machine_of() as machine:
        pool = new_pool(machine)
        a, b = (machine.call("pool_take", pool, 100) for _ in range(2))
        machine.call("pool_give", a)
        machine.call("pool_give", b)
        assert [machine.call("pool_take", pool, size) for size in (104, 97)] == [b, a]
        assert books(machine, pool, "num_fresh_blocks", "num_allocations", "cached_bytes") == (2, 4, 0)
        machine.call("pool_give", a)
        machine.call("pool_give", b)
        machine.call("heddle_pool_trim", pool)


def test_a_limit_makes_room_first_and_is_an_error_then():
    with machine_of() as machine:
        pool = new_pool(machine, limit_bytes=10_000)
        held = machine.call("pool_take", pool, 4096)
        machine.call("pool_give", machine.call("pool_take", pool, 5000))
        assert machine.call("pool_take", pool, 8192) == 0
        message = memory.no_storage.text
        assert last_error(machine) == (abi.NO_MEMORY, 10_000, 8192, message)
        assert books(machine, pool, "bytes_in_use", "cached_bytes", "lock") == (4096, 0, 0)
        machine.call("pool_give", held)
        machine.call("heddle_pool_trim", pool)


@pytest.mark.parametrize(
    ("size", "word", "text"),
    [
        (-1, abi.BAD_REQUEST, memory.negative_storage),
        ((1 << 56) + 1, abi.NO_MEMORY, memory.no_system_memory),
        ((1 << 63) - 1, abi.NO_MEMORY, memory.no_system_memory),
    ],
)
def test_absurd_sizes_are_errors(size, word, text):
    with machine_of() as machine:
        pool = new_pool(machine)
        assert machine.call("pool_take", pool, size) == 0
        assert last_error(machine) == (word, 0, size, text.text)
        assert books(machine, pool, "num_allocations", "lock") == (0, 0)


@pytest.mark.parametrize("which", ["system", "injected"])
def test_no_memory_leaves_the_books_right(which):
    with machine_of() as machine:
        machine.call("heddle_thread")
        pool = new_pool(machine, failing_allocation=1 if which == "injected" else -1)
        held = machine.call("pool_take", pool, 100)
        machine.state["failing_allocation"] = 0 if which == "system" else None
        assert machine.call("pool_take", pool, 5_000) == 0
        assert last_error(machine) == (abi.NO_MEMORY, 0, 5_000, memory.no_system_memory.text)
        assert books(machine, pool, "bytes_in_use", "lock", "num_fresh_blocks") == (104, 0, 1)
        machine.call("pool_give", held)
        machine.call("heddle_pool_trim", pool)


def _two_threads_take_and_give(program, seed):
    with machine_of(program, seed, max_steps=2_000) as machine:
        pool = new_pool(machine)

        def work():
            for size in (100, 100, 5000):
                storage = machine.call("pool_take", pool, size)
                machine.store(storage + 28 + block_bytes(size), i32, size)
                machine.call("pool_give", storage)

        other = machine.spawn(work)
        work()
        machine.join(other)
        machine.call("heddle_pool_trim", pool)
        assert books(machine, pool, "bytes_in_use", "num_allocations") == (0, 6)


@pytest.mark.parametrize("seed", range(20))
def test_two_threads_share_a_pool_without_a_race(seed):
    _two_threads_take_and_give(real_program(), seed)


FREE_ALL = """\
            following = next_free(block)
            free(block)
            block = following
"""
FREE = "            free(block)\n"
SHELVE = "    pool.cached_bytes += size_bytes\n    pool_unlock(pool)\n"
MEMORY_FAULTS = {
    "takes the lock carelessly": ("exchange(1, ACQUIRE)", "exchange(1, RELAXED)", "Y0405"),
    "gives the lock carelessly": ("lock.store(0, RELEASE)", "lock.store(0, RELAXED)", "Y0405"),
    "never unlocks": ("pool.lock.store(0, RELEASE)", "pass", "Y0411"),
    "keeps and frees": (SHELVE, SHELVE + "    free(block)\n", "Y0402"),
    "frees twice": (FREE_ALL, FREE_ALL.replace(FREE, FREE + FREE), "Y0403"),
    "reads what it freed": (
        FREE_ALL,
        "            free(block)\n            block = next_free(block)\n",
        "Y0402",
    ),
    "forgets blocks": (FREE_ALL, "            block = next_free(block)\n", "Y0404"),
    "small blocks": ("u64(size_bytes) + size_of(StorageBlock)", "u64(size_bytes)", "Y0401"),
}


@pytest.mark.parametrize(("old", "new", "code"), MEMORY_FAULTS.values(), ids=MEMORY_FAULTS)
def test_faults_in_the_pool_are_found(tmp_path, old, new, code):
    program = changed_program(tmp_path, memory, old, new)
    found = set()
    for seed in range(8):
        try:
            _two_threads_take_and_give(program, seed)
        except Trap as error:
            found.add(error.code)
    assert code in found


# ---- threads' records


def test_scratch_is_kept_and_the_largest_stay():
    with machine_of() as machine:
        blocks = [machine.call("heddle_workspace_alloc", size) for size in range(0, 12 * 4096, 4096)]
        assert all(block % 64 == 0 for block in blocks)
        machine.memory.range(blocks[5], 5 * 4096, 64, "write")
        for block in blocks:
            machine.call("heddle_workspace_free", block)
        me = machine.call("heddle_thread")
        assert machine.field(me, abi.Thread.layout, "num_blocks") == 8
        again = [machine.call("heddle_workspace_alloc", 11 * 4096) for _ in range(2)]
        assert again[0] == blocks[11]
        assert again[1] not in blocks
        machine.call("heddle_workspace_free", 0)
        for block in again:
            machine.call("heddle_workspace_free", block)


@pytest.mark.parametrize("why", ["no memory", "no key"])
def test_a_thread_without_a_record_shares_the_spare_one(why):
    with machine_of() as machine:
        machine.at_end[0]()  # this thread had a record already
        machine.state["failing_allocation"] = 0 if why == "no memory" else None
        machine.state["fails_specific"] = why == "no key"
        assert machine.call("heddle_thread") == machine.global_at("spare_thread")
        machine.state["fails_specific"] = True
        block = machine.call("heddle_workspace_alloc", 100)
        machine.call("heddle_workspace_free", block)  # and keeps nothing: check_end


def test_no_memory_for_scratch_is_an_error():
    with machine_of() as machine:
        machine.call("heddle_thread")
        machine.state["failing_allocation"] = 0
        assert machine.call("heddle_workspace_alloc", 1000) == 0
        assert last_error(machine) == (abi.NO_MEMORY, 1000, 0, thread.no_memory.text)


def test_long_messages_are_cut():
    with machine_of() as machine:
        at = machine.memory.allocate(1001, 1, "text", "long", "the test")
        machine.memory.set(at, 0, b"x" * 1000 + b"\0")
        machine.call("heddle_set_error", 5, at.start, -1, 1 << 62)
        assert last_error(machine) == (5, -1, 1 << 62, "x" * 487)


@pytest.mark.parametrize(
    ("end", "here", "limit"),
    [
        (1 << 32, (1 << 32) + (8 << 20), (1 << 32) + (4 << 20)),
        (1 << 32, (1 << 32) + (1 << 20), (1 << 32) + (128 << 10)),
        (1, 1 << 40, (1 << 40) - (4 << 20)),
    ],
)
def test_a_program_stops_before_its_stack_does(end, here, limit):
    with machine_of() as machine:
        machine.state.update(stack_end=end, frame=here)
        assert machine.call("stack_limit") == limit
        assert machine.call("stack_is_short") == 0
        machine.state.update(frame=(end if end > 1 else 0) + 1000, stack_end=5)  # the end was remembered
        assert machine.call("stack_is_short") == 1
