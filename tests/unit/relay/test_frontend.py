"""Models as Relay programs: each call says what the graph's call says, and the programs give the same."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import heddle
from heddle import relay
from heddle.ir.instrument import verify_module
from heddle.lower import relax_to_relay
from heddle.lower.relax_to_relay import _Maker
from heddle.relay.op import op_names
from heddle.script import from_source
from heddle.script.printer import module_script
from heddle.support.diagnostics import ParseError, UsageError
from tests.unit.relay.programs import floats, plain, program

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(
    nodes: list[Any], inputs: dict[str, tuple[Any, ...]], weights: dict[str, Any] | None = None, **kinds: int
) -> onnx.ModelProto:
    """A model with one output, `y`."""
    given = [
        helper.make_tensor_value_info(name, kinds.get(name, FLOAT), list(dims))
        for name, dims in inputs.items()
    ]
    held = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    out = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "test", given, out, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def node(kind: str, inputs: str, outputs: str = "y", **attrs: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attrs)


def branching(then: Any, other: Any, output: str = "y") -> Any:
    """An If of the condition `c` whose branches are a node each, with the results `p` and `q`."""
    branches = {
        f"{name}_branch": helper.make_graph([made], name, [], [helper.make_empty_tensor_value_info(out)])
        for name, made, out in (("then", then, "p"), ("else", other, "q"))
    }
    return node("If", "c", output, **branches)


def by_graph(model: onnx.ModelProto, arrays: list[Any]) -> Any:
    """What the model gives without Relay."""
    vm = heddle.relax.VirtualMachine(heddle.compile(model), heddle.cpu())
    return plain(vm["main"](*map(heddle.tensor, arrays)))


def names_in(mod: heddle.IRModule) -> set[str]:
    """The operators that `main` calls."""
    found: set[str] = set()
    relay.analysis.post_order_visit(
        mod["main"],
        lambda expr: (
            found.add(expr.op.name)
            if isinstance(expr, relay.Call) and isinstance(expr.op, heddle.ir.Op)
            else None
        ),
    )
    return found


FREE = ("n", "c", "h", "w")
W = floats(4, 3, 3, 3)
CASES: dict[str, tuple[onnx.ModelProto, list[tuple[int, ...]], set[str]]] = {
    "a network": (
        model_of(
            [
                node("Conv", "x k b", "a", pads=[1, 1, 1, 1]),
                node("BatchNormalization", "a s b m v", "c"),
                node("Relu", "c", "d"),
                node("MaxPool", "d", "e", kernel_shape=[2, 2], strides=[2, 2]),
                node("GlobalAveragePool", "e", "f"),
                node("Flatten", "f", "g"),
                node("Gemm", "g p q", "y", transB=1),
            ],
            {"x": ("n", 3, 8, 8)},
            {"k": W, "b": floats(4), "s": floats(4), "m": floats(4), "v": np.ones(4, "f"), "p": floats(5, 4)}
            | {"q": floats(5)},
        ),
        [(2, 3, 8, 8)],
        {"nn.conv2d", "nn.batch_norm", "nn.relu", "nn.max_pool2d", "nn.dense", "reshape"},
    ),
    "attention": (
        model_of(
            [
                node("MatMul", "x w", "a"),
                node("Reshape", "a s", "b"),
                node("Transpose", "b", "c", perm=[0, 2, 1, 3]),
                node("Transpose", "b", "d", perm=[0, 2, 3, 1]),
                node("MatMul", "c d", "e"),
                node("Softmax", "e", "f", axis=-1),
                node("MatMul", "f c", "g"),
                node("Transpose", "g", "h", perm=[0, 2, 1, 3]),
                node("Reshape", "h t", "i"),
                node("LayerNormalization", "i u v", "y"),
            ],
            {"x": ("n", "length", 8)},
            {
                "w": floats(8, 8),
                "s": np.array([0, 0, 2, 4]),
                "t": np.array([0, 0, 8]),
                "u": floats(8),
                "v": floats(8),
            },
        ),
        [(2, 5, 8)],
        {"nn.dense", "reshape", "transpose", "nn.softmax", "nn.matmul", "nn.layer_norm"},
    ),
    "sizes that are computed": (
        model_of(
            [
                node("Shape", "x", "s", start=0, end=1),
                node("Concat", "s four", "t", axis=0),
                node("Expand", "row t", "u"),
                node("Slice", "x one end axis", "v"),
                node("Add", "u v", "y"),
            ],
            {"x": ("n", 5)},
            {
                "four": np.array([4]),
                "row": floats(1, 4),
                "one": np.array([1]),
                "end": np.array([5]),
                "axis": np.array([1]),
            },
        ),
        [(3, 5)],
        {"dyn.broadcast_to", "reshape_like", "strided_slice", "add"},
    ),
    "a branch": (
        model_of(
            [
                node("ReduceSum", "x", "s", keepdims=0),
                node("Greater", "s zero", "c"),
                branching(node("Tanh", "x", "p"), node("Neg", "x", "q")),
            ],
            {"x": ("n", 3)},
            {"zero": np.array(0, "float32")},
        ),
        [(2, 3)],
        {"sum", "greater", "tanh", "negative"},
    ),
    "several outputs and a name of graphs": (
        model_of(
            [node("Split", "x", "a b", axis=1, num_outputs=2), node("Gelu", "a", "c"), node("Sub", "c b")],
            {"x": ("n", 6)},
        ),
        [(4, 6)],
        {"split", "relax.nn.gelu", "subtract"},
    ),
}
CASES["several outputs and a name of graphs"][0].opset_import[0].version = 20


@pytest.mark.parametrize("name", CASES)
def test_gives_what_the_graph_gives(name: str) -> None:
    model, shapes, wanted = CASES[name]
    mod, params = relay.frontend.from_onnx(model)
    assert params == {} and verify_module(mod) == []
    assert wanted <= names_in(mod)
    assert names_in(mod) - {"relax.nn.gelu"} <= set(op_names())
    again = relay.parse(mod.astext())
    for _ in range(2):
        arrays = [floats(*shape) for shape in shapes]
        expected = by_graph(model, arrays)
        for each in (mod, again):
            for kind in ("debug", "vm"):
                found = plain(relay.create_executor(kind, each).evaluate()(*arrays))
                np.testing.assert_allclose(found, expected, 2e-5, 2e-5)


def test_fixed_sizes_run_on_every_executor() -> None:
    """`shape` fixes what the model leaves open; `relay.Any()` leaves it open."""
    model, _, _ = CASES["a network"]
    x = floats(3, 3, 8, 8)
    fixed, _ = relay.frontend.from_onnx(model, shape={"x": (3, 3, 8, 8)})
    assert "?" not in fixed.astext(show_meta_data=False)
    expected = by_graph(model, [x])
    for kind in ("debug", "vm", "graph", "aot"):
        found = relay.create_executor(kind, fixed).evaluate()(x).numpy()
        np.testing.assert_allclose(found, expected, 2e-5, 2e-5)
    free, _ = relay.frontend.from_onnx(model, shape={"x": (relay.Any(), 3, 8, relay.Any())})
    assert "Tensor[(?, 3, 8, ?)" in free.astext(show_meta_data=False)


def test_parameters_beside_the_program() -> None:
    model, _, _ = CASES["a network"]
    mod, params = relay.frontend.from_onnx(model, freeze_params=False)
    assert set(params) == {"k", "b", "s", "m", "v", "p", "q"}
    np.testing.assert_array_equal(params["k"].numpy(), W)
    x = floats(2, 3, 8, 8)
    made = relay.build(relay.frontend.from_onnx(model, {"x": (2, 3, 8, 8)})[0], target="llvm")
    run = heddle.contrib.graph_executor.GraphModule(made["default"](heddle.cpu()))
    run.set_input("x", x)
    run.run()
    names = [param.name_hint for param in mod["main"].params[1:]]
    found = relay.create_executor("vm", mod).evaluate()(x, *(params[name] for name in names)).numpy()
    np.testing.assert_allclose(run.get_output(0).numpy(), found, 2e-5, 2e-5)


def test_passes_of_relay_take_it() -> None:
    mod, _ = relay.frontend.from_onnx(CASES["a network"][0])
    simple = relay.transform.SimplifyInference()(mod)
    assert "nn.batch_norm" not in names_in(simple)
    x = floats(2, 3, 8, 8)
    expected = relay.create_executor("vm", mod).evaluate()(x).numpy()
    found = relay.create_executor("vm", simple).evaluate()(x).numpy()
    np.testing.assert_allclose(found, expected, 2e-5, 2e-5)


def test_sizes_that_are_one_stay_one() -> None:
    """Two inputs of one named size: a program knows that they are, and refuses others."""
    model = model_of([node("Add", "x z")], {"x": ("n", 3), "z": ("n", 3)})
    mod, _ = relay.frontend.from_onnx(model)
    assert "reshape_like" in names_in(mod)
    run = relay.create_executor("vm", mod).evaluate()
    x, z = floats(4, 3), floats(4, 3)
    np.testing.assert_array_equal(run(x, z).numpy(), x + z)
    with pytest.raises(heddle.HeddleError):
        run(x, floats(1, 3))
    np.testing.assert_array_equal(run(x, z).numpy(), x + z)


SCANNED = helper.make_graph(
    [node("Add", "h x", "s"), node("Tanh", "s", "t"), node("Identity", "t", "row")],
    "body",
    [helper.make_tensor_value_info(name, FLOAT, ["n", 3]) for name in ("h", "x")],
    [helper.make_tensor_value_info(name, FLOAT, ["n", 3]) for name in ("t", "row")],
)
PARTS: dict[str, tuple[onnx.ModelProto, list[Any]]] = {
    "a recurrent network": (
        model_of(
            [node("LSTM", "x w r", "h", hidden_size=4), node("Relu", "h")],
            {"x": ("length", "n", 3)},
            {"w": floats(1, 16, 3), "r": floats(1, 16, 4)},
        ),
        [lambda: floats(5, 2, 3)],
    ),
    "a loop that collects rows": (
        model_of(
            [node("Scan", "h x", "last rows", body=SCANNED, num_scan_inputs=1), node("Add", "rows last")],
            {"h": ("n", 3), "x": ("length", "n", 3)},
        ),
        [lambda: floats(2, 3), lambda: floats(4, 2, 3)],
    ),
    "sequences": (
        model_of(
            [
                node("SplitToSequence", "x", "s", axis=0),
                node("SequenceAt", "s one", "a"),
                node("ConcatFromSequence", "s", "b", axis=0),
                node("Add", "a b"),
            ],
            {"x": ("n", 3)},
            {"one": np.array(1)},
        ),
        [lambda: floats(2, 3)],
    ),
    "sizes by inputs": (
        model_of([node("Pad", "x p", mode="edge")], {"x": (2, 3), "p": (4,)}, p=INT64),
        [lambda: floats(2, 3), lambda: np.array([1, -1, 0, 2])],
    ),
    "a count that nobody reads but as a size": (
        model_of([node("NonZero", "x", "p"), node("Shape", "p", "s"), node("Neg", "s")], {"x": ("n", 3)}),
        [lambda: np.float32([[0, 1, 2], [3, 4, 0]])],
    ),
    "branches of other sizes": (
        model_of(
            [
                node("ReduceSum", "x", "s", keepdims=0),
                node("Greater", "s zero", "c"),
                branching(node("Slice", "x first one", "p"), node("Neg", "x", "q"), "r"),
                node("Abs", "r"),
            ],
            {"x": (4, 3)},
            {"zero": np.array(0, "float32"), "first": np.array([0]), "one": np.array([1])},
        ),
        [lambda: floats(4, 3)],
    ),
    "sizes that data decide": (
        model_of(
            [node("NonZero", "x", "p"), node("Transpose", "p", "q"), node("Mul", "q q")], {"x": ("n", 3)}
        ),
        [lambda: np.float32([[0, 1, 2], [3, 0, 0]])],
    ),
}


@pytest.mark.parametrize("axes", [[0, 1], [1, 0], None])
def test_weights_that_are_transposed_or_not(axes: list[int] | None) -> None:
    """`nn.dense` takes what is transposed: a transpose that leaves all as it is says the other thing."""
    how = {} if axes is None else {"perm": axes}
    model = model_of(
        [node("Transpose", "w", "t", **how), node("MatMul", "x t")], {"x": ("n", 3), "w": (3, 3)}
    )
    mod, _ = relay.frontend.from_onnx(model)
    x, w = floats(2, 3), floats(3, 3)
    wanted = x @ (w if axes == [0, 1] else w.T)
    for kind in ("debug", "vm"):
        found = relay.create_executor(kind, mod).evaluate()(x, w).numpy()
        np.testing.assert_allclose(found, wanted, 2e-5, 2e-5)


@pytest.mark.parametrize("name", PARTS)
def test_what_relay_has_no_words_for_is_a_graph_that_it_calls(name: str) -> None:
    model, makers = PARTS[name]
    mod, _ = relay.frontend.from_onnx(model)
    assert mod["main"].dialect == "relay" and verify_module(mod) == []
    again = from_source(module_script(mod, show_meta=True))
    for _ in range(2):
        arrays = [make() for make in makers]
        expected = by_graph(model, arrays)
        for each in (mod, again):
            for kind in ("debug", "vm"):
                found = plain(relay.create_executor(kind, each).evaluate()(*arrays))
                np.testing.assert_allclose(found, expected, 2e-5, 2e-5)


def test_a_part_has_its_numbers_inside() -> None:
    """The counter and the empty rows of a loop are the part's: nothing of them is computed in the program."""
    mod, _ = relay.frontend.from_onnx(PARTS["a loop that collects rows"][0])
    parts = [var.name_hint for var, func in mod.functions.items() if func.dialect != "relay"]
    assert [name for name in parts if name.startswith("main_part")] == ["main_part"]
    assert names_in(mod) <= {"add", "reshape_like"}


def test_values_that_relay_lacks_are_refused() -> None:
    model = model_of([node("StringNormalizer", "x")], {"x": (3,)}, x=TensorProto.STRING)
    with pytest.raises(UsageError, match="types that Relay lacks") as caught:
        relay.frontend.from_onnx(model)
    assert caught.value.code == "L0306"
    with pytest.raises(UsageError, match="convert_config"):
        relay.frontend.from_onnx(CASES["a network"][0], convert_config={"use_nt_batch_matmul": True})


def test_many_parts_take_one_pass_each() -> None:
    """Calls without words are found together: the function was begun anew for each."""
    nodes, x = [], "x"
    for k in range(30):
        nodes += [node("Reshape", f"{x} two", f"a{k}"), node("Tanh", f"a{k}", f"b{k}")]
        nodes += [node("Reshape", f"b{k} three", f"c{k}")]
        x = f"c{k}"
    model = model_of(
        [*nodes, node("Abs", x)],
        {"x": ("n", "m", 4)},
        {"two": np.array([-1, 2]), "three": np.array([-1, 3, 4])},
    )
    made: list[Any] = []

    class Counted(_Maker):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relax_to_relay, "_Maker", Counted)
        mod, _ = relay.frontend.from_onnx(model)
    assert len(made) == 2
    x_array = floats(3, 5, 4)
    found = relay.create_executor("vm", mod).evaluate()(x_array).numpy()
    np.testing.assert_allclose(found, by_graph(model, [x_array]), 1e-5)


@pytest.mark.parametrize(
    "shape", [{"x": (-1, 3)}, {"x": (2.7, 3)}, {"x": (True, 3)}, {"x": (None, 3)}, [1, 3]], ids=str
)
def test_shapes_that_are_none(shape: Any) -> None:
    model = model_of([node("Abs", "x")], {"x": ("n", 3)})
    for load in (relay.frontend.from_onnx, heddle.relax.frontend.onnx.from_onnx):
        with pytest.raises(UsageError) as caught:
            load(model, shape)
        assert caught.value.code == "N0302"


@pytest.mark.parametrize("kind", ["debug", "vm", "graph", "aot"])
def test_arguments_of_four_bits(kind: str) -> None:
    mod = program('def @main(%x: Tensor[(3), int4]) -> Tensor[(3), int32] { cast(%x, dtype="int32") }')
    run = relay.create_executor(kind, mod).evaluate()
    for x in (np.array([1, -3, 7]).astype(ml_dtypes.int4), heddle.tensor(np.array([1, -3, 7]), dtype="int4")):
        np.testing.assert_array_equal(run(x).numpy(), [1, -3, 7])


CALLED = """
@I.ir_module
class Module:
    @R.function(private=True)
    def twice(
        x: R.Tensor(("n", 3), dtype="float32"),
        f: R.Callable((R.Tensor(("n", 3), dtype="float32"),), R.Tensor(("n", 3), dtype="float32")),
    ) -> R.Tensor(("n", 3), dtype="float32"):
        n = T.int64()
        y: R.Tensor((n, 3), dtype="float32") = f(x)
        z: R.Tensor((n, 3), dtype="float32") = f(y)
        return z

    @I.relay_function
    def main():
        r\"\"\"
        #[version = "0.0.5"]
        fn (%x: Tensor[(2, 3), float32]) { @twice(%x, fn (%y: Tensor[(?, 3), float32]) { %y + sum(%x) }) }
        \"\"\"
"""


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_a_graph_function_calls_a_closure_of_relay(kind: str) -> None:
    mod, x = from_source(CALLED), floats(2, 3)
    np.testing.assert_allclose(
        relay.create_executor(kind, mod).evaluate()(x).numpy(), x + 2 * x.sum(), 1e-4, 1e-5
    )


def test_a_script_holds_weights_once_for_all_its_functions() -> None:
    """Those of Relay functions too: a script without them is short, and read with them it is the same."""
    mod, weight = from_source(CALLED), relay.const(floats(64, 64))
    x = relay.var("x", shape=(2, 64))
    mod["other"] = relay.Function([x], relay.nn.dense(x, weight) + relay.nn.dense(x, weight))
    mod["twin"] = relay.Function([x], relay.nn.dense(x, relay.const(floats(64, 64))))
    mod = relay.transform.InferType()(mod)
    short = mod.astext(show_meta_data=False)
    assert len(short) < 4096
    constants: list[Any] = []
    assert module_script(mod, constants) == short and len(constants) == 2
    for again in (from_source(short, constants=constants), from_source(mod.astext())):
        read: list[Any] = []
        assert module_script(again, read) == short
        for mine, theirs in zip(read, constants, strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
    with pytest.raises(ParseError, match="Q0206"):
        from_source(short)
