"""Products of bfloat16 in tile registers, run by the instructions' meaning in software on any machine."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle.driver.stages import stage_modules, stage_text
from heddle.graph.rewriter import loop_call
from heddle.ir.expr import Constant, Function
from heddle.ir.visitor import walk
from heddle.runtime.needs import Needs
from heddle.support.diagnostics import FormatError
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.vm.relax import VirtualMachine
from tests.unit.codegen.tile_machine import TileMachine
from tests.unit.lower.test_bfloat16 import check, machine, module, normal, rounded

TILES = "llvm -mcpu=sapphirerapids"


def product_of(mod: Any, stage: str = "lowered", target: Any = TILES) -> tuple[Any, list[Any]]:
    """The loop function of a model's only product, and its constant arguments (None for others)."""
    stages = stage_modules(mod, target, precision="bf16")
    for func in stages["scheduled"].functions.values():
        calls = map(loop_call, walk(func)) if isinstance(func, Function) else ()
        for callee, args in (call for call in calls if call is not None):
            given = [arg.data.numpy() if isinstance(arg, Constant) else None for arg in args.fields]
            if any(each is not None and each.dtype == ml_dtypes.bfloat16 for each in given):
                return stages[stage][callee.name_hint], given
    raise AssertionError("the model has no product in bfloat16")


def run(mod: Any, x: Any, shape: tuple[int, ...], num_threads: int = 1) -> tuple[Any, TileMachine]:
    """The product's kernel by the software's tiles: its result, and the machine after it."""
    func, given = product_of(mod)
    data = np.ascontiguousarray(x.astype(ml_dtypes.bfloat16))
    arguments = [data if each is None else each for each in given]
    tiles = TileMachine([each for each in arguments if each.dtype == ml_dtypes.bfloat16])
    result = np.full(shape, np.nan, "float32")
    tiles.run(func, TILES, [*arguments, result], num_threads)
    return result, tiles


def check_product(m: int, k: int, n: int, rows: Any = None, num_threads: int = 1) -> TileMachine:
    rng = np.random.default_rng(m * 31 + k * 7 + n)
    x, w = normal(rng, m, k), normal(rng, k, n)
    got, tiles = run(module((m if rows is None else rows, k), w), x, (m, n), num_threads)
    assert tiles.faults == [] and tiles.is_released
    check(got, x, w)
    return tiles


SIZES = [
    (32, 64, 64),
    (16, 64, 32),
    (8, 96, 48),
    (33, 64, 61),
    (31, 1024, 16),
    (47, 40, 127),
    (48, 300, 80),
    (65, 784, 31),
    (9, 36, 128),
]


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_of_any_size(m: int, k: int, n: int) -> None:
    assert check_product(m, k, n).counts["tdpbf16ps"] > 0


@pytest.mark.parametrize(("k", "n"), [(64, 64), (60, 47)])
def test_one_program_for_any_number_of_rows(k: int, n: int) -> None:
    """A single row takes no tiles."""
    for m in (0, 1, 2, 15, 16, 17, 31, 32, 33, 49, 70):
        tiles = check_product(m, k, n, "m")
        assert (tiles.counts.get("tdpbf16ps", 0) > 0) == (m > 1)


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 256, 64), (7, 64, 64), (32, 65, 64), (32, 74, 64), (32, 30, 64)]
)
def test_few_rows_and_sums_that_tiles_do_not_cut_take_rows(m: int, k: int, n: int) -> None:
    """The sum of 74 steps has 37 pairs; that of 30 is a single tile."""
    text = stage_text(module((m, k), normal(np.random.default_rng(1), k, n)), "tir", TILES, precision="bf16")
    assert "tdpbf16ps" not in text and "avx512bf16.dpbf16ps" in text


def test_batches() -> None:
    rng = np.random.default_rng(2)
    x, w = normal(rng, 3, 19, 64), normal(rng, 64, 32)
    got, tiles = run(module((3, 19, 64), w), x, (3, 19, 32))
    assert tiles.faults == [] and tiles.is_released and tiles.counts["tdpbf16ps"] > 0
    check(got, x, w)
    x, w = normal(rng, 3, 19, 64), normal(rng, 3, 64, 32)
    got, tiles = run(module((3, 19, 64), w), x, (3, 19, 32))
    assert tiles.faults == [] and tiles.is_released and tiles.counts["tdpbf16ps"] > 0
    check(got, x, w)


@pytest.mark.parametrize("m", [20, 40, "m"])
def test_what_follows_a_product_is_done_on_its_tiles(m: Any) -> None:
    rng = np.random.default_rng(3)
    rows = 37 if m == "m" else m
    x, w, b = normal(rng, rows, 96), normal(rng, 96, 64), normal(rng, 64)
    bias = f"R.const({b.tolist()}, 'float32')"
    mod = module((m, 96), w, f"R.nn.relu(R.add(R.matmul(x, w), {bias}))")
    got, tiles = run(mod, x, (rows, 64))
    assert tiles.faults == [] and tiles.is_released and tiles.counts["tdpbf16ps"] > 0
    np.testing.assert_allclose(got, np.maximum(rounded(x) @ rounded(w) + b, 0), rtol=1e-4, atol=1e-4)


def test_every_thread_has_tiles_of_its_own() -> None:
    tiles = check_product(64, 512, 512, num_threads=3)
    if tiles.num_threads == 1:  # the pool may take a new kernel for a cheap one that lay at its address
        tiles = check_product(64, 512, 512, num_threads=3)
    assert tiles.num_threads > 1
    assert tiles.counts["tilerelease"] == tiles.counts["ldtilecfg"] == 16  # one of each for 32 columns


def test_tiles_are_configured_anew_only_for_the_last_rows() -> None:
    assert check_product(96, 64, 32).counts["ldtilecfg"] == 1
    assert check_product(97, 64, 32).counts["ldtilecfg"] == 3
    assert check_product(97, 64, 32, "m").counts["ldtilecfg"] == 3


def test_rows_that_follow_one_that_is_not_finite() -> None:
    rng = np.random.default_rng(4)
    x, w = normal(rng, 35, 64), normal(rng, 64, 32)
    x[33] = np.inf
    got, _ = run(module((35, 64), w), x, (35, 32))
    assert not np.isfinite(got[33]).any() and np.isfinite(np.delete(got, 33, 0)).all()


def test_the_instructions_are_the_designed_ones() -> None:
    mod = module((64, 768), normal(np.random.default_rng(1), 768, 128))
    lines = [line.split() for line in stage_text(mod, "asm", TILES, precision="bf16").splitlines()]
    names = [words[0] for words in lines if words and words[0].startswith(("tile", "ldtile", "tdp"))]
    assert names == (
        ["ldtilecfg"]
        + ["tileloadd"] * 8  # the sums, then a step's factors
        + ["tdpbf16ps"] * 4
        + ["tilestored"] * 4
        + ["tilerelease"]
    )


def test_the_loop_interpreter_runs_the_scheduled_loops() -> None:
    rng = np.random.default_rng(5)
    m, k = 9, 36
    x, w = normal(rng, m, k), normal(rng, k, 16)
    loops, (_, packed) = product_of(module((m, k), w), "scheduled")
    assert "tile_product" in str(loops)
    result = np.zeros((m, 16), "float32")
    run_primfunc(loops, x.astype(ml_dtypes.bfloat16), packed, result)
    check(result, x, w)


@pytest.mark.parametrize("target", ["llvm -mcpu=znver5", "llvm -mcpu=sapphirerapids -mattr=-amx-bf16"])
def test_other_processors_take_rows(target: str) -> None:
    mod = module((64, 64), normal(np.random.default_rng(1), 64, 128))
    text = stage_text(mod, "asm", target, precision="bf16")
    assert "vdpbf16ps" in text and "tmm" not in text and "tilecfg" not in text
    assert "tile_product" not in stage_text(mod, "scheduled", target, precision="bf16")
    assert "tile" not in stage_text(mod, "tir", TILES)  # float32 stays as it is


HOST_HAS_TILES = "amx-bf16" in Target("llvm").feature_set
WITH_TILES = "llvm -mattr=+amx-tile,+amx-bf16"
"""This processor with tiles, whether it has them or not."""


@pytest.mark.skipif(not HOST_HAS_TILES, reason="the processor lacks amx-bf16, or the system refuses it")
@pytest.mark.parametrize("m", [1, 16, 33, 128])
def test_the_processor_itself(m: int) -> None:
    rng = np.random.default_rng(m)
    x, w = normal(rng, m, 256), normal(rng, 256, 256)
    check(machine(module(("m", 256), w))(x).numpy(), x, w)


@pytest.mark.skipif(HOST_HAS_TILES, reason="the processor has amx-bf16")
@pytest.mark.skipif(not Target("llvm").mtriple.startswith("x86_64"), reason="tiles are x86-64's")
@pytest.mark.parametrize("exec_mode", ["compiled", "bytecode"])
def test_a_program_that_needs_tiles_says_so_where_there_are_none(exec_mode: str) -> None:
    rng = np.random.default_rng(6)
    x, w = normal(rng, 32, 64), normal(rng, 64, 64)
    with pytest.raises(FormatError, match=r"F0111.*lacks: amx-bf16, amx-tile"):
        machine(module((32, 64), w), WITH_TILES, exec_mode=exec_mode)(x)


@pytest.mark.skipif(HOST_HAS_TILES, reason="the processor has amx-bf16")
@pytest.mark.skipif(not Target("llvm").mtriple.startswith("x86_64"), reason="tiles are x86-64's")
@pytest.mark.parametrize("exec_mode", ["compiled", "bytecode"])
def test_code_that_nobody_checked_asks_for_tiles_itself(exec_mode: str) -> None:
    """It fails before the first instruction that would end the process, in libraries for C too."""
    rng = np.random.default_rng(6)
    x, w = normal(rng, 32, 64), normal(rng, 64, 64)
    executable = heddle.compile(module((32, 64), w), target=WITH_TILES, precision="bf16", exec_mode=exec_mode)
    for kernels in executable.imports:
        kernels.needs = Needs()
    call = VirtualMachine(executable, heddle.cpu())["main"]
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"U0404.*needs tile registers \(amx-tile\).*-mattr=-amx-tile"):
            call(x)
