"""Small files that ask for a lot of work are refused with the limit's name, or fold less."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import heddle
from heddle import relax
from heddle.driver.inputs import read_array
from heddle.frontend.onnx import from_onnx
from heddle.frontend.onnx.check import _Checker
from heddle.frontend.onnx.stored_data import message_without_data
from heddle.ir.expr import Constant
from heddle.ir.visitor import walk
from heddle.relax.transform.fold_constant import FoldConstant
from heddle.runtime.module import load_module
from heddle.runtime.signature import verify_file
from heddle.script import from_source
from heddle.support.diagnostics import HeddleError, ParseError, UsageError
from heddle.support.limits import Limits, current_limits, limit_rows, parse_limits
from heddle.support.reading import open_file

# ---- the table


def test_limits_hold_inside_a_with_and_in_their_thread() -> None:
    default, seen = current_limits(), []
    with heddle.config.limits(nodes=7) as inner:
        assert inner.nodes == current_limits().nodes == 7
        assert inner.fold_work == default.fold_work
        other = threading.Thread(target=lambda: seen.append(current_limits().nodes))
        other.start()
        other.join()
        with heddle.config.limits(nesting=3):
            assert (current_limits().nodes, current_limits().nesting) == (7, 3)
    assert current_limits() == default and seen == [default.nodes]


@pytest.mark.parametrize(
    "changes", [{"node": 3}, {"nodes": 0}, {"nodes": -1}, {"nodes": 1.5}, {"nodes": True}]
)
def test_wrong_limits_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="S0302"), heddle.config.limits(**changes):
        pass


@pytest.mark.parametrize(
    "text", ["nodes", "nodes=", "nodes=x", "nodes=-1", "=3", "nodes=1e9", "nodes=" + "9" * 40]
)
def test_wrong_options_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="S0302"), heddle.config.limits(**parse_limits([text])):
        pass


def test_every_limit_has_a_row() -> None:
    assert {name for name, _, meaning in limit_rows() if meaning} == set(Limits.__slots__)


# ---- script text

LOOP = '@T.prim_func\ndef f(A: T.Buffer((4,), "int32")):\n    for i in range(4):\n        A[i] = {}\n'
SHAPE = '@R.function\ndef f(x: R.Tensor(({},), "float32")):\n    return x\n'
LARGE = [
    "9**9**9",
    "7**(7**7)",
    "(-3)**10**9",
    "1<<(1<<40)",
    "len([0]*10**10)",
    "len(10**10*(0,))",
    "'a'*10**11",
]
LARGE += ["sum(range(10**12))", "len(range(0, -10**12, -3))", "len([0]*10**6 + [1]*10**6)"]


@pytest.mark.parametrize("text", LARGE)
@pytest.mark.parametrize("program", [LOOP, SHAPE], ids=["loops", "graph"])
def test_large_values_of_text_are_refused(program: str, text: str) -> None:
    with pytest.raises(HeddleError, match="limit 'text_") as found:
        from_source(program.format(text))
    assert found.value.code == "S0601" and "--limit text_" in str(found.value)


@pytest.mark.parametrize(
    "text", ["'%1000000000d' % 1", "'a'.zfill(10**10)", "(1).__class__", "1//0", "2.0**10**9"]
)
def test_other_ways_to_large_values_are_no_part_of_the_language(text: str) -> None:
    with pytest.raises(ParseError):
        from_source(LOOP.format(text))


def test_text_may_compute_what_is_not_large() -> None:
    func = from_source(SHAPE.format("2**10 + (1 << 4) * 3 + len([0] * 5) + sum(range(4)) - 7 % 4"))
    assert [int(dim) for dim in func.params[0].ty.dims] == [1024 + 48 + 5 + 6 - 3]


def test_long_text_is_refused() -> None:
    with heddle.config.limits(text_bytes=50), pytest.raises(UsageError, match="text_bytes"):
        from_source(SHAPE.format(4))


# ---- models


def model(nodes: list[Any], functions: tuple[Any, ...] = (), stored: tuple[Any, ...] = ()) -> Any:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], list(stored))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)


def doubling(count: int, calls: int = 2) -> Any:
    """f0 adds; each other function calls the one before it twice."""
    opsets, functions = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)], []
    for index in range(count):
        name, domain = ("Neg", "") if index == 0 else (f"f{index - 1}", "own")
        names = ["a", *(f"t{k}" for k in range(calls - 1)), "b"]
        nodes = [helper.make_node(name, [x], [y], domain=domain) for x, y in pairwise(names)]
        functions.append(helper.make_function("own", f"f{index}", ["a"], ["b"], nodes, opsets))
    return model([helper.make_node(f"f{count - 1}", ["x"], ["y"], domain="own")], tuple(functions))


def test_doubling_functions_are_refused_before_they_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    def walked(*_args: Any) -> None:
        raise AssertionError("a node was looked at")

    monkeypatch.setattr(_Checker, "node", walked)
    with pytest.raises(UsageError, match="nodes once its functions are inlined") as found:
        from_onnx(doubling(22))
    assert found.value.code == "S0601"


def test_nested_functions_within_the_limits_compute() -> None:
    with heddle.config.limits(nodes=40):
        mod = from_onnx(doubling(4))
    executable = heddle.compile(mod)
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(relax.VirtualMachine(executable, heddle.cpu())["main"](x).numpy(), x)
    with heddle.config.limits(nodes=10), pytest.raises(UsageError, match="limit 'nodes' is 10"):
        from_onnx(doubling(4))


def looping(trips: list[int], goes_on: str = "Identity", is_stated: bool = True) -> onnx.ModelProto:
    """Loops inside one another around `x + x`. `goes_on`: what makes the next condition of the one before."""
    start = "inner"
    nodes = [helper.make_node("Add", [start, start], ["out"])]
    names = [f"trips{depth}" for depth in range(len(trips))]
    for depth, name in reversed(list(enumerate(names))):
        body = helper.make_graph(
            [
                helper.make_node(goes_on, [f"c{depth}"], [f"d{depth}"]),
                helper.make_node("Identity", [f"v{depth}"], ["inner"]),
                *nodes,
            ],
            f"body{depth}",
            [
                helper.make_tensor_value_info(f"i{depth}", TensorProto.INT64, []),
                helper.make_tensor_value_info(f"c{depth}", TensorProto.BOOL, []),
                helper.make_tensor_value_info(f"v{depth}", TensorProto.FLOAT, [2]),
            ],
            [
                helper.make_tensor_value_info(f"d{depth}", TensorProto.BOOL, []),
                helper.make_tensor_value_info("out", TensorProto.FLOAT, [2]),
            ],
        )
        nodes = [helper.make_node("Loop", [name, "", "inner" if depth else "x"], ["out"], body=body)]
    stored = [
        numpy_helper.from_array(np.asarray(count), name) for count, name in zip(trips, names, strict=True)
    ]
    counts = [helper.make_tensor_value_info(name, TensorProto.INT64, []) for name in names]
    graph = helper.make_graph(
        nodes,
        "loops",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]), *(() if is_stated else counts)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [2])],
        stored if is_stated else [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("trips", [[2**40], [2**20, 2**20], [2**12, 1, 2**12, 2**12]])
def test_loops_that_would_turn_for_ever_are_refused(trips: list[int]) -> None:
    with pytest.raises(HeddleError, match="limit 'loop_turns' is 4294967296") as found:
        from_onnx(looping(trips))
    assert found.value.code == "S0601"
    from_onnx(looping(trips, is_stated=False))  # the caller says how often
    from_onnx(looping(trips, goes_on="Not"))  # a condition ends it
    with heddle.config.limits(loop_turns=2**60):
        from_onnx(looping(trips))


def test_turns_count_up_to_the_limit_and_side_by_side() -> None:
    mod = from_onnx(looping([3, 0, 2]))
    call = relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main"]
    assert np.array_equal(call(np.ones(2, np.float32)).numpy(), np.ones(2, np.float32))
    with heddle.config.limits(loop_turns=6):
        from_onnx(looping([3, 2]))
        with pytest.raises(HeddleError, match="turns 8 times"):
            from_onnx(looping([4, 2]))


@pytest.mark.parametrize("count", [40, 2000])
def test_deep_chains_of_functions_are_refused(count: int) -> None:
    with pytest.raises(UsageError, match="limit 'nesting' is 32"):
        from_onnx(doubling(count, calls=1))


def test_a_function_that_calls_itself_is_named() -> None:
    opsets = [helper.make_opsetid("own", 1)]
    bodies = [
        helper.make_function(
            "own", name, ["a"], ["b"], [helper.make_node(other, ["a"], ["b"], domain="own")], opsets
        )
        for name, other in (("f", "g"), ("g", "f"))
    ]
    with pytest.raises(HeddleError, match="calls itself"):
        from_onnx(model([helper.make_node("f", ["x"], ["y"], domain="own")], tuple(bodies)))


def nested_loops(depth: int) -> Any:
    """Loops in loops, each of which changes the size of what it carries."""
    info = helper.make_tensor_value_info
    if depth == 0:
        return [helper.make_node("Concat", ["v0", "v0"], ["o0"], axis=0)]
    inner = nested_loops(depth - 1)
    source = f"v{depth - 1}"
    body = helper.make_graph(
        [*inner, helper.make_node("Identity", [f"c{depth}"], [f"d{depth}"])],
        f"body{depth}",
        [info(f"i{depth}", 7, []), info(f"c{depth}", 9, []), info(source, 1, None)],
        [info(f"d{depth}", 9, []), info(f"o{depth - 1}", 1, None)],
    )
    return [helper.make_node("Loop", ["trips", "", f"v{depth}"], [f"o{depth}"], body=body)]


def test_loops_are_imported_within_the_limit_on_nodes() -> None:
    trips = numpy_helper.from_array(np.asarray(1 << 9, np.int64), "trips")
    nodes = nested_loops(3)
    nodes[0].input[2] = "x"
    nodes.append(helper.make_node("Identity", ["o3"], ["y"]))
    with heddle.config.limits(nodes=12), pytest.raises(HeddleError, match="limit 'nodes'"):
        from_onnx(model(nodes, stored=(trips,)))


def test_a_loop_of_many_trips_compiles() -> None:
    """The number of trips is no matter of the compiler: the loop ends by its condition."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["w"]),
            helper.make_node("ReduceMax", ["w"], ["m"], keepdims=0),
            helper.make_node("Less", ["m", "bound"], ["d"]),
        ],
        "body",
        [info("i", 7, []), info("c", 9, []), info("v", 1, [4])],
        [info("d", 9, []), info("w", 1, [4])],
    )
    stored = (
        numpy_helper.from_array(np.asarray(1 << 40, np.int64), "trips"),
        numpy_helper.from_array(np.asarray(100, np.float32), "bound"),
    )
    mod = from_onnx(model([helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)], stored=stored))
    got = relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main"](np.ones(4, np.float32)).numpy()
    assert np.array_equal(got, np.full(4, 128, np.float32))


@pytest.mark.parametrize("data", [bytes(4 << 20), b"\x08\x00" * (2 << 20), b"\x3a\x00" * (2 << 20)])
def test_millions_of_small_fields_end_at_once(tmp_path: Path, data: bytes) -> None:
    """Counted, not timed: the splitter gives up after as many fields as there may be nodes."""
    path = tmp_path / "zero.onnx"
    path.write_bytes(data)
    with heddle.config.limits(nodes=1000):
        assert message_without_data(path) is None


def test_a_message_that_is_too_large_to_decode_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "zero.onnx"
    path.write_bytes(bytes(100))
    with heddle.config.limits(message_bytes=50), pytest.raises(UsageError, match="message_bytes"):
        from_onnx(path)


# ---- pipes in the place of files


def _external(folder: Path, pipe: Path) -> None:
    tensor = numpy_helper.from_array(np.ones(4, np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=pipe.name)
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], stored=(tensor,))
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    from_onnx(folder / "m.onnx")


READERS: dict[str, Callable[[Path, Path], Any]] = {
    "model": lambda _folder, pipe: from_onnx(pipe),
    "external data": _external,
    "artefact": lambda _folder, pipe: load_module(pipe),
    "array": lambda _folder, pipe: read_array("x", str(pipe)),
    "signed": lambda _folder, pipe: verify_file(pipe, pipe),
}


@pytest.mark.parametrize("kind", ["pipe", "folder", "missing", "device"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_ordinary_file_is_refused(tmp_path: Path, reader: str, kind: str) -> None:
    place = tmp_path / "it.heddle"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "device":
        place.symlink_to("/dev/zero")
    with pytest.raises(HeddleError):
        READERS[reader](tmp_path, place)


def test_opened_files_are_ordinary(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with open_file(tmp_path / "a") as file:
        assert file.read() == b"abc"
    with pytest.raises(OSError, match="embedded null"):
        open_file(f"{tmp_path}/a\0b")


# ---- folding


def folded(text: str, given: dict[str, Any], **limits: int) -> Any:
    mod = relax.transform.BindParams("main", given)(from_source(text))
    with heddle.config.limits(**limits):
        return FoldConstant()(mod)


def constant_bytes(mod: Any) -> int:
    found = {id(node.data): node.data for node in walk(mod["main"]) if isinstance(node, Constant)}
    return sum(data.numpy().nbytes for data in found.values())


def program(steps: list[str], **shapes: Any) -> str:
    """Bindings y0, y1, ...; the last is the result."""
    params = ", ".join(f'{name}: R.Tensor({shape}, "float32")' for name, shape in shapes.items())
    lines = "".join(f"            y{k} = {step}\n" for k, step in enumerate(steps))
    last = f"y{len(steps) - 1}"
    return (
        "@I.ir_module\nclass Module:\n    @R.function\n"
        f"    def main({params}):\n        with R.dataflow():\n{lines}"
        f"            R.output({last})\n        return {last}\n"
    )


def test_doubling_constants_stop_growing() -> None:
    steps = ["R.concat((w, w), axis=0)", *(f"R.concat((y{k}, y{k}), axis=0)" for k in range(30))]
    text = program(steps, w=(1 << 14,))
    w = np.ones(1 << 14, np.float32)
    assert constant_bytes(folded(text, {"w": w}, fold_growth_bytes=1 << 20)) <= (1 << 20) + w.nbytes
    assert constant_bytes(folded(text, {"w": w})) <= Limits().fold_growth_bytes + w.nbytes


def test_constants_filled_with_one_value_share_a_budget() -> None:
    steps = [f"R.full((1000, {k + 1}), R.const(1.5, 'float32'))" for k in range(4)]
    steps.append("R.concat((y0, y1, y2, y3), axis=1)")
    mod = folded(program(steps), {}, fold_bytes=13_000)
    assert constant_bytes(mod) <= 13_000 + 4 * 4


WORK = [
    ("R.matmul(a, b)", (300, 300), (300, 300)),
    ("R.linear(a, b)", (300, 300), (300, 300)),
    ("R.einsum((a, b), subscripts='ij,jk->ik')", (300, 300), (300, 300)),
    ("R.einsum((a, b), subscripts='i,j->')", (5000,), (5000,)),
    ("R.nn.conv2d(a, b, padding=(1, 1))", (1, 64, 40, 40), (64, 64, 3, 3)),
    ("R.nn.conv2d_transpose(a, b)", (1, 64, 40, 40), (64, 64, 3, 3)),
    ("R.nn.attention(a, b, b)", (1, 600, 4, 16), (1, 600, 4, 16)),
]


@pytest.mark.parametrize(("step", "a", "b"), WORK, ids=[row[0] for row in WORK])
def test_work_of_one_fold_is_bounded(step: str, a: Any, b: Any) -> None:
    given = {"a": np.ones(a, np.float32), "b": np.ones(b, np.float32)}
    text = program([step], a=a, b=b)
    assert _num_calls(folded(text, given)) == 0
    assert _num_calls(folded(text, given, fold_work=3_000_000)) == 1


def test_windows_of_one_fold_are_bounded() -> None:
    text = program(["R.nn.max_pool2d(a, pool_size=(50, 50))"], a=(1, 8, 100, 100))
    a = np.ones((1, 8, 100, 100), np.float32)
    assert _num_calls(folded(text, {"a": a})) == 0
    assert _num_calls(folded(text, {"a": a}, fold_work=1_000_000)) == 1


def test_work_of_all_folds_is_bounded() -> None:
    steps = ["R.matmul(a, a)", *(f"R.matmul(y{k}, a)" for k in range(5))]
    a = np.eye(50, dtype=np.float32)
    mod = folded(program(steps, a=(50, 50)), {"a": a}, fold_total_work=3 * 140_000)
    assert 0 < _num_calls(mod) < 6


def test_what_is_not_folded_is_computed() -> None:
    a = np.arange(900, dtype=np.float32).reshape(30, 30) % 7
    text = program(["R.matmul(a, a)", "R.matmul(x, y0)"], x=(2, 30), a=(30, 30))
    mod = relax.transform.BindParams("main", {"a": a})(from_source(text))
    x = np.ones((2, 30), np.float32)
    with heddle.config.limits(fold_work=1):
        executable = heddle.compile(mod)
    assert np.allclose(relax.VirtualMachine(executable, heddle.cpu())["main"](x).numpy(), x @ (a @ a))


def _num_calls(mod: Any) -> int:
    return sum(type(node).__name__ == "Call" for node in walk(mod["main"]))


def test_weights_are_folded_whatever_their_size() -> None:
    """What makes nothing larger does not count: real models permute all their weights."""
    w = np.ones((64, 1 << 10), np.float32)
    mod = folded(
        program(["R.permute_dims(w, axes=[1, 0])"], w=w.shape), {"w": w}, fold_bytes=1, fold_growth_bytes=1
    )
    assert _num_calls(mod) == 0
