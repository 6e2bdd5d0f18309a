"""Vectors longer than those of a target: LLVM splits them, or ends the process where it cannot."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from heddle.codegen import compile_kernels, generate_text
from heddle.prim import ops
from heddle.prim.nodes import Var, constant
from heddle.target import Target
from heddle.tir.nodes import BufferStore, For, ForKind, PrimFunc, decl_buffer
from heddle.tir.vector_math import FLOAT32_FUNCTIONS
from tests.unit.codegen.kernel_runner import Kernels

NAMES = (*(name for name in FLOAT32_FUNCTIONS if name not in ("pow", "atan2", "hypot")), "fma", "ldexp")
LANES = (4, 8, 16, 32)
COMPILE = """
import sys
from heddle.codegen import compile_kernels
from heddle.target import Target
from tests.unit.codegen.test_vector_widths import LANES, NAMES, rows
for lanes in LANES:
    compile_kernels({f"{name}{lanes}": rows(name, lanes) for name in NAMES}, Target(sys.argv[1]))
"""


def rows(name: str, lanes: int) -> PrimFunc:
    """B[i, :] = name(A[i, :]...), one vector a row; `ldexp` by an exponent of 3."""
    n, i, j = Var("n", "int64"), Var("i", "int64"), Var("j", "int64")
    a, b = decl_buffer((n, lanes), "float32", "A"), decl_buffer((n, lanes), "float32", "B")
    args = {"fma": [a[i, j]] * 3, "fmod": [a[i, j]] * 2, "ldexp": [a[i, j], constant(3, "int32")]}
    store = BufferStore(b, ops.call_intrin("float32", name, *args.get(name, [a[i, j]])), (i, j))
    body = For(i, 0, n, ForKind.SERIAL, For(j, 0, lanes, ForKind.VECTORIZED, store))
    return PrimFunc((a, b), body, attrs={"global_symbol": f"{name}{lanes}", "tir.noalias": True})


@pytest.mark.parametrize(("width", "level"), [(128, 0), (256, 3), (256, 0), (512, 0)])
def test_vectors_of_all_lengths_compile(width: int, level: int) -> None:
    target = f"llvm -mcpu=x86-64-v4 -vector-width={width} -opt-level={level}"
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, target],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-400:]


@pytest.mark.parametrize("name", ["exp", "exp2", "tanh", "sigmoid"])
def test_results_have_the_same_bits_at_every_width(name: str) -> None:
    x = np.concatenate([np.linspace(-150, 150, 1000), np.linspace(-1, 1, 1000), [np.inf, -np.inf, np.nan, 0]])
    x = np.pad(x, (0, -len(x) % 16)).astype(np.float32).reshape(-1, 16)
    made = []
    for width in (128, 512):
        made.append(np.empty_like(x))
        Kernels(compile_kernels(rows(name, 16), Target(f"llvm -vector-width={width}")))(
            f"{name}16", x, made[-1]
        )
    assert made[0].tobytes() == made[1].tobytes()


@pytest.mark.parametrize(("options", "expected"), [("", True), (" -vector-width=256", False)])
def test_powers_of_two_scale_in_one_instruction_where_vectors_have_512_bits(
    options: str, expected: bool
) -> None:
    text, _ = generate_text(rows("exp", 16), Target(f"llvm -mcpu=x86-64-v4{options}"))
    assert ("llvm.ldexp" in text) is expected
