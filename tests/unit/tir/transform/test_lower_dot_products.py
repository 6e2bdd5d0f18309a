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
from heddle.tir.dot_product import DOT_PRODUCTS, dot_products_of, tile_product_of
from heddle.tir.interpreter import run_primfunc
from heddle.tir.transform import LowerDotProducts, PeelLastPair

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
    of_floats = tuple(row for row in DOT_PRODUCTS if row.data == "bfloat16" and row.rows == 1)
    assert dot_products_of({"avx512bf16", "avx512vl", "fma"}) == of_floats
    assert set(of_floats) < set(dot_products_of(Target("llvm -mcpu=znver5").feature_set))
    assert tile_product_of(Target("llvm -mcpu=znver5").feature_set) is None
    assert set(dot_products_of(Target("llvm -mcpu=sapphirerapids").feature_set)) == set(DOT_PRODUCTS)
    (tiles,) = (row for row in DOT_PRODUCTS if row.rows > 1)
    assert tile_product_of(("amx-tile", "amx-bf16")) == tiles
    assert tile_product_of(("amx-tile", "amx-int8", "avx512bf16")) is None
    assert len({(row.name, row.features) for row in DOT_PRODUCTS}) == len(DOT_PRODUCTS)


@pytest.mark.parametrize(
    ("cpu", "names"),
    [
        ("x86-64", {"pmaddwd.128"}),
        ("haswell", {"pmaddwd.128", "pmaddwd.256"}),
        ("skylake-avx512", {"pmaddwd.128", "pmaddwd.256", "pmaddwd.512"}),
        ("alderlake", {"vpdpbusd.128", "vpdpbusd.256", "vpdpwssd.128", "vpdpwssd.256"}),
        ("cascadelake", {f"vpdp{kind}.{bits}" for kind in ("busd", "wssd") for bits in (128, 256, 512)}),
    ],
)
def test_dot_products_of_integers(cpu: str, names: set[str]) -> None:
    """Of several that do the same, the first is taken: the newest."""
    found: dict[tuple[str, str, int], str] = {}
    for row in dot_products_of(Target(f"llvm -mcpu={cpu}").feature_set):
        if row.accumulator == "int32":
            found.setdefault((row.data, row.weights, row.lanes), row.name)
    assert set(found.values()) == names


ODD = """
@T.prim_func
def pairs(a: T.Buffer(({k},), "bfloat16"), b: T.Buffer(({size},), "bfloat16"), c: T.Buffer((16,), "float32")):
    for k in range({steps}):
        for l in T.vectorized(16):
            for p in T.serial(2, annotations={{"dot_product": True}}):
                if {guard}:
                    c[l] = c[l] + T.Cast("float32", a[k * 2 + p]) * T.Cast("float32", b[k * 32 + l * 2 + p])
"""


def odd(k: int, guard: str = "") -> Any:
    steps = (k + 1) // 2
    return from_source(ODD.format(k=k, steps=steps, size=steps * 32, guard=guard or f"k * 2 + p < {k}"))


def peeled(func: Any) -> Any:
    return PeelLastPair()(IRModule(Map({GlobalVar("pairs"): func})))["pairs"]


@pytest.mark.parametrize("k", [3, 17, 33])
@pytest.mark.parametrize("features", [(), ("avx512bf16",)])
def test_the_last_of_an_odd_number_is_a_step_of_its_own(k: int, features: tuple[str, ...]) -> None:
    """The place beside the last weight is never used, whatever it holds."""
    a, b, c = arrays(16, (k + 1) // 2)
    a, b = a[:k], b.copy()
    b[-31::2] = np.nan
    before = odd(k)
    after = lowered(peeled(before), features)
    assert "if " not in str(after) and "dot_product" not in str(after)
    assert ("dpbf16ps" in str(after)) == bool(features)
    results = [c.copy(), c.copy()]
    run_primfunc(before, a, b, results[0])
    run_primfunc(lowered(peeled(before)), a, b, results[1])
    np.testing.assert_array_equal(*results)
    assert np.isfinite(results[0]).all()
    got = c.copy()
    build({"pairs": before}, "llvm")["pairs"](a, b, got)
    np.testing.assert_allclose(got, results[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("guard", ["k * 2 + p < 15", "k * 2 + p > 0", "p * 10 + k < 17", "a[k] < a[k + 1]"])
def test_guards_that_bind_in_other_steps_stay(guard: str) -> None:
    func = odd(17, guard)
    assert peeled(func) is func
