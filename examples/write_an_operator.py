"""Write an operator of your own as a tensor expression, and use it in a graph.

    python examples/write_an_operator.py

`emit_te` makes a loop function of the expression and a call of it in the graph. Like any other it is fused
with its neighbours, scheduled and compiled. To add an operator to Heddle itself, see CONTRIBUTING.md.
"""

import numpy as np

import heddle
from heddle import relax, te, tir


def running_mean(x: te.Tensor, width: int) -> te.Tensor:
    """The mean of each `width` elements in a row.

    Shapes: x: (n, m) → (n, m - width + 1). Dtypes: floats; the result has x's.
    """
    n, m = x.shape
    k = te.reduce_axis((0, width), name="k")
    total = te.compute((n, m - width + 1), lambda i, j: te.sum(x[i, j + k], axis=k), name="total")
    return te.compute(total.shape, lambda i, j: total[i, j] / tir.const(width, x.dtype), name="mean")


def build_graph() -> heddle.IRModule:
    """main(x: (n, 10) float32) → (n, 8) float32: the running mean of exp(x), less one."""
    n = tir.SizeVar("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 10), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            powers = builder.emit(relax.op.exp(x))
            means = builder.emit_te(running_mean, powers, 3)
            result = builder.emit_output(relax.op.subtract(means, relax.const(1.0, "float32")))
        builder.emit_func_output(result)
    return builder.get()


def main() -> None:
    mod = build_graph()
    print(mod.script())
    machine = relax.VirtualMachine(heddle.compile(mod, target="llvm"), heddle.cpu())
    for rows in (1, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 10), "float32")
        windows = np.lib.stride_tricks.sliding_window_view(np.exp(x), 3, axis=1)
        np.testing.assert_allclose(
            machine["main"](x).numpy(), windows.mean(axis=-1) - 1, rtol=1e-4, atol=1e-5
        )
        print(rows, "rows agree with numpy")


if __name__ == "__main__":
    main()
