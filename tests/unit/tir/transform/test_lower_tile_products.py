"""LowerTileProducts: which nests become tiles, and which stay for other instructions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from heddle.codegen.build import build
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.script import from_source
from heddle.tir.dot_product import tile_product_of
from heddle.tir.transform import LowerTileProducts
from tests.unit.codegen.tile_machine import TileMachine

TILES = tile_product_of(("amx-tile", "amx-bf16"))
WITH_TILES = "llvm -mattr=+amx-tile,+amx-bf16"

NEST = """
@T.prim_func
def tiles(
    a: T.Buffer((4096,), "bfloat16"), b: T.Buffer((4096,), "bfloat16"), c: T.Buffer((4096,), "float32")
):
    for n in T.{kind}(2):
        for k in T.serial({steps}, annotations={{"tile_product": True}}):
            for i, j in T.grid({blocks}):
                for q, r in T.grid({pairs}, {rows}):
                    for l in T.vectorized({lanes}):
                        for p in T.serial(2, annotations={{"dot_product": True}}):
                            c[{sums}] = c[{sums}] + T.float32(a[{data}]) * T.float32(b[{weights}])
"""
PLAIN = {
    "kind": "parallel",
    "steps": "3",
    "blocks": "2, 2",
    "pairs": "10",
    "rows": "16",
    "lanes": "16",
    "sums": "n * 32 + i * 1024 + r * 64 + j * 16 + l",
    "data": "(i * 16 + r) * 64 + k * 20 + q * 2 + p",
    "weights": "n * 2000 + k * 640 + q * 64 + j * 32 + l * 2 + p",
}


def nest(**changes: str) -> Any:
    return from_source(NEST.format(**{**PLAIN, **changes}))


def lowered(func: Any, instruction: Any = TILES) -> Any:
    return LowerTileProducts(instruction)(IRModule(Map({GlobalVar("tiles"): func})))["tiles"]


def run(func: Any, a: Any, b: Any, c: Any) -> TileMachine:
    machine = TileMachine((a, b))
    machine.run(func, WITH_TILES, (a, b, c))
    assert machine.faults == [] and machine.is_released
    return machine


def check(func: Any) -> TileMachine:
    """The tiles in software give what the loops give by other instructions; sums elsewhere stay."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(4096).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = rng.standard_normal(4096).astype("float32")
    expected, got = c.copy(), c.copy()
    build({"tiles": func}, "llvm -mcpu=x86-64-v3")["tiles"](a, b, expected)
    machine = run(func, a, b, got)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    return machine


@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_two_by_two_tiles(kind: str) -> None:
    machine = check(nest(kind=kind))
    assert machine.counts["tdpbf16ps"] == 2 * 3 * 4
    assert machine.counts["tileloadd64"] == 2 * (4 + 3 * 4)
    assert machine.counts["ldtilecfg"] == machine.counts["tilerelease"] == (2 if kind == "parallel" else 1)


@pytest.mark.parametrize(("blocks", "sums", "factors"), [("1, 2", 2, 3), ("3, 1", 3, 4), ("2, 1", 2, 3)])
def test_tiles_of_factors_are_shared(blocks: str, sums: int, factors: int) -> None:
    """A step loads each tile of data and of weights once."""
    assert check(nest(blocks=blocks)).counts["tileloadd64"] == 2 * (sums + 3 * factors)


@pytest.mark.parametrize("pairs", ["1", "7", "16"])
def test_tiles_of_any_number_of_pairs(pairs: str) -> None:
    count = int(pairs)
    data = f"(i * 16 + r) * 96 + k * {2 * count} + q * 2 + p"
    check(nest(pairs=pairs, data=data, weights=f"n * 32 + (k * {count} + q) * 64 + j * 32 + l * 2 + p"))


@pytest.mark.parametrize(
    "odd",
    [
        {"rows": "8"},
        {"lanes": "8"},
        {"pairs": "17"},
        {"sums": "n * 32 + i * 1024 + r * 64 + j * 16 + l * 2"},
        {"sums": "n * 32 + i * 1024 + r * 64 + j * 16 + l + k"},
        {"sums": "n * 32 + i * 1024 + r * 64 + l"},
        {"data": "(i * 16 + r) * 64 + k * 20 + q + p * 10"},
        {"data": "(i * 16 + r) * (r + 1) + k * 20 + q * 2 + p"},
        {"data": "T.min(r, 3) * 64 + T.min(r + 1, 3) + k * 20 + q * 2 + p"},
        {"weights": "n * 1024 + k * 320 + q * 64 + j * 32 + l + 16 * p"},
        {"weights": "n * 1024 + r + k * 320 + q * 64 + j * 32 + l * 2 + p"},
        {"blocks": "3, 3"},
        {"blocks": "4, 1"},
    ],
)
def test_other_forms_stay(odd: dict[str, str]) -> None:
    func = nest(**odd)
    assert lowered(func) is func


def test_without_the_instruction_all_stays() -> None:
    func = nest()
    assert lowered(func, None) is func
    assert tile_product_of(("amx-tile", "amx-int8")) is None


@pytest.mark.parametrize("last", [1, 5, 15, 16, 17, 30])
def test_rows_beyond_the_last_are_left_out(last: int) -> None:
    """Their sums are not touched, but for the first of a tile that has no rows; nothing beyond is read."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(4096).astype(ml_dtypes.bfloat16) for _ in range(2))
    a[(last + 1) * 64 :] = np.nan
    func = nest(data=f"T.min(i * 16 + r, {last}) * 64 + k * 20 + q * 2 + p")
    expected, got = (np.zeros(4096, "float32") for _ in range(2))
    build({"tiles": func}, "llvm -mcpu=x86-64-v3")["tiles"](a, b, expected)
    machine = run(func, a, b, got)
    assert machine.counts["ldtilecfg"] == 2 * 3
    left_out = [row for row in range(last + 1, 32) if row != 16]
    assert not got.reshape(64, 64)[left_out].any()
    np.testing.assert_allclose(got[: (last + 1) * 64], expected[: (last + 1) * 64], rtol=1e-4, atol=1e-4)


def test_one_shape_of_tiles_a_body() -> None:
    """A second nest of other sides, in the same body, stays."""
    text = NEST.format(**PLAIN)
    second = NEST.format(**{**PLAIN, "pairs": "5"}).split("for n in T.parallel(2):")[1]
    func = from_source(text.rstrip() + second)
    after = str(lowered(func))
    assert after.count("tdpbf16ps") == 4 and after.count("tile_product") == 1
    assert after.count("ldtilecfg") == after.count("tilerelease") == 1
