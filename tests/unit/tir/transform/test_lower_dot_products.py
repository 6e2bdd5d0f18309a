"""LowerDotProducts: loops over pairs, run before and after; what has another form stays."""

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
from heddle.target import Target
from heddle.tir.dot_product import DOT_PRODUCTS, dot_products_of
from heddle.tir.interpreter import run_primfunc
from heddle.tir.transform import LowerDotProducts

PAIRS = """
@T.prim_func
def pairs(
    a: T.Buffer(({k},), "bfloat16"), b: T.Buffer(({size},), "bfloat16"), c: T.Buffer(({lanes},), "float32")
):
    for k in range({steps}):
        for l in T.vectorized({lanes}):
            for p in T.serial({depth}, annotations={{"dot_product": True}}):
                c[l] = c[l] + T.Cast("float32", a[{at}]) * T.Cast("float32", b[{weight}])
"""


def pairs(lanes: int, steps: int, depth: int = 2, at: str = "", weight: str = "") -> Any:
    return from_source(
        PAIRS.format(
            k=steps * depth,
            size=steps * depth * lanes,
            lanes=lanes,
            steps=steps,
            depth=depth,
            at=at or f"k * {depth} + p",
            weight=weight or f"k * {depth * lanes} + l * {depth} + p",
        )
    )


def lowered(func: Any, features: tuple[str, ...] = ()) -> Any:
    mod = IRModule(Map({GlobalVar("pairs"): func}))
    return LowerDotProducts(dot_products_of(features))(mod)["pairs"]


def arrays(lanes: int, steps: int) -> list[Any]:
    rng = np.random.default_rng(lanes * 100 + steps)
    a, b = (rng.standard_normal(n).astype(ml_dtypes.bfloat16) for n in (2 * steps, 2 * steps * lanes))
    return [a, b, rng.standard_normal(lanes).astype("float32")]


@pytest.mark.parametrize(("lanes", "steps"), [(16, 5), (8, 1), (4, 7), (3, 2)])
def test_words_of_two_halves_give_the_same(lanes: int, steps: int) -> None:
    func, (a, b, c) = pairs(lanes, steps), arrays(lanes, steps)
    after = lowered(func)
    assert after is not func and "dot_product" not in str(after)
    results = [c.copy(), c.copy()]
    for each, result in zip((func, after), results, strict=True):
        run_primfunc(each, a, b, result)
    np.testing.assert_array_equal(*results)
    exact = c + a.astype("float64") @ b.reshape(steps, lanes, 2).astype("float64").transpose(0, 2, 1).reshape(
        2 * steps, lanes
    )
    np.testing.assert_allclose(results[0], exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("lanes", [16, 8, 4])
def test_machine_code(lanes: int, target: str) -> None:
    a, b, c = arrays(lanes, 9)
    expected, got = c.copy(), c.copy()
    run_primfunc(pairs(lanes, 9), a, b, expected)
    build({"pairs": pairs(lanes, 9)}, target)["pairs"](a, b, got)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("lanes", "row"), [(16, "512"), (8, "256"), (4, "128")])
def test_the_instruction_of_the_width_is_taken(lanes: int, row: str) -> None:
    text = str(lowered(pairs(lanes, 2), ("avx512bf16", "avx512vl")))
    assert f"llvm.x86.avx512bf16.dpbf16ps.{row}" in text
    assert "llvm.x86" not in str(lowered(pairs(lanes, 2), ("avx512f", "avx512vl")))


@pytest.mark.parametrize(
    "odd",
    [
        {"at": "k + 4 * p"},
        {"at": "k * 2"},
        {"weight": "k * 32 + l + 16 * p"},
        {"weight": "k * 32 + l * 2 + 1 - p"},
        {"depth": 4},
    ],
)
def test_other_forms_stay(odd: dict[str, Any]) -> None:
    func = pairs(16, 4, **odd)
    assert lowered(func, ("avx512bf16",)) is func


def test_instructions_go_by_features() -> None:
    assert dot_products_of(()) == ()
    assert [row.lanes for row in dot_products_of({"avx512bf16"})] == [16]
    assert dot_products_of({"avx512bf16", "avx512vl", "fma"}) == DOT_PRODUCTS
    assert dot_products_of(Target("llvm -mcpu=znver5").feature_set) == DOT_PRODUCTS
    assert dot_products_of(Target("llvm -mcpu=skylake-avx512").feature_set) == ()
    assert len({row.name for row in DOT_PRODUCTS}) == len(DOT_PRODUCTS)
