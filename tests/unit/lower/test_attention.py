"""Attention becomes one function, whose scores live for a few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heddle
from heddle.driver.pipeline import legalize_passes, optimize_passes
from heddle.graph.types import TensorType
from heddle.ir.module import IRModule
from heddle.ir.transform import Sequential
from heddle.relax import BlockBuilder
from heddle.relax import op as R
from heddle.runtime.native.library import set_num_threads
from heddle.script import from_source
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from heddle.vm.relax import VirtualMachine

SOURCE = """
@I.ir_module
class Module:
    @R.function
    def main(
        q: R.Tensor({q}, "{dtype}"), k: R.Tensor({k}, "{dtype}"),
        v: R.Tensor({v}, "{dtype}"), mask: R.Tensor({mask}, "{dtype}")
    ) -> R.Any:
        with R.dataflow():
            scores = R.matmul(q, k)
            scaled = R.multiply(scores, R.const(0.25, "{dtype}"))
            masked = {masked}
            weights = R.nn.softmax(masked, axis={axis})
            joined = R.matmul(weights, v)
            {last}
            R.output(out{also})
        return {result}
"""
FIT = {
    "q": '("b", 3, "s", 20)',
    "k": '("b", 3, 20, "t")',
    "v": '("b", 3, "t", 24)',
    "mask": '("b", 1, "s", "t")',
    "dtype": "float32",
    "axis": -1,
    "masked": "R.add(scaled, mask)",
    "last": "out = R.permute_dims(joined, axes=[0, 2, 1, 3])",
    "also": "",
    "result": "out",
}


HIDDEN = "R.where(R.less(mask, R.const(0.0, 'float32')), R.const(-1e9, 'float32'), scaled)"
"""Scores that a decoder may not look at."""


def module(**changes: Any) -> IRModule:
    made: IRModule = from_source(SOURCE.format(**FIT | changes))
    return made


def kernels(mod: IRModule, target: str = "llvm") -> dict[str, PrimFunc]:
    chosen = Target(target)
    passes = Sequential((*optimize_passes(chosen), *legalize_passes(chosen)), "legalized")
    return {v.name_hint: f for v, f in passes(mod).functions.items() if isinstance(f, PrimFunc)}


def arrays(b: int, s: int, t: int, dtype: str = "float32", size: int = 20, width: int = 24) -> list[Any]:
    rng = np.random.default_rng(b * 100 + s * 10 + t)
    shapes = ((b, 3, s, size), (b, 3, size, t), (b, 3, t, width), (b, 1, s, t))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def run(mod: IRModule, given: list[Any]) -> Any:
    return VirtualMachine(heddle.compile(mod), heddle.cpu())["main"](*given).numpy()


def attention(q: Any, k: Any, v: Any, mask: Any, hides: bool = False) -> Any:
    """In float64, with heads behind rows."""
    q, k, v, mask = (x.astype("float64") for x in (q, k, v, mask))
    scores = np.where(mask < 0, -1e9, q @ k * 0.25) if hides else q @ k * 0.25 + mask
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True) @ v).transpose(0, 2, 1, 3)


def test_it_is_one_function_scheduled_by_its_own_rule():
    made = kernels(module())
    assert list(made) == ["fused_matmul_multiply_add_softmax_matmul_permute_dims"]
    assert [func.attrs["schedule_rule"] for func in made.values()] == ["Attention"]


SIZES = [
    (1, 1, 1),
    (2, 5, 7),
    (1, 48, 48),
    (1, 49, 65),
    (2, 97, 130),
    (1, 1, 200),
    (2, 1, 37),
    (3, 17, 1),
    (1, 0, 4),
    (0, 3, 4),
]


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
def test_any_size_is_right(exec_mode):
    machine = VirtualMachine(heddle.compile(module(), exec_mode=exec_mode), heddle.cpu())
    for sizes in SIZES:
        given = arrays(*sizes)
        found = machine["main"](*given).numpy()
        wanted = attention(*given)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6, err_msg=str(sizes))


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v2"])
@pytest.mark.parametrize(
    ("b", "s", "t", "size", "width"), [(1, 1, 5, 4, 3), (2, 13, 37, 7, 5), (1, 64, 64, 16, 80)]
)
def test_known_sizes_on_several_processors(target, b, s, t, size, width):
    """In the loop interpreter, which checks bounds, and as machine code."""
    shapes = {"q": (b, 3, s, size), "k": (b, 3, size, t), "v": (b, 3, t, width), "mask": (b, 1, s, t)}
    mod = module(**shapes)
    given = arrays(b, s, t, "float32", size, width)
    wanted = attention(*given)
    found = VirtualMachine(heddle.compile(mod, target=target), heddle.cpu())["main"](*given).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
    if s * t < 1000:
        (func,) = kernels(mod, target).values()
        out = np.full(wanted.shape, np.nan, "float32")
        q, k, v, mask = given
        run_primfunc(func, q, k, mask, v, out)
        np.testing.assert_allclose(out, wanted, rtol=2e-5, atol=2e-6)


def test_threads_change_no_bit():
    machine = VirtualMachine(heddle.compile(module()), heddle.cpu())
    given = arrays(2, 53, 71)
    found = []
    for count in (1, 3, 2):
        set_num_threads(count)
        found.append(machine["main"](*given).numpy())
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


HIDDEN_SIZES = [
    (s, t, size)
    for s in (1, 5, 48, 64, 84, 100, 126, 128, 384)
    for t, size in ((1, 32), (65, 64), (448, 80), (128, 20))
]
"""Rows in one group or many, which fill their tiles and groups or do not, for tiles of 14, 8 and 6."""


@pytest.mark.parametrize(("s", "t", "size"), [*HIDDEN_SIZES, ('"s"', 64, 64), (128, '"t"', 64)], ids=str)
def test_scores_that_are_hidden_keep_its_rule(s, t, size):
    """What reads products under a condition asks that they are made at all of its points."""
    shapes = {"q": (2, 3, s, size), "k": (2, 3, size, t), "v": (2, 3, t, size), "mask": (2, 1, s, t)}
    texts = {name: str(shape).replace("'", "") for name, shape in shapes.items()}
    made = kernels(module(**texts, masked=HIDDEN))
    assert {name: func.attrs["schedule_rule"] for name, func in made.items()} == {
        "less": "Elementwise",
        "fused_matmul_multiply_where_softmax_matmul_permute_dims": "Attention",
    }


@pytest.mark.parametrize(("s", "t", "size"), [(64, 65, 80), (128, 7, 64), (84, 30, 64), (100, 41, 20)])
def test_hidden_scores_are_right(s, t, size):
    mod = module(q=(2, 3, s, size), k=(2, 3, size, t), v=(2, 3, t, size), mask=(2, 1, s, t), masked=HIDDEN)
    given = arrays(2, s, t, "float32", size, size)
    np.testing.assert_allclose(run(mod, given), attention(*given, hides=True), rtol=2e-5, atol=2e-6)


def test_one_row_has_loops_of_its_own():
    """A tile of rows would compute the only one again and again."""
    (func,) = kernels(module()).values()
    assert func.attrs["tir.any_columns"] == 1
    (itself,) = kernels(
        module(k='("b", 3, 20, "s")', v='("b", 3, "s", 24)', mask='("b", 1, "s", "s")')
    ).values()
    assert "tir.any_columns" not in itself.attrs


GROWN = """
@I.ir_module
class Module:
    @R.function
    def main(
        q: R.Tensor(("b", 3, "s", 20), "float32"),
        k: R.Tensor(("b", 3, 20, "past"), "float32"), k_new: R.Tensor(("b", 3, 20, "s"), "float32"),
        v: R.Tensor(("b", 3, "past", 24), "float32"), v_new: R.Tensor(("b", 3, "s", 24), "float32"),
        mask: R.Tensor(("b", 1, "s", "s + past"), "float32")
    ) -> R.Any:
        with R.dataflow():
            keys = R.concat((k, k_new), axis=3)
            values = R.concat((v, v_new), axis=2)
            scores = R.multiply(R.matmul(q, keys), R.const(0.25, "float32"))
            weights = R.nn.softmax(R.add(scores, mask), axis=-1)
            out = R.permute_dims(R.matmul(weights, values), axes=[0, 2, 1, 3])
            R.output(out)
        return out
"""


def test_sums_of_sizes_in_another_order_are_one_shape():
    """Keys of `past + s` columns and a mask of `s + past`, as decoders with a cache are exported."""
    mod = from_source(GROWN)
    rules = [func.attrs.get("schedule_rule") for func in kernels(mod).values()]
    assert rules.count("Attention") == 1 and len(rules) == 3
    machine = VirtualMachine(heddle.compile(mod), heddle.cpu())
    for s, past in ((1, 0), (1, 70), (5, 3), (50, 9)):
        q, k, v, mask = arrays(2, s, s + past)
        given = (q, k[..., :past], k[..., past:], v[:, :, :past], v[:, :, past:], mask)
        found = machine["main"](*map(np.ascontiguousarray, given)).numpy()
        np.testing.assert_allclose(found, attention(q, k, v, mask), rtol=2e-5, atol=2e-6)


APART = {
    "scores that are needed elsewhere": {"also": ", scaled", "result": "(out, scaled)"},
    "weights that are needed elsewhere": {"also": ", weights", "result": "(out, weights)"},
    "a pass across rows": {"axis": -2},
    "values for all batches": {"v": '("t", 24)'},
    "weights for all batches": {
        "q": '(1, 3, "s", 20)',
        "k": '(1, 3, 20, "t")',
        "mask": '(1, 1, "s", "t")',
    },
    "keys for all batches": {"k": '(20, "t")', "mask": '("b", 3, "s", "t")'},
}


@pytest.mark.parametrize("name", APART)
def test_what_is_no_attention_stays_apart(name):
    made = kernels(module(**APART[name]))
    assert "Attention" not in [func.attrs.get("schedule_rule") for func in made.values()]


def test_a_map_after_it_joins():
    last = "half = R.multiply(joined, R.const(0.5, 'float32')); out = R.permute_dims(half, axes=[0, 2, 1, 3])"
    mod = module(last=last.replace("; ", "\n            "))
    assert len(kernels(mod)) == 1
    given = arrays(1, 11, 19)
    found = run(mod, given)
    np.testing.assert_allclose(found, attention(*given) * 0.5, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    "attrs", [{}, {"causal_mask": "TopLeft"}, {"causal_mask": "BottomRight", "window_size": 3}]
)
def test_the_operator_becomes_the_same_function(attrs):
    builder = BlockBuilder()
    shapes = ((2, 9, 4, 16), (2, 13, 4, 16), (2, 13, 4, 16))
    params = [
        heddle.relax.Var(name, TensorType(shape, "float32"))
        for name, shape in zip("qkv", shapes, strict=True)
    ]
    with builder.function("main", params):
        with builder.dataflow():
            made = builder.emit_output(R.nn.attention(*params, **attrs))
        builder.emit_func_output(made)
    mod = builder.get()
    rules = [func.attrs.get("schedule_rule") for func in kernels(mod).values()]
    assert rules.count("Attention") == 1
    rng = np.random.default_rng(5)
    given = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    found = run(mod, given)
    wanted = heddle.relax.GraphInterpreter(mod)["main"](*given)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 4e-3), ("float64", 1e-12)])
def test_other_element_types(dtype, tolerance):
    machine = VirtualMachine(heddle.compile(module(dtype=dtype)), heddle.cpu())
    for sizes in SIZES:
        given = arrays(*sizes, dtype)
        found = machine["main"](*given).numpy()
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found, attention(*given), rtol=tolerance, atol=tolerance, err_msg=str(sizes)
        )


ROWS_MIDDLE = """
@I.ir_module
class Module:
    @R.function
    def main(
        q: R.Tensor((2, 5, 3, 8), "float32"), k: R.Tensor((2, 7, 3, 8), "float32"),
        v: R.Tensor((2, 7, 3, 6), "float32")
    ) -> R.Any:
        with R.dataflow():
            scores = R.einsum((q, k), subscripts="bqhd,bkhd->bhqk")
            weights = R.nn.softmax(scores, axis=-1)
            out = R.einsum((weights, v), subscripts="bhqk,bkhd->bqhd")
            R.output(out)
        return out
"""


def test_rows_that_do_not_come_last_but_one():
    mod = from_source(ROWS_MIDDLE)
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal(s).astype("float32") for s in ((2, 5, 3, 8), (2, 7, 3, 8), (2, 7, 3, 6)))
    found = VirtualMachine(heddle.compile(mod), heddle.cpu())["main"](q, k, v).numpy()
    weights = np.exp(np.einsum("bqhd,bkhd->bhqk", q, k))
    weights /= weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found, np.einsum("bhqk,bkhd->bqhd", weights, v), rtol=1e-4, atol=1e-6)


SEVERAL = {
    "one after the other": (
        """
            t = R.nn.softmax(first, axis=-1)
            out = R.matmul(t, w)
""",
        lambda first, second, w: softmax(first) @ w,
    ),
    "a difference": (
        """
            out = R.subtract(first, second)
""",
        lambda first, second, w: first - second,
    ),
    "one in the scores of another": (
        """
            s3 = R.matmul(q, w)
            s4 = R.add(s3, first)
            p3 = R.nn.softmax(s4, axis=-1)
            out = R.matmul(p3, w2)
""",
        None,
    ),
}


def softmax(x: Any) -> Any:
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_in_one_block(name):
    """None takes what belongs to another."""
    last, reference = SEVERAL[name]
    mod = from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(
        q: R.Tensor((2, 5, 6), "float32"), k: R.Tensor((2, 6, 7), "float32"),
        v: R.Tensor((2, 7, 6), "float32"),
        k2: R.Tensor((2, 6, 9), "float32"), v2: R.Tensor((2, 9, 6), "float32"),
        w: R.Tensor((2, 6, 6), "float32"),
        w2: R.Tensor((2, 6, 3), "float32")
    ) -> R.Any:
        with R.dataflow():
            s = R.matmul(q, k)
            p = R.nn.softmax(s, axis=-1)
            first = R.matmul(p, v)
            s2 = R.matmul(q, k2)
            p2 = R.nn.softmax(s2, axis=-1)
            second = R.matmul(p2, v2){last}
            R.output(out)
        return out
""")
    assert [func.attrs["schedule_rule"] for func in kernels(mod).values()].count("Attention") > 0
    rng = np.random.default_rng(11)
    shapes = ((2, 5, 6), (2, 6, 7), (2, 7, 6), (2, 6, 9), (2, 9, 6), (2, 6, 6), (2, 6, 3))
    q, k, v, k2, v2, w, w2 = given = [rng.standard_normal(s).astype("float32") for s in shapes]
    first, second = softmax(q @ k) @ v, softmax(q @ k2) @ v2
    wanted = reference(first, second, w) if reference else softmax(q @ w + first) @ w2
    found = run(mod, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 5])
def test_what_follows_may_have_more_rows(rows):
    """A map whose result grows is computed by itself."""
    mod = from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(
        q: R.Tensor((2, 1, 8), "float32"), k: R.Tensor((2, 8, 7), "float32"),
        v: R.Tensor((2, 7, 6), "float32"),
        w: R.Tensor((2, {rows}, 6), "float32")
    ) -> R.Any:
        with R.dataflow():
            s = R.matmul(q, k)
            p = R.nn.softmax(s, axis=-1)
            o = R.matmul(p, v)
            out = R.add(o, w)
            R.output(out)
        return out
""")
    rng = np.random.default_rng(12)
    shapes = ((2, 1, 8), (2, 8, 7), (2, 7, 6), (2, rows, 6))
    q, k, v, w = given = [rng.standard_normal(s).astype("float32") for s in shapes]
    found = run(mod, given)
    np.testing.assert_allclose(found, softmax(q @ k) @ v + w, rtol=1e-4, atol=1e-5)


CAUSAL = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def causal(
        X: T.Buffer((T.int64(2), T.int64(13), T.int64(13)), "float32"),
        Y: T.Buffer((T.int64(2), T.int64(13), T.int64(13)), "float32"),
    ):
        Z = T.sblock_alloc_buffer((T.int64(2), T.int64(13)), "float32")
        for b, i, j in T.grid(T.int64(2), T.int64(13), T.int64(13)):
            with T.sblock("Z"):
                vb, vi, vj = T.axis.remap("SSR", [b, i, j])
                T.where(j <= i)
                with T.init():
                    Z[vb, vi] = T.float32(0)
                Z[vb, vi] = Z[vb, vi] + T.exp(X[vb, vi, vj])
        for b, i, j in T.grid(T.int64(2), T.int64(13), T.int64(13)):
            with T.sblock("Y"):
                vb, vi, vj = T.axis.remap("SSS", [b, i, j])
                Y[vb, vi, vj] = T.if_then_else(vj <= vi, T.exp(X[vb, vi, vj]) / Z[vb, vi], T.float32(0))

    @R.function
    def main(
        q: R.Tensor((2, 13, 8), "float32"), k: R.Tensor((2, 8, 13), "float32"),
        v: R.Tensor((2, 13, 6), "float32")
    ) -> R.Any:
        cls = Module
        with R.dataflow():
            s = R.matmul(q, k)
            p = R.call_tir(cls.causal, (s,), out_ty=R.Tensor((2, 13, 13), "float32"))
            out = R.matmul(p, v)
            R.output(out)
        return out
"""


def test_a_pass_under_a_condition_keeps_it():
    rng = np.random.default_rng(13)
    q, k, v = (rng.standard_normal(s).astype("float32") for s in ((2, 13, 8), (2, 8, 13), (2, 13, 6)))
    found = VirtualMachine(heddle.compile(from_source(CAUSAL)), heddle.cpu())["main"](q, k, v).numpy()
    scores = np.where(np.tri(13, dtype=bool), q @ k, -np.inf)
    np.testing.assert_allclose(found, softmax(scores) @ v, rtol=1e-4, atol=1e-5)
