"""The interpreter behind `create_executor`, by the numbered facts that users' programs rely on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from heddle.config import limits

import heddle as tvm
from heddle import relay
from heddle.runtime import tensor
from heddle.runtime.data import ConstructorValue, RefValue
from tests.unit.relay.programs import floats, plain, program, run, value

F32 = relay.scalar_type("float32")


def test_7_1_kinds() -> None:
    with pytest.raises(RuntimeError, match="no executor 'hand'"):
        relay.create_executor("hand")
    x, w = relay.var("x", shape=(2,)), relay.var("w", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], x * w))
    mod["other"] = relay.Function([], relay.const(1))
    data, weight = floats(2), floats(2)
    executor = relay.create_executor("debug", mod, params={"w": weight, "unknown": weight})
    np.testing.assert_allclose(executor.evaluate()(data).numpy(), data * weight)
    assert "other" not in executor.mod
    assert len(executor.mod["main"].params) == 1


def test_7_2_evaluate() -> None:
    mod = program("def @main(%x: float32, %y: float32) { %x - %y } def @f(%p: (int8, int8)) { %p.1 }")
    executor = relay.create_executor("debug", mod)
    main = executor.evaluate()
    assert (
        main(3.0, 1.0).numpy()
        == main(np.float32(3), y=1).numpy()
        == main(y=tensor(np.float32(1)), x=3).numpy()
        == 2
    )
    f = executor.evaluate(mod.get_global_var("f"))
    assert f((np.int8(1), np.int8(2))).numpy() == 2
    x = relay.var("x", F32)
    assert executor.evaluate(relay.Function([x], x + x))(2.0).numpy() == 4
    assert executor.evaluate(mod.get_global_var("main")(relay.const(5.0), relay.const(1.0))).numpy() == 4
    assert executor.evaluate(x + x, {x: 3.0}).numpy() == 6
    assert executor.evaluate(x, {x: relay.const(2.0)}).numpy() == 2


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((1.0,), {}, "'y' is missing"),
        ((1.0, 2.0, 3.0), {}, "takes 2 arguments, got 3"),
        ((1.0, 2.0), {"x": 1.0}, "'x' comes twice"),
        ((1.0,), {"z": 1.0}, "no parameter is called 'z'"),
        ((np.zeros(2, "float32"), 1.0), {}, r"expected \(\) of float32, got \(2,\)"),
        ((np.zeros((), "int8"), 1.0), {}, "of int8"),
        (("text", 1.0), {}, "got str"),
        (((1.0, 2.0), 1.0), {}, "got tuple"),
    ],
)
def test_7_2_wrong_arguments(args: Any, kwargs: Any, words: str) -> None:
    mod = program("def @main(%x: float32, %y: float32) { %x - %y }")
    with pytest.raises((TypeError, RuntimeError), match=words):
        relay.create_executor("debug", mod).evaluate()(*args, **kwargs)


def test_7_3_values() -> None:
    text = (
        "type L { C(int32, L), N } def @main(%l: L) { match? (%l) { C(%x, %r) => (%x, %r) } } "
        "def @make() { C(1, C(2, N)) } def @cell() { ref(3) } "
        "def @adder(%k: int32) { fn (%x: int32) { %x + %k } }"
    )
    mod = program(text)
    executor = relay.create_executor("debug", mod)
    made = executor.evaluate(mod.get_global_var("make"))()
    cons = mod.get_type("L")[1]
    assert isinstance(made, ConstructorValue) and made.tag == cons.tag and made.constructor == cons
    assert made.fields[0].numpy() == 1 and len(made[1]) == 2
    pair = executor.evaluate()(made)
    assert pair.tag == 0 and len(pair) == 2 and pair[0].numpy() == 1 and pair[1].fields[0].numpy() == 2
    cell = executor.evaluate(mod.get_global_var("cell"))()
    assert isinstance(cell, RefValue) and cell.value.numpy() == 3
    assert executor.evaluate(mod.get_global_var("adder"))(2)(5).numpy() == 7


def test_7_3_order_of_lets_and_shared_cells() -> None:
    text = (
        "let %r = ref(1); let %a = ref_read(%r); ref_write(%r, 5); let %b = ref_read(%r); "
        "let %q = %r; ref_write(%q, 7); (%a, %b, ref_read(%r))"
    )
    assert value(relay.parse_expr(text)) == (1, 5, 7)


def test_a_loop_takes_no_room() -> None:
    text = "def @main(%n: int32) -> int32 { if (%n == 0) { 42 } else { @main(%n - 1) } }"
    with limits(call_depth=50):
        assert run(program(text), 2000) == 42


def test_calls_that_are_too_deep() -> None:
    mod = program("def @main(%n: int32) -> int32 { if (%n == 0) { 0 } else { @main(%n - 1) + 1 } }")
    with limits(call_depth=100), pytest.raises(RuntimeError, match=r"Q0403.*100"):
        run(mod, 1000)
    assert run(mod, 1000) == 1000


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("type T { A, B } def @main() { match? (B) { A => 1 } }", "Q0401"),
        ("def @main(%x: Tensor[(?), float32], %y: Tensor[(?), float32]) { %x + %y }", "R0"),
    ],
)
def test_failures_of_a_run_have_a_place(text: str, code: str) -> None:
    args = (floats(2), floats(3)) if "%x" in text else ()
    with pytest.raises((RuntimeError, TypeError), match=code) as error:
        run(program(text), *args)
    assert "test:2:" in str(error.value)


def test_results_are_tensors() -> None:
    found = relay.create_executor("debug").evaluate(relay.parse_expr("(1, (2f, ()))"))
    assert plain(found) == (1, (2.0, ())) and str(found[1][0].dtype) == "float32"
    assert tuple(found[0].shape) == ()
