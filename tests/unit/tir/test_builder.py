"""The builder emits what its nesting says; what it builds runs."""

import numpy as np

import heddle
from heddle.prim.nodes import Var
from heddle.runtime import DataType
from heddle.tir.builder import StmtBuilder
from heddle.tir.nodes import ForKind, decl_buffer


def test_loops_branches_bindings_and_scratch():
    n = Var("n", DataType("int64"))
    a, c = decl_buffer((n, 5), "float32", "A"), decl_buffer((n,), "float16", "C")
    b = StmtBuilder()
    with b.loop("i", n, ForKind.PARALLEL) as i:
        total = b.alloc("total", (1,), "float32", "stack")
        b.store(total, [0], 0)
        with b.loop("j", 5) as j:
            value = b.let("value", a[i, j])
            with b.when(value > 0.0):
                b.store(total, [0], total[0] + value)
            with b.otherwise():
                b.store(total, [0], total[0] - 2.0 * value)
        b.store(c, [i], total[0])
    func = b.func("rows", [a, c])
    x, out = np.random.default_rng(0).standard_normal((7, 5)).astype("f4"), np.zeros(7, "f2")
    heddle.build(func)["rows"](x, out)
    np.testing.assert_allclose(out, np.where(x > 0, x, -2 * x).sum(1), rtol=2e-3)
