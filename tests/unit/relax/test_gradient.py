"""The pass Gradient: a function beside the given one, against torch, on the machine."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.ir.structural import assert_structural_equal
from heddle.script import from_source
from heddle.support.diagnostics import HeddleError

torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
against_torch = pytest.mark.skipif(torch is None, reason="torch is not here to compare with")

LOSS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 5), "float32"), w: R.Tensor((5, 3), "float32"),
             b: R.Tensor((3,), "float32"), t: R.Tensor(("n",), "int64")):
        with R.dataflow():
            y = R.add(R.matmul(x, w), b)
            p = R.nn.log_softmax(R.nn.relu(y))
            loss = R.nn.nll_loss(p, t)
            R.output(loss)
        return loss
"""


def adjoint(text: str, **options: Any) -> heddle.IRModule:
    made = relax.transform.Gradient("main", **options)(from_source(text))
    assert_structural_equal(from_source(made.script()), made)
    return made


@against_torch
def test_a_loss_of_free_size_against_torch() -> None:
    made = adjoint(LOSS, require_grads=[1, 2])
    vm = relax.VirtualMachine(heddle.compile(made), heddle.cpu())
    for n in (1, 7):
        rng = np.random.default_rng(n)
        x, w, b = (rng.standard_normal(s).astype("float32") for s in ((n, 5), (5, 3), (3,)))
        t = rng.integers(0, 3, n)
        loss, grads = vm["main_adjoint"](x, w, b, t)
        weights = [torch.from_numpy(each).requires_grad_() for each in (w, b)]
        p = torch.log_softmax(torch.relu(torch.from_numpy(x) @ weights[0] + weights[1]), -1)
        wanted = torch.nn.functional.nll_loss(p, torch.from_numpy(t))
        wanted.backward()
        np.testing.assert_allclose(loss.numpy(), wanted.detach().numpy(), rtol=1e-5)
        for grad, weight in zip(grads, weights, strict=True):
            np.testing.assert_allclose(grad.numpy(), weight.grad.numpy(), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(vm["main"](x, w, b, t).numpy(), loss.numpy())


def test_a_part_of_a_tuple_is_the_target() -> None:
    made = adjoint(
        """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32"), n: R.Tensor((4,), "int32")):
        with R.dataflow():
            a = R.sum(R.multiply(x, y))
            b = R.sum(R.exp(x))
            c = (a, b)
            R.output(c)
        return c
""",
        target_index=1,
    )
    vm = relax.VirtualMachine(heddle.compile(made), heddle.cpu())
    x, y = np.arange(4, dtype="float32"), np.ones(4, "float32")
    _, grads = vm["main_adjoint"](x, y, np.ones(4, "int32"))
    np.testing.assert_allclose(grads[0].numpy(), np.exp(x), rtol=1e-5)
    assert not grads[1].numpy().any() and not grads[2].numpy().any() and str(grads[2].dtype) == "int32"


@pytest.mark.parametrize(
    ("options", "words"), [({"require_grads": [9]}, "4 parameters"), ({"func_name": "none"}, "none")]
)
def test_wrong_uses(options: dict[str, Any], words: str) -> None:
    with pytest.raises(HeddleError, match=words):
        relax.transform.Gradient(**{"func_name": "main", **options})(from_source(LOSS))
