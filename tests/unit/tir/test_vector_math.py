"""Errors of the float32 functions in units in the last place, against float64, over samples of all floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.codegen import compile_kernels
from heddle.ir.op import OP_RECORDS
from heddle.prim import ops
from heddle.prim.nodes import Var, constant
from heddle.target import Target
from heddle.tir.nodes import BufferStore, For, ForKind, PrimFunc, decl_buffer
from heddle.tir.vector_math import FLOAT32_FUNCTIONS
from tests.unit.codegen.kernel_runner import Kernels

MAX_ULP = dict.fromkeys(FLOAT32_FUNCTIONS, 4.0) | {
    "exp": 1.5, "exp2": 1.5, "exp10": 2.0, "log": 1.0, "log2": 1.5, "log10": 1.5, "log1p": 1.5, "tanh": 2.5,
    "sin": 2.0, "cos": 2.0, "pow": 0.51, "hypot": 0.51,
    "fmod": 0.0,
}  # fmt: skip
ATTRS = {"global_symbol": "f", "tir.noalias": True}
TWO_ARGUMENTS = ("pow", "atan2", "hypot", "fmod")
SPECIAL = np.array(
    [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1,
        -1,
        2,
        -2,
        3,
        -3,
        0.5,
        -0.5,
        1e30,
        1e-30,
        -1e30,
        -3e-39,
        88.7,
        89,
        -104,
        128,
    ],
    dtype=np.float32,
)


def kernel(name: str, dtype: str, lanes: int, *constants: float) -> Kernels:
    """out[i, j] = name(inputs[i, j]..., constants...)"""
    n, i, j = Var("n", "int64"), Var("i", "int64"), Var("j", "int64")
    arity = (2 if name in TWO_ARGUMENTS else 1) - len(constants)
    buffers = [decl_buffer((n, lanes), dtype, f"A{k}") for k in range(arity + 1)]
    fixed = (constant(value, dtype) for value in constants)
    value = ops.call_intrin(dtype, name, *(buffer[i, j] for buffer in buffers[:-1]), *fixed)
    inner = For(j, 0, lanes, ForKind.VECTORIZED, BufferStore(buffers[-1], value, (i, j)))
    func = PrimFunc(
        buffers, For(i, 0, n, ForKind.SERIAL, inner), attrs={"global_symbol": "f", "tir.noalias": True}
    )
    return Kernels(compile_kernels(func, Target("llvm")))


def samples(name: str) -> list[Any]:
    rng = np.random.default_rng(7)
    if name in TWO_ARGUMENTS:
        any_float = rng.integers(0, 2**32, (2, 200_000), dtype=np.uint32).view(np.float32)
        near = rng.uniform(-20, 20, (2, 200_000)).astype(np.float32)
        grid = np.stack([part.ravel() for part in np.meshgrid(SPECIAL, SPECIAL)])
        return list(np.concatenate([any_float, near, np.abs(near), grid], axis=1))
    every = np.arange(0, 2**32, 8191, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return [np.concatenate([every, np.linspace(-11, 11, 300_001).astype(np.float32), SPECIAL])]


def ulp_errors(got: Any, want: Any) -> Any:
    """|got - want| in units in the last place of the wanted float32; results beyond the range count as
    2**128.
    """
    rounded = want.astype(np.float32)
    unit = np.spacing(np.maximum(np.abs(rounded), np.float32(1.1754944e-38))).astype(np.float64)
    unit = np.where(np.isfinite(rounded), unit, 2.0**104)
    exact = np.where(np.isinf(rounded) & np.isfinite(want), np.copysign(2.0**128, want), want)
    value = np.where(np.isinf(got), np.copysign(2.0**128, got), got.astype(np.float64))
    error = np.where((got == rounded) | (np.isnan(got) & np.isnan(want)), 0.0, np.abs(value - exact) / unit)
    return np.where(np.isnan(got) != np.isnan(want), np.inf, error)


@pytest.mark.parametrize("name", FLOAT32_FUNCTIONS)
def test_float32_error_is_bounded(name: str) -> None:
    args = [np.concatenate([part, np.zeros(-len(part) % 16, np.float32)]) for part in samples(name)]
    out = np.empty_like(args[0])
    kernel(name, "float32", 16)("f", *(part.reshape(-1, 16) for part in args), out.reshape(-1, 16))
    with np.errstate(all="ignore"):
        want = OP_RECORDS[f"tir.{name}"].evaluate(*(part.astype(np.float64) for part in args))
        errors = ulp_errors(out, want)
    worst = int(np.argmax(errors))
    assert errors[worst] <= MAX_ULP[name], (
        f"{[part[worst] for part in args]}: {out[worst]}, expected {want[worst]}"
    )


@pytest.mark.parametrize("exponent", [-1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.5])
def test_powers_with_known_exponents(exponent: float) -> None:
    """Small whole exponents are products; results are those of `pow` but for two units in the last place."""
    x = samples("exp")[0]
    x = np.concatenate([x, np.zeros(-len(x) % 16, np.float32)]).reshape(-1, 16)
    out = np.empty_like(x)
    kernel("pow", "float32", 16, exponent)("f", x, out)
    with np.errstate(all="ignore"):
        errors = ulp_errors(out, np.power(x.astype(np.float64), np.full(x.shape, exponent)))
    assert errors.max() <= 2.0, f"{x.ravel()[np.argmax(errors)]} ** {exponent}"


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sigmoid", "sin", "pow", "rsqrt"])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_widths(name: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    args = [rng.uniform(0.1, 4, (64, 8)).astype(dtype) for _ in range(2 if name in TWO_ARGUMENTS else 1)]
    out = np.empty_like(args[0])
    kernel(name, dtype, 8)("f", *args, out)
    want = OP_RECORDS[f"tir.{name}"].evaluate(*(part.astype(np.float64) for part in args))
    np.testing.assert_allclose(out, want, rtol=2e-3 if dtype == "float16" else 4e-15)


def test_erf_stays_within_one_and_reaches_it() -> None:
    bits = np.arange(np.float32(3.0).view(np.uint32), np.float32(4.5).view(np.uint32), 3, dtype=np.uint32)
    x = bits[: len(bits) // 16 * 16].view(np.float32).reshape(-1, 16)
    out, mirrored = np.empty_like(x), np.empty_like(x)
    run = kernel("erf", "float32", 16)
    run("f", x, out)
    run("f", -x, mirrored)
    assert out.max() == 1.0
    assert (out[x > 3.92] == 1.0).all()
    np.testing.assert_array_equal(mirrored, -out)


def test_one_plus_erf_vanishes_far_below_zero() -> None:
    """The sum must not take the last product of erf before it is rounded."""
    i, j = Var("i", "int64"), Var("j", "int64")
    source, result = (decl_buffer((1, 16), "float32", name) for name in "AB")
    value = ops.call_intrin("float32", "erf", source[i, j]) + 1.0
    inner = For(j, 0, 16, ForKind.VECTORIZED, BufferStore(result, value, (i, j)))
    func = PrimFunc((source, result), For(i, 0, 1, ForKind.SERIAL, inner), attrs=ATTRS)
    x = -np.concatenate([np.geomspace(4, 3e38, 15), [np.inf]]).astype(np.float32)[None]
    out = np.empty_like(x)
    Kernels(compile_kernels(func, Target("llvm")))("f", x, out)
    np.testing.assert_array_equal(out, 0.0)


@pytest.mark.parametrize("name", ["asin", "asinh", "atan", "atanh", "erf", "sin", "sinh", "tan", "tanh"])
def test_odd_functions_keep_the_sign_of_zero(name: str) -> None:
    x = np.array([[0.0, -0.0] * 8], np.float32)
    out = np.empty_like(x)
    kernel(name, "float32", 16)("f", x, out)
    np.testing.assert_array_equal(out.view(np.uint32), x.view(np.uint32))
