"""FuseOps of Relay: which calls become one function, and values as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.expr import Call, Constant, Function
from heddle.ir.op import Op
from heddle.ir.structural import assert_structural_equal
from heddle.relay import transform as passes
from heddle.relay.placement import post_order
from tests.unit.relay.programs import plain, program

X = "%x: Tensor[(4, 3), float32]"
IMAGE = "%x: Tensor[(1, 2, 6, 6), float32], %w: Tensor[(2, 2, 3, 3), float32]"


def kernels(mod: Any) -> list[list[str]]:
    """The operators of each function that is one kernel, operands first."""
    funcs = {
        id(node): node
        for node in post_order(mod["main"])
        if isinstance(node, Function) and node.attrs.get("Primitive")
    }
    return [
        [call.op.name for call in post_order(func) if isinstance(call, Call) and isinstance(call.op, Op)]
        for func in funcs.values()
    ]


PROGRAMS = {
    "a chain": (f"def @main({X}) {{ exp(tanh(%x)) }}", [["tanh", "exp"]]),
    "a diamond": (
        f"def @main({X}) {{ %0 = tanh(%x); add(negative(%0), abs(%0)) }}",
        [["tanh", "negative", "abs", "add"]],
    ),
    "a value that leaves": (
        f"def @main({X}) {{ %0 = negative(%x); (%0, abs(%0)) }}",
        [["negative"], ["abs"]],
    ),
    "a contraction and its epilogue": (
        f"def @main({IMAGE}) {{ nn.relu(nn.conv2d(abs(%x), %w, kernel_size=[3, 3], channels=2)) }}",
        [["abs"], ["nn.conv2d", "nn.relu"]],
    ),
    "a reduction ends": (
        f"def @main({X}) {{ exp(sum(abs(%x), axis=[1])) }}",
        [["abs", "sum"], ["exp"]],
    ),
    "an inner tuple": (
        f"def @main({X}) {{ concatenate((abs(%x), negative(%x)), axis=0) }}",
        [["abs", "negative", "concatenate"]],
    ),
    "the root tuple": (f"def @main({X}) {{ (abs(%x), negative(%x)) }}", [["abs"], ["negative"]]),
    "lets": (f"def @main({X}) {{ let %a = abs(%x); let %b = negative(%a); %b }}", [["abs"], ["negative"]]),
    "scopes": (
        f"def @main({X}) {{ %0 = abs(%x); if (less(sum(%x), 0f)) {{ negative(%0) }} else {{ %0 }} }}",
        [["sum"], ["less"], ["abs"], ["negative"]],
    ),
    "stopped": (
        f"def @main({X}) {{ exp(annotation.stop_fusion(tanh(%x))) }}",
        [["tanh"], ["exp"]],
    ),
    "unknown sizes": (
        "def @main(%x: Tensor[(?, 3), float32]) { exp(tanh(%x)) }",
        [["tanh", "exp"]],
    ),
    "closures": (
        f"def @main({X}) {{ let %f = fn (%y: Tensor[(4, 3), float32]) {{ exp(tanh(%y)) }}; %f(abs(%x)) }}",
        [["tanh", "exp"], ["abs"]],
    ),
}


def inputs(mod: Any) -> list[Any]:
    rng = np.random.default_rng(5)
    sizes = [[getattr(dim, "value", 4) for dim in param.ty.dims] for param in mod["main"].params]
    return [rng.standard_normal(size).astype("float32") for size in sizes]


@pytest.mark.parametrize("name", PROGRAMS)
def test_groups_and_values(name: str) -> None:
    text, groups = PROGRAMS[name]
    mod = program(text)
    made = passes.FuseOps()(mod)
    assert sorted(kernels(made)) == sorted(groups)
    args = inputs(mod)
    want = plain(relay.create_executor("debug", mod).evaluate()(*args))
    for kind in ("debug", "vm"):
        found = plain(relay.create_executor(kind, made).evaluate()(*args))
        for one, other in zip(_leaves(found), _leaves(want), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert_structural_equal(relay.parse(made.astext()), made)


def _leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "stopped"])
def test_defusion_undoes_it(name: str) -> None:
    mod = program(PROGRAMS[name][0])
    with heddle.transform.PassContext(opt_level=3):
        assert_structural_equal(passes.DefuseOps()(passes.FuseOps()(mod)), mod)


def test_each_operator_is_alone_below_level_one() -> None:
    mod = program(f"def @main({X}) {{ exp(tanh(abs(%x))) }}")
    alone = [["exp"], ["tanh"], ["abs"]]
    assert kernels(passes.FuseOps(fuse_opt_level=0)(mod)) == alone
    with heddle.transform.PassContext(opt_level=0):
        assert kernels(passes.FuseOps()(mod)) == alone
        assert kernels(passes.FuseOps(fuse_opt_level=2)(mod)) == [["abs", "tanh", "exp"]]


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_context_limits_groups(most: int) -> None:
    mod = program(f"def @main({X}) {{ {'tanh(' * 10}%x{')' * 10} }}")
    with heddle.transform.PassContext(config={"relay.FuseOps.max_depth": most}):
        found = kernels(passes.FuseOps()(mod))
    assert max(map(len, found)) == most and sum(map(len, found)) == 10


@pytest.mark.parametrize("how", ["option", "context"])
def test_constants_are_inside_where_that_is_asked(how: str) -> None:
    weight = relay.const(np.ones((3,), "float32"))
    x = relay.var("x", shape=(4, 3), dtype="float32")
    mod = heddle.IRModule.from_expr(
        relay.Function([x], relay.add(relay.multiply(x, relay.const(2.0)), weight))
    )
    plainly = passes.FuseOps()(mod)
    config = {"relay.FuseOps.link_params": True} if how == "context" else {}
    with heddle.transform.PassContext(config=config):
        linked = passes.FuseOps(link_params=how == "option")(mod)
    for made, count in ((plainly, 1), (linked, 2)):
        [func] = [node for node in post_order(made["main"].body) if isinstance(node, Function)]
        assert sum(isinstance(node, Constant) for node in post_order(func.body)) == count


def test_work_grows_with_the_number_of_calls() -> None:
    """Ladders of 60 and 600 steps: groups of the most that there may be, not one by one more work."""
    for steps in (60, 600):
        x = relay.var("x", shape=(3,), dtype="float32")
        y: Any = x
        for _ in range(steps):
            y = relay.add(relay.tanh(y), y)
        made = passes.FuseOps()(heddle.IRModule.from_expr(relay.Function([x], y)))
        assert sum(map(len, kernels(made))) == 2 * steps
