"""`relay.optimize`: a Relay module again, which prints, compiles and runs like the one it came from."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.expr import Function, is_relay
from heddle.ir.instrument import verify_module
from heddle.ir.visitor import walk_distinct
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.corpus import ROWS, parsed, same
from tests.unit.relay.programs import floats, program, run

NETWORK = """def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32],
    %g: Tensor[(4), float32]) {
  %0 = nn.batch_norm(nn.conv2d(%x, %w, padding=[1, 1, 1, 1]), %g, %g, %g, %g);
  nn.relu(%0.0) + exp(1f)
}
def @unused(%x: float32) { %x }"""


@pytest.mark.parametrize("level", [2, 4])
@pytest.mark.parametrize("name", ROWS)
def test_programs_give_the_same(name: str, level: int) -> None:
    mod = parsed(name)
    make, reference = ROWS[name]
    args = make()
    with heddle.transform.PassContext(opt_level=level):
        made, params = relay.optimize(mod, "llvm")
    assert params == {} and all(map(is_relay, made.functions.values())) and verify_module(made) == []
    wanted = reference(*args)
    for each in (made, relay.parse(made.astext())):
        same(run(each, *args), wanted)


def test_passes_of_the_level_run_and_params_are_bound() -> None:
    mod = program(NETWORK)
    given = {"w": abs(floats(4, 3, 3, 3)), "g": abs(floats(4))}
    x = floats(1, 3, 8, 8)
    wanted = run(mod, x, *given.values())
    for level, multiplies in ((2, True), (3, False)):
        with heddle.transform.PassContext(opt_level=level):
            made, params = relay.optimize(mod, "llvm", given)
        assert params.keys() == given.keys() and [p.name_hint for p in made["main"].params] == ["x"]
        assert [var.name_hint for var in made.functions] == ["main"]
        text = made.astext(annotate=lambda _: "")
        assert "batch_norm" not in text and "exp(" not in text and "Primitive=1" in text
        assert ("multiply" in text) is multiplies  # FoldScaleAxis has level 3
        np.testing.assert_allclose(run(made, x), wanted, rtol=1e-4)
        module = heddle.contrib.graph_executor.GraphModule(relay.build(made, "llvm")["default"](heddle.cpu()))
        module.run(x=x)
        np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=1e-4)
        again, _ = relay.optimize(made, "llvm")
        np.testing.assert_allclose(run(again, x), wanted, rtol=1e-4)
    assert not any(isinstance(node, Function) and node.attrs for node in walk_distinct(mod["main"]))


def test_users_hooks_and_quantised_words_are_in_front() -> None:
    text = "def @main(%x: Tensor[(2), float32]) { qnn.dequantize(qnn.quantize(%x, 0.5f, 3), 0.5f, 3) }"
    mod = program(text)
    made, _ = relay.optimize(mod, "llvm")
    assert "qnn" not in made.astext(annotate=lambda _: "")
    x = floats(2)
    np.testing.assert_allclose(run(made, x), run(mod, x))


def test_what_optimize_refuses() -> None:
    with pytest.raises(ValueError, match="D0103"):
        relay.optimize(program(NETWORK), {1: "llvm", 2: "llvm"})
    x = relay.var("x", shape=(2,))
    with pytest.raises(HeddleError):
        relay.optimize(relay.Function([x], relay.add(x, relay.const(np.zeros(3)))))
