"""Gradients of Relay functions: against numerical differences, against torch, on all executors."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.ir.structural import assert_structural_equal
from heddle.relay.transform import gradient
from heddle.runtime.data import ConstructorValue
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import listed, plain, program, run
from tests.unit.relay.test_operators import ROWS, _call

torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
against_torch = pytest.mark.skipif(torch is None, reason="torch is not here to compare with")

MODES = ("first_order", "higher_order")
MACHINES = ("debug", "vm", "aot")
SMOOTH = [(k, row) for k, row in enumerate(ROWS) if any(dtype == "float32" for _, dtype in row[1])]
REFUSED = "no rule|no gradient|needs the size|must be known"


def with_gradient(text: str, mode: str = "higher_order", mod: Any = None) -> heddle.IRModule:
    """The program with the gradient of its `main` as `main`; it prints, parses back and is typed."""
    made = program(text, mod)
    made["main"] = gradient(made["main"], made, mode=mode)
    made = relay.transform.InferType()(made)
    assert_structural_equal(relay.parse(made.astext()), made)
    return made


def close(found: Any, wanted: Any, tolerance: float = 2e-4) -> None:
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            close(one, other, tolerance)
    else:
        assert np.shape(found) == np.shape(wanted)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def wide(specs: list[Any]) -> list[Any]:
    return [(shape, "float64" if dtype == "float32" else dtype) for shape, dtype in specs]


def data(seed: int, shape: Any, dtype: str) -> Any:
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return np.asarray(rng.uniform(0.2, 0.9, shape).astype(dtype))
    return np.asarray(rng.integers(0, 2, shape).astype(dtype))


@pytest.mark.parametrize(("k", "row"), SMOOTH, ids=[f"{row[0]}-{k}" for k, row in SMOOTH])
def test_operators_against_differences(k: int, row: Any) -> None:
    """The sum of the result along a random direction, in float64."""
    name, specs, attrs, _ = row
    params, call = _call(name, wide(specs), attrs)
    func = relay.Function(params, call)
    try:
        made = relay.transform.InferType()(heddle.IRModule.from_expr(gradient(func, mode="first_order")))
    except HeddleError as error:
        if error.code != "R0210" or not any(word in str(error) for word in REFUSED.split("|")):
            raise
        return
    assert_structural_equal(relay.parse(made.astext()), made)
    args = [data(seed, *spec) for seed, spec in enumerate(wide(specs))]
    _, grads = run(made, *args)
    before = heddle.IRModule.from_expr(func)
    total = lambda given: float(np.sum(run(before, *given).astype("float64")))  # noqa: E731
    if run(before, *args).dtype != "float64":
        return
    rng = np.random.default_rng(k)
    for place, (arg, grad) in enumerate(zip(args, grads, strict=True)):
        assert grad.shape == arg.shape and grad.dtype == arg.dtype
        if arg.dtype.kind != "f":
            assert not grad.any()
            continue
        step = rng.uniform(0.5, 1, arg.shape) * 1e-6
        ends = [total([*args[:place], np.asarray(arg + sign * step), *args[place + 1 :]]) for sign in (1, -1)]
        close((grad * step).sum() / 1e-6, (ends[0] - ends[1]) / 2e-6, 1e-3)


def by_torch(function: Any, *arrays: Any) -> tuple[Any, ...]:
    tensors = [torch.from_numpy(array.copy()).requires_grad_() for array in arrays]
    result = function(*tensors)
    result.sum().backward()
    return result.detach().numpy(), tuple(t.grad.numpy() for t in tensors)


X4 = "%x: Tensor[(2, 4, 9, 8), float32]"
NETWORKS: dict[str, tuple[str, Any, list[tuple[int, ...]]]] = {
    "strided convolution": (
        f"def @main({X4}, %w: Tensor[(6, 4, 3, 3), float32]) {{ "
        "nn.conv2d(%x, %w, strides=[2, 2], padding=[1, 1]) }",
        lambda x, w: torch.conv2d(x, w, stride=2, padding=1),
        [(2, 4, 9, 8), (6, 4, 3, 3)],
    ),
    "grouped and dilated": (
        f"def @main({X4}, %w: Tensor[(6, 2, 3, 2), float32]) {{ "
        "nn.conv2d(%x, %w, dilation=[2, 1], padding=[1, 0], groups=2) }",
        lambda x, w: torch.conv2d(x, w, dilation=(2, 1), padding=(1, 0), groups=2),
        [(2, 4, 9, 8), (6, 2, 3, 2)],
    ),
    "depthwise": (
        f"def @main({X4}, %w: Tensor[(4, 1, 3, 3), float32]) {{ nn.conv2d(%x, %w, groups=4) }}",
        lambda x, w: torch.conv2d(x, w, groups=4),
        [(2, 4, 9, 8), (4, 1, 3, 3)],
    ),
    "transposed": (
        f"def @main({X4}, %w: Tensor[(4, 3, 3, 3), float32]) {{ "
        "nn.conv2d_transpose(%x, %w, strides=[2, 2], padding=[1, 1], output_padding=[1, 0], channels=3, "
        "kernel_size=[3, 3]) }",
        lambda x, w: torch.conv_transpose2d(x, w, stride=2, padding=1, output_padding=(1, 0)),
        [(2, 4, 9, 8), (4, 3, 3, 3)],
    ),
    "pools": (
        f"def @main({X4}) {{ nn.avg_pool2d(nn.max_pool2d(%x, pool_size=[3, 3], strides=[2, 2], "
        "padding=[1, 1]), pool_size=[2, 2]) }",
        lambda x: torch.nn.functional.avg_pool2d(torch.max_pool2d(x, 3, 2, 1), 2, 1),
        [(2, 4, 9, 8)],
    ),
    "perceptron": (
        "def @main(%x: Tensor[(3, 5), float32], %w: Tensor[(7, 5), float32], %b: Tensor[(7), float32]) { "
        "nn.log_softmax(tanh(nn.bias_add(nn.dense(%x, %w), %b))) * sigmoid(nn.dense(%x, %w)) }",
        lambda x, w, b: torch.log_softmax(torch.tanh(x @ w.T + b), -1) * torch.sigmoid(x @ w.T),
        [(3, 5), (7, 5), (7,)],
    ),
    "norm": (
        "def @main(%x: Tensor[(3, 5), float32], %g: Tensor[(5), float32], %b: Tensor[(5), float32]) { "
        "let %y = nn.layer_norm(%x, %g, %b); %y * %y }",
        lambda x, g, b: torch.nn.functional.layer_norm(x, (5,), g, b) ** 2,
        [(3, 5), (5,), (5,)],
    ),
    "attention": (
        "def @main(%q: Tensor[(2, 3, 4), float32], %k: Tensor[(2, 5, 4), float32], "
        "%v: Tensor[(2, 5, 4), float32]) { "
        "nn.batch_matmul(nn.softmax(nn.batch_matmul(%q, %k)), %v, transpose_b=False) }",
        lambda q, k, v: torch.softmax(q @ k.transpose(1, 2), -1) @ v,
        [(2, 3, 4), (2, 5, 4), (2, 5, 4)],
    ),
    "embedding": (
        "def @main(%t: Tensor[(6, 3), float32]) { "
        'let %i = cast(reshape(argsort(sum(%t, axis=[1])), newshape=[2, 3]), dtype="int32"); '
        "let %y = take(%t, maximum(%i, 2), axis=0); %y * %y }",
        lambda t: t[torch.argsort(t.sum(1)).reshape(2, 3).clamp(min=2)] ** 2,
        [(6, 3)],
    ),
}


@against_torch
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_against_torch(name: str, mode: str) -> None:
    text, function, shapes = NETWORKS[name]
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    wanted = by_torch(function, *arrays)
    mod = with_gradient(text, mode)
    for kind in MACHINES if mode == "higher_order" else (*MACHINES, "graph"):
        close(plain(relay.create_executor(kind, mod).evaluate()(*arrays)), wanted)


TREE = "type Tree { Leaf(float32), Node(Tree, Tree) } "
PROGRAMS: dict[str, tuple[str, list[Any], Any]] = {
    "branch": (
        "def @main(%x: float32) { if (%x < 0f) { %x * %x } else { exp(%x) } }",
        [-1.5],
        (2.25, (-3.0,)),
    ),
    "recursion": (
        "def @pow(%n: int32, %x: float32) -> float32 { if (%n == 0) { 1f } else { %x * @pow(%n - 1, %x) } } "
        "def @main(%x: float32) { @pow(5, %x) }",
        [1.5],
        (1.5**5, (5 * 1.5**4,)),
    ),
    "mutual recursion": (
        "def @even(%n: int32, %x: float32) -> float32 { if (%n == 0) { %x } else { @odd(%n - 1, %x * %x) } } "
        "def @odd(%n: int32, %x: float32) -> float32 { @even(%n - 1, %x + %x) } "
        "def @main(%x: float32) { @even(4, %x) }",
        [0.5],
        (2 * (2 * 0.5**2) ** 2, (32 * 0.5**3,)),
    ),
    "local loop": (
        "def @main(%x: float32) { let %f = fn (%k: int32, %y: float32) -> float32 { "
        "if (%k == 0) { %y } else { %f(%k - 1, %y * %x) } }; %f(3, %x) }",
        [1.25],
        (1.25**4, (4 * 1.25**3,)),
    ),
    "closures": (
        "def @main(%x: float32, %y: float32) { "
        "let %f = fn (%a: float32) { fn (%b: float32) { %a * %b * %x } }; "
        "let %g = %f(%y); %g(%x) + %g(2f) }",
        [3.0, 5.0],
        (5 * 9 + 30.0, (2 * 5 * 3 + 10.0, 9 + 6.0)),
    ),
    "functions as arguments": (
        "def @twice(%f: fn (float32) -> float32, %x: float32) -> float32 { %f(%f(%x)) } "
        "def @main(%x: float32) { @twice(fn (%y: float32) -> float32 { %y * %y * %x }, %x) }",
        [1.1],
        (1.1**9 / 1.1**2, (7 * 1.1**6,)),
    ),
    "generic functions": (
        "def @pair[A, B](%a: A, %b: B) -> (B, A) { (%b, %a) } "
        "def @main(%x: float32) { let %p = @pair(%x, %x * 2f); %p.0 * %p.1 }",
        [3.0],
        (18.0, (12.0,)),
    ),
    "data types": (
        TREE + "def @f(%t: Tree) -> float32 { match (%t) { Leaf(%x) => %x * %x, "
        "Node(%l, %r) => @f(%l) * @f(%r) } } "
        "def @main(%x: float32) { let %l = Leaf(%x); @f(Node(%l, Node(%l, Leaf(2f)))) }",
        [1.5],
        (4 * 1.5**4, (16 * 1.5**3,)),
    ),
    "references": (
        "def @main(%x: float32) { let %r = ref(%x); let %a = ref_write(%r, ref_read(%r) * %x); "
        "let %b = ref_write(%r, ref_read(%r) * ref_read(%r)); ref_read(%r) }",
        [1.5],
        (1.5**4, (4 * 1.5**3,)),
    ),
    "tuples": (
        "def @main(%p: (float32, (float32, int32))) { (%p.0 * (%p.1).0, %p) }",
        [(2.0, (3.0, 4))],
        ((6.0, (2.0, (3.0, 4))), ((4.0, (3.0, 0)),)),
    ),
    "nothing flows": (
        "def @main(%x: float32, %n: int32) { %n * 2 }",
        [1.0, 4],
        (8, (0.0, 0)),
    ),
    "twice the same": (
        "def @main(%x: float32) { %0 = %x * %x; %0 + %0 + %x }",
        [3.0],
        (21.0, (13.0,)),
    ),
}


def as_arrays(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(as_arrays, value))
    return np.asarray(value, "int32" if isinstance(value, int) else "float32")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    text, args, wanted = PROGRAMS[name]
    mod = with_gradient(text)
    given = [as_arrays(arg) for arg in args]
    for kind in MACHINES[:2] if name == "tuples" else MACHINES:  # one entry takes tensors alone
        close(plain(relay.create_executor(kind, mod).evaluate()(*given)), wanted)


def test_lists_and_the_prelude() -> None:
    """The sum of squares of a mapped list, whose gradient is a list."""
    mod = heddle.IRModule()
    mod.import_from_std("prelude.rly")
    text = (
        "def @main(%xs: List[float32], %w: float32) { "
        "@foldl(fn (%a: float32, %x: float32) -> float32 { %a + %x * %x }, 0f, "
        "@map(fn (%x: float32) -> float32 { %x * %w }, %xs)) }"
    )
    made = with_gradient(text, mod=mod)
    cons, nil = (item.tag for item in made.get_type("List")[1:])
    xs: Any = ConstructorValue(nil, ())
    for value in (3.0, 2.0, 1.0):
        xs = ConstructorValue(cons, (np.asarray(value, "float32"), xs))
    for kind in ("debug", "vm"):
        found, (grads, to_w) = relay.create_executor(kind, made).evaluate()(xs, np.float32(0.5))
        assert float(found.numpy()) == 14 * 0.25 and float(to_w.numpy()) == 14
        assert listed(grads) == [0.5, 1.0, 1.5]


@pytest.mark.parametrize(
    "modes",
    [("first_order", "first_order"), ("first_order", "higher_order"), ("higher_order", "higher_order")],
)
def test_second_gradients(modes: tuple[str, str]) -> None:
    """x ** 3 * tanh(y): the gradient of the first gradient's first part."""
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    inner = gradient(relay.Function([x, y], x * x * x * relay.tanh(y)), mode=modes[0])
    a, b = relay.var("a", shape=(2,)), relay.var("b", shape=(2,))
    call = relay.TupleGetItem(relay.TupleGetItem(relay.Call(inner, [a, b]), 1), 0)
    if modes[1] == "first_order":
        call = relay.bind(inner.body, {inner.params[0]: a, inner.params[1]: b})
        call = relay.TupleGetItem(relay.TupleGetItem(call, 1), 0)
    outer = gradient(relay.Function([a, b], call), mode=modes[1])
    given = np.array([0.5, 2.0], "float32"), np.array([0.3, -1.0], "float32")
    found = run(relay.transform.InferType()(heddle.IRModule.from_expr(outer)), *given)
    t = np.tanh(given[1])
    wanted = 3 * given[0] ** 2 * t, (6 * given[0] * t, 3 * given[0] ** 2 * (1 - t * t))
    close(found, wanted)


@against_torch
def test_free_sizes() -> None:
    """A dense layer, a norm and a broadcast of a free batch."""
    text = (
        "def @main(%x: Tensor[(?, 3), float32], %w: Tensor[(4, 3), float32], %b: Tensor[(4), float32]) { "
        "mean(nn.softmax(nn.dense(%x, %w) + %b) * nn.dense(%x, %w), axis=[0]) }"
    )
    for mode in MODES:
        mod = with_gradient(text, mode)
        for rows in (1, 5):
            rng = np.random.default_rng(rows)
            arrays = [rng.standard_normal(s).astype("float32") for s in ((rows, 3), (4, 3), (4,))]
            wanted = by_torch(lambda x, w, b: (torch.softmax(x @ w.T + b, -1) * (x @ w.T)).mean(0), *arrays)
            for kind in ("debug", "vm"):
                close(plain(relay.create_executor(kind, mod).evaluate()(*arrays)), wanted)


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("def @main(%x: float32) { if (%x < 0f) { %x } else { 1f } }", "first_order", "no If"),
        (
            "def @main(%n: int32, %x: float32) { let %f = fn (%i: int32, %y: float32) -> float32 "
            "{ if (%i < %n) { %f(%i + 1, %y * %x) } else { %y } }; %f(0, %x) }",
            "first_order",
            "no Call",
        ),
        ("def @main(%f: fn (float32) -> float32) { %f(1f) }", "higher_order", "no gradient"),
        ("def @main(%x: float32) { %x }", "third_order", "mode must be"),
        ("def @main(%x: Tensor[(3), float32]) { cumprod(%x) }", "first_order", "no gradient of cumprod"),
        ("def @main[A](%x: A) -> A { %x }", "higher_order", "generic"),
    ],
)
def test_what_has_no_gradient(text: str, mode: str, words: str) -> None:
    mod = program(text)
    with pytest.raises(HeddleError, match=words):
        gradient(mod["main"], mod, mode=mode)


def test_work_grows_with_distinct_nodes() -> None:
    """A ladder has 2**n paths."""
    for mode in MODES:
        counts = []
        for doublings in (30, 60):
            x = relay.var("x", shape=(2,))
            y: Any = x
            for _ in range(doublings):
                y = relay.sin(y) + relay.cos(y)
            func = gradient(relay.Function([x], y), mode=mode)
            counts.append(sum(relay.analysis.list_op_freqs(heddle.IRModule.from_expr(func)).values()))
        assert counts[1] < 2.1 * counts[0]
