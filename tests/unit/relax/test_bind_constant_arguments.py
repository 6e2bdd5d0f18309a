"""Constants that a loop hands on to itself become part of its body."""

import numpy as np

import heddle
from heddle.ir.instrument import verify_module
from heddle.relax.transform.bind_constant_arguments import BindConstantArguments
from heddle.relax.transform.bind_params import BindParams
from heddle.script import from_source

LOOP = """
@I.ir_module
class Module:
    @R.function(private=True)
    def loop(
        i: R.Tensor((), "int64"), h: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 3), "float32"),
        s: R.Tensor((), "float32"),
    ) -> R.Tensor((2, 3), "float32"):
        if R.less(i, R.const(3, "int64")):
            out = Module.loop(R.add(i, R.const(1, "int64")), R.tanh(R.matmul(h, w)), w, s)
        else:
            out = R.multiply(h, s)
        return out

    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 3), "float32"), s: R.Tensor((), "float32")
    ) -> R.Tensor((2, 3), "float32"):
        a = Module.loop(R.const(0, "int64"), x, w, R.const(2.0, "float32"))
        return Module.loop(R.const(1, "int64"), a, w, s)
"""


def test_what_all_calls_agree_on_is_bound():
    rng = np.random.default_rng()
    x, w = rng.standard_normal((2, 3)).astype("float32"), rng.standard_normal((3, 3)).astype("float32")
    mod = BindParams("main", {"w": w})(from_source(LOOP))
    made = BindConstantArguments()(mod)
    assert not verify_module(made)
    names = [param.name_hint for param in made["loop"].params]
    assert names == ["i", "h", "s"], "the counter starts at different values, the scale differs"
    h = x
    for _ in range(3):
        h = np.tanh(h @ w)
    h = h * np.float32(2)
    for _ in range(2):
        h = np.tanh(h @ w)
    for mode in ("bytecode", "compiled"):
        machine = heddle.relax.VirtualMachine(heddle.compile(mod, exec_mode=mode), heddle.cpu())
        found = machine["main"](x, np.asarray(5, "float32")).numpy()
        np.testing.assert_allclose(found, h * 5, rtol=1e-4, atol=1e-5)


def test_public_functions_keep_their_parameters():
    text = LOOP.replace("(private=True)", "")
    mod = BindParams("main", {"w": np.eye(3, dtype="float32")})(from_source(text))
    assert BindConstantArguments()(mod) is mod
