"""The graph executor, the ahead-of-time executor, and `relay.build`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from heddle.contrib import graph_executor
from heddle.contrib.debugger import debug_executor
from heddle.relay.backend import Executor, Runtime
from heddle.runtime.executor import AotModule

import heddle
from heddle import relay, runtime
from heddle.driver.pipeline import OptionError
from heddle.runtime import tensor
from heddle.support.diagnostics import FormatError, HeddleError, Trap, TrapIndexError, UsageError
from heddle.vm.graph import graph_from_json
from tests.unit.relay.corpus import ROWS, parsed, same
from tests.unit.relay.programs import floats, plain, program, run

NET = """def @main(
  %x: Tensor[(2, 3, 5, 7), float32], %w: Tensor[(4, 3, 3, 3), float32], %b: Tensor[(4), float32]
) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1]);
  %1 = nn.relu(nn.bias_add(%0, %b));
  %2 = nn.softmax(%1);
  %3 = nn.batch_flatten(%2);
  (%3, reshape(%3, newshape=[-1]), sum(%2, axis=[1]), %x)
}"""


def net() -> tuple[Any, dict[str, Any]]:
    return program(NET), {"x": floats(2, 3, 5, 7), "w": floats(4, 3, 3, 3), "b": floats(4)}


def graph(mod: Any, **options: Any) -> graph_executor.GraphModule:
    return graph_executor.GraphModule(relay.build(mod, **options)["default"](heddle.cpu()))


def outputs(module: Any) -> tuple[Any, ...]:
    return tuple(module.get_output(index).numpy() for index in range(module.get_num_outputs()))


def flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (tuple, list)) else [value]


def attempt(make: Any) -> tuple[Any, str]:
    """What a call gives, or the code of its error."""
    try:
        return make(), ""
    except HeddleError as error:
        return None, error.code


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_programs_of_the_corpus_agree_or_are_refused_with_a_code(kind: str, name: str) -> None:
    mod = parsed(name)
    make, reference = ROWS[name]
    args = make()
    found, code = attempt(lambda: relay.create_executor(kind, mod).evaluate()(*args))
    assert code in ("", "V0801", "L0304")
    if not code:
        same(tuple(plain(each) for each in flat(found)), tuple(flat(reference(*args))))


def test_static_programs_of_the_corpus_become_graphs() -> None:
    codes: list[str] = []
    for name in ROWS:
        codes.append(attempt(lambda name=name: relay.build(parsed(name)))[1])
        if codes.count("") == 8:
            break
    assert set(codes) <= {"", "V0801", "L0304"} and codes.count("") == 8


@pytest.mark.parametrize("bound", [(), ("w",), ("w", "b"), ("x", "w", "b")])
def test_a_graph_gives_what_the_interpreter_gives(bound: tuple[str, ...]) -> None:
    mod, values = net()
    module = graph(mod, params={name: values[name] for name in bound})
    module.run(**{name: value for name, value in values.items() if name not in bound})
    for found, wanted in zip(outputs(module), run(mod, *values.values()), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7, 0, 3), (31,)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_sizes_and_dtypes(shape: tuple[int, ...], dtype: str) -> None:
    x = relay.var("x", shape=shape, dtype=dtype)
    mod = heddle.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.copy(x), relay.logical_not(x)])))
    mod = mod if dtype == "bool" else heddle.IRModule.from_expr(relay.Function([x], x + x))
    value = np.random.default_rng().integers(0, 2, shape).astype(dtype)
    module = graph(mod)
    module.run(x=value)
    wanted = (value, ~value) if dtype == "bool" else (value + value,)
    for found, each in zip(outputs(module), wanted, strict=True):
        assert found.dtype == each.dtype and found.shape == shape
        np.testing.assert_array_equal(found, each)


def test_memory_is_planned_once_and_reused() -> None:
    x = relay.var("x", shape=(64, 64))
    y = x
    for _ in range(6):
        y = relay.cumsum(relay.nn.softmax(y), axis=0)
    factory = relay.build(heddle.IRModule.from_expr(relay.Function([x], y)))
    kernels = [node for node in factory.graph.nodes if not node.is_input]
    storages = {entry.storage for entry in factory.graph.entries}
    assert len(kernels) >= 6 and len(storages) <= 4
    module = graph_executor.GraphModule(factory["default"](heddle.cpu()))
    value = floats(64, 64)
    module.run(x=value)
    first, before = module.get_output(0), module.get_output(0).numpy().copy()
    module.run(x=value)
    assert module.get_output(0).same_as(first)
    np.testing.assert_array_equal(module.get_output(0).numpy(), before)


def test_the_text_of_a_graph_is_that_of_tvm() -> None:
    mod, values = net()
    factory = relay.build(mod, params={"w": values["w"]})
    text, lib, params = factory
    data = json.loads(text)
    names = [node["name"] for node in data["nodes"]]
    assert [names[number] for number in data["arg_nodes"]] == ["x", "b", *params]
    assert all(isinstance(value, str) for node in data["nodes"] for value in node.get("attrs", {}).values())
    assert data["attrs"]["shape"][0] == "list_shape" and data["attrs"]["dltype"][0] == "list_str"
    assert data["node_row_ptr"][-1] == len(data["attrs"]["storage_id"][1])
    nops = [node for node in data["nodes"] if node.get("attrs", {}).get("func_name") == "__nop"]
    storages = data["attrs"]["storage_id"][1]
    for node in nops:
        mine = data["node_row_ptr"][names.index(node["name"])]
        source = data["node_row_ptr"][node["inputs"][0][0]] + node["inputs"][0][1]
        assert storages[mine] == storages[source]
    assert nops
    assert graph_from_json(text) == factory.graph
    module = graph_executor.create(text, lib, heddle.cpu())
    module.set_input(**params)
    module.run(x=values["x"], b=values["b"])
    np.testing.assert_allclose(module.get_output(0).numpy(), run(mod, *values.values())[0], rtol=1e-4)


def _altered(text: str, change: Any) -> str:
    data = json.loads(text)
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["nodes"].pop(),
        lambda d: d["heads"].append([99, 0, 0]),
        lambda d: d["heads"].append([0, 3, 0]),
        lambda d: d["nodes"][-1]["inputs"].append([len(d["nodes"]), 0, 0]),
        lambda d: d["attrs"]["shape"][1][0].append(-1),
        lambda d: d["attrs"]["dltype"][1].__setitem__(0, "float31"),
        lambda d: d["attrs"].pop("storage_id"),
        lambda d: d["node_row_ptr"].__setitem__(-1, 5),
        lambda d: d["nodes"][-1]["attrs"].__setitem__("func_name", ""),
        lambda d: d["nodes"][-1]["attrs"].__setitem__("num_outputs", "-1"),
        lambda d: d["nodes"][0].__setitem__("op", "other"),
        lambda d: d["attrs"]["storage_id"][1].__setitem__(-1, 77),
    ],
)
def test_malformed_graphs_are_refused(change: Any) -> None:
    x = relay.var("x", shape=(4, 6))
    y = relay.reshape(relay.nn.softmax(x), (-1,))
    text = relay.build(heddle.IRModule.from_expr(relay.Function([x], y))).get_graph_json()
    with pytest.raises(FormatError) as caught:
        graph_from_json(_altered(text, change))
    assert caught.value.code == "V0802"


def test_inputs_by_name_and_number() -> None:
    mod, values = net()
    module = graph(mod, params={"w": values["w"]})
    count = module.get_num_inputs()
    assert module.get_input_index("x") == 0 and module.get_input_index("nothing") == -1
    assert module.get_input_info() == (
        {"x": (2, 3, 5, 7), "b": (4,)},
        {"x": "float32", "b": "float32"},
    )
    module.set_input(0, values["x"])
    module.set_input("b", values["b"], nothing=values["b"])
    np.testing.assert_array_equal(module.get_input("x").numpy(), values["x"])
    np.testing.assert_array_equal(module.get_input(1).numpy(), values["b"])
    with pytest.raises(RuntimeError, match="V0803"):
        module.set_input("nothing", values["b"])
    with pytest.raises(TrapIndexError):
        module.get_input(count)
    with pytest.raises(TrapIndexError):
        module.get_output(9)
    with pytest.raises((HeddleError, ValueError)):
        module.set_input("b", floats(5))
    module["run"]()
    assert np.isfinite(outputs(module)[0]).all()


def test_inputs_start_as_zeros_and_copies_stay_apart() -> None:
    x = relay.var("x", shape=(3,))
    module = graph(heddle.IRModule.from_expr(relay.Function([x], x + relay.const(1.0))))
    module.run()
    np.testing.assert_array_equal(outputs(module)[0], np.ones(3, "float32"))
    value = floats(3)
    module.set_input("x", value)
    kept = value.copy()
    value[:] = 0
    module.run()
    np.testing.assert_array_equal(outputs(module)[0], kept + 1)
    out = heddle.tensor(floats(3))
    assert module.get_output(0, out) is out
    np.testing.assert_array_equal(out.numpy(), kept + 1)


def test_tensors_are_read_and_written_in_place() -> None:
    x = relay.var("x", shape=(4, 6))
    view = relay.reshape(x, (2, 12))
    body = relay.Tuple([relay.nn.softmax(view), relay.tanh(x), relay.nn.relu(relay.nn.softmax(view))])
    module = graph(heddle.IRModule.from_expr(relay.Function([x], body)))
    mine, out = tensor(floats(4, 6)), tensor(floats(4, 6))
    module.set_input_zero_copy("x", mine)
    module.set_output_zero_copy(1, out)
    module.run()
    np.testing.assert_allclose(out.numpy(), np.tanh(mine.numpy()), rtol=1e-5)
    mine.copyfrom(floats(4, 6))
    module.run()
    np.testing.assert_allclose(out.numpy(), np.tanh(mine.numpy()), rtol=1e-5)
    e = np.exp(mine.numpy().reshape(2, 12))
    np.testing.assert_allclose(outputs(module)[0], e / e.sum(1, keepdims=True), rtol=1e-5)
    for wrong in (tensor(floats(6, 4)), tensor(floats(4, 6).astype("float64")), floats(4, 6)):
        with pytest.raises(UsageError, match="V0804"):
            module.set_input_zero_copy("x", wrong)


def test_a_result_that_is_an_input_has_no_memory_of_its_own() -> None:
    mod, _ = net()
    module = graph(mod)
    with pytest.raises(UsageError, match="V0804"):
        module.set_output_zero_copy(3, tensor(floats(2, 3, 5, 7)))


def test_parameters_are_loaded_and_shared() -> None:
    mod, values = net()
    factory = relay.build(mod, params={"w": values["w"], "b": values["b"]})
    data = relay.save_param_dict(factory.get_params())
    bare = factory["remove_params"]()
    assert not bare.get_params() and factory["get_graph_params"]().keys() == factory.get_params().keys()
    one, two = (graph_executor.GraphModule(bare["default"](heddle.cpu())) for _ in range(2))
    one.load_params(data)
    two.share_params(one, data)
    wanted = run(mod, *values.values())
    for module in (one, two):
        module.run(x=values["x"])
        np.testing.assert_allclose(outputs(module)[0], wanted[0], rtol=1e-4)
    name = next(iter(factory.get_params()))
    assert one.get_input(name).same_as(two.get_input(name))
    with pytest.raises(FormatError, match="Invalid parameters file format"):
        one.load_params(b"\0" * 32)
    linked = relay.build(mod, params=values, executor=Executor("graph", {"link-params": True}))
    assert not linked.get_params()
    module = graph_executor.GraphModule(linked["default"](heddle.cpu()))
    module.run()
    np.testing.assert_allclose(outputs(module)[0], wanted[0], rtol=1e-4)


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_saved_and_loaded_in_a_fresh_process(kind: str, tmp_path: Path) -> None:
    mod, values = net()
    path, arrays = tmp_path / "lib.heddle", tmp_path / "values.npz"
    relay.build(mod, executor=Executor(kind), params={"w": values["w"]}, mod_name="net").export_library(path)
    np.savez(arrays, **values, wanted=run(mod, *values.values())[0])
    code = f"""
import numpy as np, heddle, sys
from heddle.contrib.graph_executor import GraphModule
from heddle.runtime.executor import AotModule
values = np.load({str(arrays)!r})
made = {"GraphModule" if kind == "graph" else "AotModule"}(
    heddle.runtime.load_module({str(path)!r})["net"](heddle.cpu()))
made.run(x=values["x"], b=values["b"])
np.testing.assert_allclose(made.get_output(0).numpy(), values["wanted"], rtol=1e-4)
assert not [name for name in sys.modules if name.startswith(("heddle.tir", "heddle.relax.", "heddle.lower"))]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_files_that_were_altered_are_refused(tmp_path: Path) -> None:
    mod, values = net()
    path = tmp_path / "lib.heddle"
    relay.build(mod, params={"w": values["w"]}).export_library(path)
    data = path.read_bytes()
    for place in np.random.default_rng().integers(0, len(data), 40):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        with pytest.raises(FormatError):
            runtime.load_module(path)


def test_aot_gives_what_the_interpreter_gives() -> None:
    mod, values = net()
    factory = relay.build(mod, executor=Executor("aot"), params={"w": values["w"]})
    module = AotModule(factory["default"](heddle.cpu()))
    assert module.get_num_inputs() == 2 and module.get_input_index("b") == 1
    assert module.get_input_info()[0] == {"x": (2, 3, 5, 7), "b": (4,)}
    module.run(x=values["x"], b=values["b"])
    for found, wanted in zip(outputs(module), run(mod, *values.values()), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(Trap, match="V0803"):
        module.set_input("w", values["w"])
    with pytest.raises(TrapIndexError):
        module.get_output(9)
    assert factory["list_module_names"]() == ["default"]


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_executors_give_nested_lists(kind: str) -> None:
    mod = program("def @main(%x: Tensor[(3), float32]) { ((%x, tanh(%x)), negative(%x)) }")
    executor = relay.create_executor(kind, mod)
    value = floats(3)
    (same, tanh), negative = executor.evaluate()(value)
    assert isinstance(executor.evaluate()(x=value), list)
    np.testing.assert_array_equal(same.numpy(), value)
    np.testing.assert_allclose(tanh.numpy(), np.tanh(value), rtol=1e-5)
    np.testing.assert_array_equal(negative.numpy(), -value)
    expr = relay.add(relay.const(floats(2, 1)), relay.const(floats(1, 2)))
    found = executor.evaluate(expr)
    np.testing.assert_array_equal(found.numpy(), expr.args[0].data.numpy() + expr.args[1].data.numpy())
    x = relay.var("x", shape=(2,))
    got = executor.evaluate(x + relay.const(1.0), binds={x: relay.const(np.ones(2, "float32"))})
    np.testing.assert_array_equal(plain(got), np.full(2, 2, "float32"))


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_unknown_sizes_and_objects_are_refused(kind: str) -> None:
    for text, shape in (
        ("def @main(%x: Tensor[(?, 3), float32]) { tanh(%x) }", (4, 3)),
        ("def @main(%x: Tensor[(4), float32]) { fn (%y: float32) { %y } }", (4,)),
        ("type T { A(float32) } def @main(%x: float32) { A(%x) }", ()),
    ):
        with pytest.raises(ValueError, match="V0801") as caught:
            relay.create_executor(kind, program(text)).evaluate()(np.zeros(shape, "float32"))
        assert isinstance(caught.value, HeddleError)


@pytest.mark.parametrize(
    "text",
    [
        "def @main(%c: bool, %x: float32) { if (%c) { %x + 1f } else { %x * 2f } }",
        "def @f(%n: int32) -> int32 { if (%n == 0) { 1 } else { @f(%n - 1) } } "
        "def @main(%n: int32) { @f(%n) }",
        "type L { E, C(float32, L) } def @main(%x: float32) { match (C(%x, E)) { C(%y, _) => %y, E => 0f } }",
    ],
)
def test_control_flow_is_no_graph(text: str) -> None:
    with pytest.raises(UsageError, match="V0801"):
        relay.build(program(text))


def test_calls_of_functions_are_followed() -> None:
    mod = program(
        "def @twice(%x: Tensor[(3), float32]) -> Tensor[(3), float32] { cumsum(%x, axis=0) * 2f } "
        "def @main(%x: Tensor[(3), float32]) { (@twice(@twice(%x)), @twice(%x)) }"
    )
    value = floats(3)
    module = graph(mod)
    module.run(x=value)
    for found, wanted in zip(outputs(module), run(mod, value), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_debug_executor_looks_into_a_graph(tmp_path: Path) -> None:
    mod, values = net()
    factory = relay.build(mod, params={"w": values["w"]})
    module = debug_executor.create(factory.get_graph_json(), factory.get_lib(), heddle.cpu(), str(tmp_path))
    module.set_input(**factory.get_params())
    module.run(x=values["x"], b=values["b"])
    nodes = factory.graph.nodes
    folder = next(tmp_path.iterdir())
    assert json.loads((folder / "graph.json").read_text())["nodes"]
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(module.module.steps)
    times = module.run_individual(number=2, repeat=1)
    assert [each > 0 for each in times] == [number in module.module.steps for number in range(len(nodes))]
    last = max(module.module.steps)
    assert module.run_individual_node(last, number=1, repeat=3).results[2] > 0
    report = module.profile(x=values["x"])
    assert [row.places[0] for row in report.calls] == [nodes[number].name for number in module.module.steps]
    assert report.dispatch_ns >= 0
    final = nodes[last].name
    np.testing.assert_array_equal(
        module.debug_get_output(final).numpy(), module.debug_get_output(last).numpy()
    )
    with pytest.raises(HeddleError, match="V0803"):
        module.debug_get_output("nothing")
    wanted = run(mod, *values.values())
    np.testing.assert_allclose(outputs(module)[0], wanted[0], rtol=1e-4)
    module.exit()
    assert not folder.exists()
    made = debug_executor.GraphModuleDebug(factory["debug_create"]("default", heddle.cpu()))
    made.run(x=values["x"], b=values["b"])
    np.testing.assert_allclose(outputs(made)[0], wanted[0], rtol=1e-4)


def test_a_kernel_that_fails_names_its_node() -> None:
    x = relay.var("x", shape=(4,))
    factory = relay.build(heddle.IRModule.from_expr(relay.Function([x], relay.cumsum(x))))
    text = _altered(
        factory.get_graph_json(), lambda d: [shape.__setitem__(0, 3) for shape in d["attrs"]["shape"][1]]
    )
    with pytest.raises(Trap, match="in node"):
        graph_executor.create(text, factory.get_lib(), heddle.cpu()).run()


def test_a_kernel_that_nobody_has_is_refused() -> None:
    x = relay.var("x", shape=(4,))
    factory = relay.build(heddle.IRModule.from_expr(relay.Function([x], relay.tanh(x))))
    name = factory.graph.nodes[-1].function
    text = factory.get_graph_json().replace(f'"func_name": "{name}"', '"func_name": "no_such_kernel"')
    with pytest.raises(HeddleError, match="V0301"):
        graph_executor.create(text, factory.get_lib(), heddle.cpu())


def test_functions_of_python_stand_between_kernels() -> None:
    x = relay.var("x", shape=(4,))
    factory = relay.build(heddle.IRModule.from_expr(relay.Function([x], relay.cumsum(relay.tanh(x)))))
    first = next(node for node in factory.graph.nodes if not node.is_input)
    text = factory.get_graph_json().replace(
        f'"func_name": "{first.function}"', '"func_name": "test.graph.twice"'
    )

    @heddle.register_global_func("test.graph.twice", override=True)
    def twice(source: Any, result: Any) -> None:
        result.copyfrom(source.numpy() * 2)

    module = graph_executor.create(text, factory.get_lib(), heddle.cpu())
    value = floats(4)
    module.run(x=value)
    np.testing.assert_allclose(outputs(module)[0], np.cumsum(value * 2), rtol=1e-5)


def test_build_module_keeps_what_it_built() -> None:
    mod, values = net()
    made = relay.BuildModule()
    text, lib, params = made.build(mod, params={"w": values["w"]})
    assert json.loads(text) and lib is made.get_module() and params.keys() == made.get_params().keys()
    assert made.get_irmodule() is mod and made.get_devices() == ["cpu"]
    assert [spec.name for spec in made.get_executor_codegen_metadata().inputs] == ["x", "b"]
    assert any(key.startswith("kernel.") for key in made.get_function_metadata())
    optimised, kept = relay.optimize(mod, params={"b": values["b"]})
    assert kept.keys() == {"b"} and len(optimised["main"].params) == 2


def test_options_are_checked() -> None:
    assert Executor("graph", {"link-params": True})["link-params"] is True
    assert Executor("aot") == Executor("aot") and Executor("aot") != Executor("graph")
    assert Runtime("crt", {"system-lib": True}).name == "crt" and "system-lib" not in Runtime("cpp")
    for make in (
        lambda: Executor("vm"),
        lambda: Executor("graph", {"link_params": True}),
        lambda: Executor("graph", {"link-params": 1}),
        lambda: Runtime("c++"),
        lambda: relay.build(net()[0], executor="other"),
        lambda: relay.build(net()[0], workspace_memory_pools=object()),
    ):
        with pytest.raises(OptionError, match="D0103"):
            make()
    x = relay.var("x", shape=(2,))
    with pytest.warns(DeprecationWarning, match="IRModule"):
        relay.build(relay.Function([x], x + x))


def test_benchmark_times_runs() -> None:
    mod, values = net()
    module = graph(mod)
    found = module.benchmark(heddle.cpu(), repeat=2, number=1, **values)
    assert len(module.benchmark(heddle.cpu(), "run", 3, 1, **values).results) == 3  # in TVM's order, by place
    assert len(found.results) == 2 and found.min > 0
    assert module.benchmark(heddle.cpu(), repeat=1, number=1, end_to_end=True, **values).mean > 0


@pytest.mark.parametrize(
    "call",
    [
        'shape_of(%x, dtype="int64")',
        "ndarray_size(%x)",
        "vm.shape_of(%x)",
        "image.crop_and_resize(%x, %b, %i, crop_size=[2, 3])",
    ],
)
@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_known_sizes_are_constants_of_a_graph(call: str, kind: str) -> None:
    rng = np.random.default_rng(3)
    params = "%x: Tensor[(2, 3, 8, 9), float32], %b: Tensor[(3, 4), float32], %i: Tensor[(3), int32]"
    mod = program(f"def @main({params}) {{ {call} }}")
    args = [
        rng.standard_normal((2, 3, 8, 9)).astype("float32"),
        rng.uniform(0, 1, (3, 4)).astype("float32"),
        np.array([0, 1, 1], "int32"),
    ]
    wanted = run(mod, *args)
    found = relay.create_executor(kind, mod).evaluate()(*args)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "value", "said"),
    [
        ("float32", np.zeros((5, 3), "float32"), "expected (2, 3) of float32, got (5, 3) of float32"),
        ("float32", np.zeros((2, 3), "int8"), "expected (2, 3) of float32, got (2, 3) of int8"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(dtype: str, value: Any, said: str) -> None:
    x = relay.var("x", shape=(2, 3), dtype=dtype)
    mod = heddle.IRModule.from_expr(relay.Function([x], relay.add(x, x)))
    for build in (relay.build, relay.vm.compile, relay.optimize):
        with pytest.raises(TypeError, match="Q0402") as caught:
            build(mod, "llvm", params={"x": value})
        assert f"parameter 'x': {said}" in str(caught.value)


@pytest.mark.parametrize("dtype", ["int64", "float64", "float16", "bool", "float32"])
def test_parameters_keep_their_dtypes(dtype: str) -> None:
    x = relay.var("x", shape=(2,), dtype=dtype)
    func = relay.Function([x], x)
    for value in (np.ones(2, dtype), heddle.runtime.tensor(np.ones(2, dtype))):
        assert relay.build_module.bind_params_by_name(func, {"x": value}).body.data.dtype == dtype
    y = relay.var("y", shape=(), dtype=dtype)
    assert relay.build_module.bind_params_by_name(relay.Function([y], y), {"y": 1}).body.data.dtype == dtype
