"""Schedule a product of matrices by hand, check it against numpy, and print the trace.

    python examples/schedule_a_matmul.py

Each primitive (docs/schedule.md) rewrites loops and checks that the function still computes the same. The
trace is a Python program that does it again.
"""

import numpy as np

from heddle import te
from heddle.codegen import build
from heddle.ir import assert_structural_equal
from heddle.tir import PrimFunc
from heddle.tir.schedule import Schedule

N, M, K = 48, 64, 40


def matmul() -> PrimFunc:
    """a: (N, K) float32, b: (K, M) float32 → c: (N, M) float32."""
    a, b = te.placeholder((N, K), name="a"), te.placeholder((K, M), name="b")
    k = te.reduce_axis((0, K), name="k")
    c = te.compute((N, M), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return te.create_prim_func([a, b, c]).with_attr("global_symbol", "matmul")


def schedule(func: PrimFunc) -> Schedule:
    """Tiles of 4 × 16 elements, a row of the tile in one vector; the rows of tiles on threads."""
    sch = Schedule(func)
    block = sch.get_sblock("c")
    i, j, k = sch.get_loops(block)
    i_outer, i_inner = sch.split(i, [None, 4])
    j_outer, j_inner = sch.split(j, [None, 16])
    sch.reorder(i_outer, j_outer, k, i_inner, j_inner)
    sch.decompose_reduction(block, k)
    sch.unroll(i_inner)
    sch.vectorize(j_inner)
    sch.parallel(i_outer)
    return sch


def check(func: PrimFunc) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((N, K), "float32"), rng.standard_normal((K, M), "float32")
    c = np.empty((N, M), "float32")
    build(func, "llvm")["matmul"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def main() -> None:
    func = matmul()
    check(func)
    sch = schedule(func)
    check(sch.func)
    print(sch.func.script())
    print(sch.trace)

    again = Schedule(func)
    sch.trace.apply_to_schedule(again)
    assert_structural_equal(again.func, sch.func)
    print("the trace makes the same schedule; all agree with numpy")


if __name__ == "__main__":
    main()
