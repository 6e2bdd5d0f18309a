"""Alike layers are lowered once, and nothing else is taken for alike."""

import numpy as np
import pytest

import heddle
from heddle.lower import legalize_ops
from heddle.script import from_source

LAYERS = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 6), "float32"), y: R.Tensor(("m", 6), "float32"), w: R.Tensor((6, 6), "float32")
    ):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.matmul(a, w)
            c = R.matmul(y, w)
            d = R.sum(b, axis=[0])
            e = R.sum(c, axis=[1])
            f = R.multiply(a, b)
            g = R.multiply(b, b)
            h = R.add(f, R.const(1.0, "float32"))
            i = R.add(g, R.const(2.0, "float32"))
            j = R.concat((h, i), axis=0)
            k = R.concat((i, i), axis=0)
            R.output(d, e, h, i, j, k)
        return (d, e, h, i, j, k)
"""


@pytest.fixture
def built(monkeypatch):
    """The operators that were lowered, not looked up."""
    names = []
    note = legalize_ops.LoweringMemo.note

    def counting(self, key, call, lowered):
        names.append(call.op.name)
        note(self, key, call, lowered)

    monkeypatch.setattr(legalize_ops.LoweringMemo, "note", counting)
    return names


def test_results_and_the_number_of_lowerings(built):
    machine = heddle.relax.VirtualMachine(heddle.compile(from_source(LAYERS)), heddle.cpu())
    assert sorted(set(built)) == ["relax.add", "relax.concat", "relax.matmul", "relax.multiply", "relax.sum"]
    assert built.count("relax.matmul") == 2, "once for n rows, once for m"
    assert built.count("relax.multiply") == 2, "two operands are not one operand twice"
    assert built.count("relax.add") == 2, "constants are part of the loop function"
    assert built.count("relax.concat") == 2
    assert built.count("relax.sum") == 2
    rng = np.random.default_rng()
    x, y, w = (rng.standard_normal(shape).astype("float32") for shape in ((5, 6), (3, 6), (6, 6)))
    a = x @ w
    b, c = a @ w, y @ w
    h, i = a * b + 1, b * b + 2
    expected = (b.sum(0), c.sum(1), h, i, np.concatenate([h, i]), np.concatenate([i, i]))
    for found, wanted in zip(machine["main"](x, y, w), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)
