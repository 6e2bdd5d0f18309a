"""The kernel cache: what was compiled once is not compiled again, and damage is not believed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from heddle.codegen import KernelCache, build, compile_module
from heddle.ir.transform import PassContext
from heddle.prim.nodes import Var
from heddle.target import Target
from heddle.tir.nodes import BufferStore, For, ForKind, PrimFunc, decl_buffer

TARGET = Target("llvm")


def doubling(factor: float = 2.0, name: str = "n") -> PrimFunc:
    n, i = Var(name, "int64"), Var("i", "int64")
    a, b = decl_buffer((n,), "float32", "A"), decl_buffer((n,), "float32", "B")
    return PrimFunc(
        (a, b),
        For(i, 0, n, ForKind.SERIAL, BufferStore(b, a[i] * factor, (i,))),
        attrs={"global_symbol": "f"},
    )


def test_second_time_is_found_in_memory(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    first = compile_module(doubling(), TARGET, cache)
    second = compile_module(doubling(name="other"), TARGET, cache)
    assert second[0].object_code == first[0].object_code
    assert (cache.counters.compiles, cache.counters.memory_hits) == (1, 1)


def test_other_process_finds_it_on_disk(tmp_path: Path) -> None:
    compile_module(doubling(), TARGET, KernelCache(tmp_path))
    cache = KernelCache(tmp_path)
    kernels = compile_module(doubling(), TARGET, cache)
    assert (cache.counters.compiles, cache.counters.disk_hits) == (0, 1)
    assert kernels[0].functions == ("f",)


def test_target_and_program_are_part_of_the_key(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    compile_module(doubling(), TARGET, cache)
    compile_module(doubling(3.0), TARGET, cache)
    compile_module(doubling(), Target("llvm -mcpu=x86-64-v3"), cache)
    assert (cache.counters.compiles, cache.counters.hits) == (3, 0)


def test_code_that_a_pass_was_left_out_of_is_kept_apart(tmp_path: Path) -> None:
    """Such code is no answer for whoever wants every pass, and the other way round."""
    cache = KernelCache(tmp_path)
    for _ in range(2):
        with PassContext(disabled_pass=["Simplify"]):
            compile_module(doubling(), TARGET, cache)
    assert (cache.counters.compiles, cache.counters.hits) == (0, 0)
    compile_module(doubling(), TARGET, cache)
    with PassContext(disabled_pass=["Simplify"]):
        (kernels,) = compile_module(doubling(), TARGET, cache)
    assert kernels.llvm_ir and (cache.counters.compiles, cache.counters.hits) == (1, 0)
    with PassContext(disabled_pass=["FuseOps"]):
        compile_module(doubling(), TARGET, cache)
    assert cache.counters.memory_hits == 1


def test_damaged_entry_is_compiled_and_written_anew(tmp_path: Path) -> None:
    compile_module(doubling(), TARGET, KernelCache(tmp_path))
    (entry,) = tmp_path.glob("kernel-*")
    whole = entry.read_bytes()
    for damaged in (whole[:100], b"", whole[:-1] + bytes([whole[-1] ^ 1]), b"x" * len(whole)):
        entry.write_bytes(damaged)
        cache = KernelCache(tmp_path)
        compile_module(doubling(), TARGET, cache)
        assert (cache.counters.compiles, cache.counters.hits) == (1, 0)
        assert entry.read_bytes() == whole


def test_entry_of_another_program_is_not_used(tmp_path: Path) -> None:
    """As if two programs had one digest."""
    cache = KernelCache(tmp_path)
    compile_module(doubling(), TARGET, cache)
    (entry,) = tmp_path.glob("kernel-*")
    other = KernelCache(tmp_path / "b")
    compile_module(doubling(3.0), TARGET, other)
    (foreign,) = (tmp_path / "b").glob("kernel-*")
    foreign.write_bytes(entry.read_bytes())
    again = KernelCache(tmp_path / "b")
    compile_module(doubling(3.0), TARGET, again)
    assert (again.counters.compiles, again.counters.hits) == (1, 0)


def test_build_makes_callable_kernels_for_any_shape(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    module = build(doubling(), TARGET, cache)
    for size in (0, 1, 5, 1000):
        a, b = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
        module["f"](a, b)
        np.testing.assert_array_equal(b, a * 2)
    assert cache.counters.compiles == 1


def test_a_cache_that_moves_knows_only_what_is_in_its_folder(tmp_path: Path) -> None:
    """As benchmarks do that want nothing to be there."""
    cache = KernelCache(tmp_path / "one")
    compile_module(doubling(), TARGET, cache)
    cache.move(tmp_path / "two")
    compile_module(doubling(), TARGET, cache)
    assert (cache.counters.compiles, cache.counters.hits) == (2, 0)
    cache.move(tmp_path / "one")
    compile_module(doubling(), TARGET, cache)
    cache.move(None)
    compile_module(doubling(), TARGET, cache)
    assert (cache.counters.compiles, cache.counters.disk_hits) == (3, 1)
    assert len(list((tmp_path / "two").glob("kernel-*"))) == 1
