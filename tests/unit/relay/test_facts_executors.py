"""Graph and ahead-of-time executors and their files, by the numbered facts that users' programs rely on."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from heddle.contrib import graph_executor
from heddle.contrib.debugger import debug_executor
from heddle.relay.backend import Executor, Runtime
from heddle.runtime.executor import AotModule

import heddle as tvm
from heddle import relay
from heddle.runtime import load_module, tensor
from tests.unit.relay.programs import floats, program, run


def net() -> tuple[Any, dict[str, Any]]:
    """Two results: one a view of what the other is computed from."""
    x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(4, 8))
    y = relay.nn.relu(relay.nn.dense(x, w, units=4) + relay.const(floats(4)))
    body = relay.Tuple([relay.reshape(y, (8,)), relay.nn.softmax(y)])
    return tvm.IRModule.from_expr(relay.Function([x, w], body)), {"x": floats(2, 8), "w": floats(4, 8)}


def graph(mod: Any, **options: Any) -> Any:
    return graph_executor.GraphModule(relay.build(mod, **options)["default"](tvm.cpu()))


def test_7_4_what_build_gives(tmp_path: Path) -> None:
    mod, values = net()
    factory = relay.build(mod, "llvm", params={"w": values["w"]}, mod_name="net")
    text, lib, params = factory
    assert text == factory.get_graph_json() and lib is factory.get_lib()
    assert params.keys() == factory.get_params().keys() and factory.get_executor_config() == text
    wanted = run(mod, values["x"], values["w"])
    factory.export_library(tmp_path / "net.so")
    for made in (factory, load_module(tmp_path / "net.so")):
        module = graph_executor.GraphModule(made["net"](tvm.cpu()))
        module.run(x=values["x"])
        np.testing.assert_allclose(module.get_output(1).numpy(), wanted[1], rtol=1e-5, atol=1e-5)
        assert made["get_graph_json"]() == text and made["get_graph_params"]().keys() == params.keys()
    assert not factory["remove_params"]().get_params()
    debug = debug_executor.GraphModuleDebug(factory["debug_create"]("net", tvm.cpu()))
    debug.run(x=values["x"])
    np.testing.assert_allclose(debug.get_output(1).numpy(), wanted[1], rtol=1e-5, atol=1e-5)


def test_7_4_a_function_is_built_with_a_warning() -> None:
    x = relay.var("x", shape=(2,))
    with pytest.warns(DeprecationWarning, match="IRModule"):
        factory = relay.build(relay.Function([x], x + x))
    module = graph_executor.GraphModule(factory["default"](tvm.cpu()))
    value = floats(2)
    module.run(x=value)
    np.testing.assert_array_equal(module.get_output(0).numpy(), value + value)


@pytest.mark.parametrize(
    ("executor", "runtime"),
    [
        (Executor("graph", {"link-params": True}), Runtime("cpp")),
        (Executor("graph", {"link-params": False}), Runtime("crt", {"system-lib": False})),
        (Executor("aot"), Runtime("crt")),
        (Executor("aot", {"link-params": True, "unpacked-api": False}), Runtime("cpp")),
        (Executor("aot", {"interface-api": "packed", "workspace-byte-alignment": 16}), Runtime("cpp")),
        (Executor("aot", {"constant-byte-alignment": 64}), Runtime("cpp")),
    ],
    ids=str,
)
def test_7_4_options(executor: Executor, runtime: Runtime) -> None:
    mod, values = net()
    factory = relay.build(mod, executor=executor, runtime=runtime, params={"w": values["w"]})
    made = AotModule if executor.name == "aot" else graph_executor.GraphModule
    module = made(factory["default"](tvm.cpu()))
    module.run(x=values["x"])
    wanted = run(mod, values["x"], values["w"])
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("aot", {"unpacked-api": True}),
        ("aot", {"interface-api": "c"}),
        ("aot", {"workspace-byte-alignment": 128}),
        ("aot", {"workspace-byte-alignment": 0}),
        ("aot", {"constant-byte-alignment": 24}),
        ("aot", {"link-params": False}),
        ("cpp", {"system-lib": True}),
        ("crt", {"system-lib": True}),
    ],
)
def test_7_4_options_that_would_change_what_is_built_are_refused(kind: str, options: Any) -> None:
    """Each names the option, wherever it is built."""
    mod, _ = net()
    chosen: Any = (
        {"executor": Executor(kind, options)} if kind == "aot" else {"runtime": Runtime(kind, options)}
    )
    for build in (relay.build, relay.BuildModule().build):
        with pytest.raises(ValueError, match=f"D0103.*{next(iter(options))}"):
            build(mod, **chosen)


def test_7_5_a_graph_module() -> None:
    mod, values = net()
    module = graph(mod, params={"w": values["w"]})
    given = values["x"].copy()
    module.set_input("x", given)
    given[:] = 7  # a copy was taken
    module.set_input(nobody=given)
    with pytest.raises(RuntimeError):
        module.set_input("nobody", given)
    np.testing.assert_array_equal(module.get_input("x").numpy(), values["x"])
    np.testing.assert_array_equal(module.get_input(0).numpy(), values["x"])
    module["run"]()
    wanted = run(mod, values["x"], values["w"])
    assert (module.get_num_outputs(), module.get_input_index("nobody")) == (2, -1)
    assert module.get_num_inputs() >= 2 and module.get_input_info() == ({"x": (2, 8)}, {"x": "float32"})
    out = tensor(np.zeros(8, "float32"))
    np.testing.assert_allclose(module.get_output(0, out).numpy(), wanted[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(out.numpy(), module.get_output(0).numpy())
    mine = tensor(floats(2, 8))
    module.set_input_zero_copy("x", mine)
    module.run()
    np.testing.assert_allclose(
        module.get_output(1).numpy(), run(mod, mine.numpy(), values["w"])[1], rtol=1e-5
    )
    into = tensor(np.zeros((2, 4), "float32"))
    module.set_output_zero_copy(1, into)
    module.run()
    np.testing.assert_array_equal(into.numpy(), module.get_output(1).numpy())
    assert len(module.benchmark(tvm.cpu(), "run", repeat=2, number=1).results) == 2


def test_7_5_parameters_are_loaded_and_shared() -> None:
    mod, values = net()
    factory = relay.build(mod, params={"w": values["w"]})
    blob = relay.save_param_dict(factory.get_params())
    bare = factory["remove_params"]()
    one, two = (graph_executor.GraphModule(bare["default"](tvm.cpu())) for _ in range(2))
    one.load_params(blob)
    two.share_params(one, blob)
    for module in (one, two):
        module.run(x=values["x"])
        wanted = run(mod, values["x"], values["w"])
        np.testing.assert_allclose(module.get_output(0).numpy(), wanted[0], rtol=1e-5, atol=1e-5)


def test_7_7_what_a_graph_says_of_its_values() -> None:
    mod, values = net()
    data = json.loads(relay.build(mod, params={"w": values["w"]}).get_graph_json())
    assert data.keys() >= {"nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"}
    attrs = {key: value for key, value in data["attrs"].items() if key != "storage_scope"}
    kinds = {
        "shape": "list_shape",
        "dltype": "list_str",
        "storage_id": "list_int",
        "device_index": "list_int",
    }
    assert {key: attrs[key][0] for key in kinds if key in attrs} == {k: kinds[k] for k in kinds if k in attrs}
    assert {"shape", "dltype", "storage_id"} <= attrs.keys() and "storage_scope" not in data["attrs"]
    rows = data["node_row_ptr"]
    assert rows[0] == 0 and rows == sorted(rows) and len(rows) == len(data["nodes"]) + 1
    for key in attrs:
        assert len(attrs[key][1]) == rows[-1]
    if "device_index" in attrs:
        assert set(attrs["device_index"][1]) == {1}
    names = [data["nodes"][number]["name"] for number in data["arg_nodes"]]
    assert names == ["x", *(f"p{k}" for k in range(len(names) - 1))]
    assert all(set(node) >= {"op", "name", "inputs"} for node in data["nodes"])
    for node in data["nodes"]:
        if node["op"] == "tvm_op":
            assert all(isinstance(value, str) for value in node["attrs"].values())
            assert {"func_name", "num_outputs", "num_inputs", "flatten_data"} <= node["attrs"].keys()


def test_7_7_storage_is_used_again() -> None:
    x = relay.var("x", shape=(64,))
    y: Any = x
    for _ in range(6):
        y = relay.cumsum(y)
    data = json.loads(relay.build(tvm.IRModule.from_expr(relay.Function([x], y))).get_graph_json())
    storages = data["attrs"]["storage_id"][1]
    assert len(set(storages)) < len(storages)


def test_7_8_the_debug_executor(tmp_path: Path) -> None:
    mod, values = net()
    factory = relay.build(mod)
    made = debug_executor.create(factory.get_graph_json(), factory.get_lib(), tvm.cpu(), str(tmp_path))
    made.set_input(**values, **factory.get_params())
    made.run()
    wanted = run(mod, *values.values())
    np.testing.assert_allclose(made.get_output(1).numpy(), wanted[1], rtol=1e-5, atol=1e-5)
    nodes = json.loads(factory.get_graph_json())["nodes"]
    times = made.run_individual(2, 1)
    assert len(times) == len(nodes)
    last = max(number for number, node in enumerate(nodes) if node["op"] == "tvm_op")
    assert min(made.run_individual_node(last, number=1, repeat=2).results) >= 0
    out = tensor(np.zeros((2, 4), "float32"))
    softmax = next(node["name"] for node in nodes if "softmax" in node["name"])
    made.debug_get_output(softmax, out)
    np.testing.assert_allclose(out.numpy(), wanted[1], rtol=1e-5, atol=1e-5)
    assert "softmax" in str(made.profile(**values))
    made.exit()


def test_7_10_the_file_of_parameters() -> None:
    """Written by the description alone, and read; what is written has the described bytes."""
    arrays = {"a": floats(2, 3), "b\u00e9": np.arange(5, dtype="int16"), "c": np.array(2.5, "float64")}
    names = b"".join(struct.pack("<Q", len(key.encode())) + key.encode() for key in arrays)
    wanted = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(arrays)) + names + struct.pack("<Q", len(arrays))
    codes = {"f": 2, "i": 0}
    for array in arrays.values():
        code, bits = codes[array.dtype.kind], array.dtype.itemsize * 8
        wanted += struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim, code, bits, 1)
        wanted += struct.pack(f"<{array.ndim}q", *array.shape) + struct.pack("<q", array.nbytes)
        wanted += array.tobytes()
    assert bytes(relay.save_param_dict({key: tensor(value) for key, value in arrays.items()})) == wanted
    found = relay.load_param_dict(bytearray(wanted))
    assert isinstance(found, dict) and [*found] == [*arrays]
    for key, array in arrays.items():
        np.testing.assert_array_equal(found[key].numpy(), array)
        assert str(found[key].dtype) == str(array.dtype)
    with pytest.raises(ValueError, match="Invalid parameters file format"):
        relay.load_param_dict(b"\1" + wanted[1:])


def test_7_9_the_functions_of_an_ahead_of_time_module() -> None:
    mod, values = net()
    factory = relay.build(mod, executor=Executor("aot"), params={"w": values["w"]}, mod_name="net")
    module = AotModule(factory["net"](tvm.cpu()))
    module.set_input("x", values["x"])
    module.run()
    np.testing.assert_allclose(
        module.get_output(1).numpy(), run(mod, values["x"], values["w"])[1], rtol=1e-5, atol=1e-5
    )


def test_7_4_a_program_of_text_is_built_like_one_of_python() -> None:
    mod = program("def @main(%x: Tensor[(3), float32]) { tanh(%x) }")
    module, value = graph(mod), floats(3)
    module.run(x=value)
    np.testing.assert_allclose(module.get_output(0).numpy(), np.tanh(value), rtol=1e-5, atol=1e-5)
