"""Faults that are planted into passes, kernels and the importer are found where they were planted."""

import json
import zipfile
from importlib import import_module

import numpy as np
import pytest

import heddle
from heddle.driver.bisect.bisect import BisectOptions, Finding, bisect
from heddle.driver.bisect.bundle import replay, write_bundle
from heddle.driver.bisect.case import Case, Setup
from heddle.driver.bisect.stages import CODE, IMPORT, MACHINE
from heddle.driver.cli.app import run_app
from heddle.driver.targets import as_target
from heddle.ir.node import replace
from heddle.ir.visitor import Rewriter, walk
from heddle.prim.ops import const
from heddle.relax.transform.normalize import Normalize
from heddle.support.diagnostics import FormatError, UsageError
from heddle.tir.nodes import BufferStore, PrimFunc

onnx = pytest.importorskip("onnx", reason="models are ONNX models")
from heddle.frontend.onnx import from_onnx  # noqa: E402  (it needs the package onnx)

pytest.importorskip("onnxruntime", reason="the engine that is right")
helper = onnx.helper


def network(path):
    """Two convolutions, a sum, a matrix product and a softmax; 13 nodes."""
    rng = np.random.default_rng(7)
    weights = {
        "w1": rng.standard_normal((16, 3, 3, 3)) / 5,
        "w2": rng.standard_normal((16, 16, 3, 3)) / 12,
        "scale": rng.random(16) + 0.5,
        "shift": rng.standard_normal(16),
        "mean": rng.standard_normal(16) / 9,
        "var": rng.random(16) + 0.5,
        "fc": rng.standard_normal((16, 10)) / 4,
        "bias": rng.standard_normal(10),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["n1"]),
        helper.make_node("Relu", ["n1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c2"], ["s2"]),
        helper.make_node("Mul", ["c2", "s2"], ["m2"]),
        helper.make_node("Add", ["m2", "p1"], ["a2"]),
        helper.make_node("GlobalAveragePool", ["a2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "fc"], ["mm"]),
        helper.make_node("Add", ["mm", "bias"], ["ab"]),
        helper.make_node("Softmax", ["ab"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, 4, 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 10])],
        [onnx.numpy_helper.from_array(value.astype("float32"), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return network(tmp_path_factory.mktemp("models") / "network.onnx")


OPTIONS = BisectOptions(dims={"n": 2}, seed=3)


class _Altered(Rewriter):
    """The last store of a float becomes that of something else."""

    def __init__(self, store):
        self.store = store

    def visit_BufferStore(self, node):
        if node is not self.store:
            return node
        return replace(node, value=node.value * const(1.5, node.value.dtype))


def altered(func):
    """A loop function with a fault in it; itself where there is nothing to alter."""
    if not isinstance(func, PrimFunc):
        return func
    given = {buffer.data for buffer in func.buffers}
    stores = [node for node in walk(func.body) if isinstance(node, BufferStore) and node.buffer.data in given]
    return func if not stores else func.with_body(_Altered(stores[-1]).visit(func.body))


def plant_in_loops(monkeypatch, module, name, wanted):
    """The pass makes a wrong loop function of each whose name holds `wanted`."""
    cls = getattr(import_module(module), name)
    right = cls.transform

    def transform(self, mod, ctx):
        made = right(self, mod, ctx)
        return made.with_functions(
            {
                var: altered(func) if wanted in _name(var, func) else func
                for var, func in made.functions.items()
            }
        )

    monkeypatch.setattr(cls, "transform", transform)


def _name(var, func):
    return str(func.attrs.get("global_symbol") or var.name_hint) if isinstance(func, PrimFunc) else ""


class _OtherOperator(Rewriter):
    def visit_Call(self, node):
        from heddle import relax

        made = self.default(node)
        is_relu = getattr(node.op, "name", "") in ("nn.relu", "relax.nn.relu")
        return relax.op.nn.relu(relax.op.tanh(made.args[0])) if is_relu else made


def plant_in_graph(monkeypatch, module, name):
    """The pass puts another operator before each relu."""
    cls = getattr(import_module(module), name)
    right = cls.transform

    def transform(self, mod, ctx):
        made = right(self, mod, ctx)
        return Normalize()(
            made.with_functions({var: _OtherOperator().visit(func) for var, func in made.functions.items()})
        )

    monkeypatch.setattr(cls, "transform", transform)


LOOP_FAULTS = [
    ("heddle.lower.legalize_ops", "LegalizeOps", "softmax"),
    ("heddle.lower.legalize_ops", "LegalizeOps", "sigmoid"),
    ("heddle.lower.fuse_tir", "FuseTIR", "conv2d"),
    ("heddle.lower.fuse_tir", "FuseTIR", "matmul"),
    ("heddle.lower.convert_layout", "ConvertToBlockedLayout", "conv2d"),
    ("heddle.lower.name_sizes", "NameSizes", "matmul"),
    ("heddle.lower.estimate_kernel_cost", "EstimateKernelCost", "softmax"),
    ("heddle.lower.convert_winograd", "ConvertToWinograd", "matmul"),
    ("heddle.lower.pack_weights", "PackWeights", "conv2d"),
    ("heddle.lower.default_schedule", "ApplyDefaultSchedule", "softmax"),
    ("heddle.lower.default_schedule", "ApplyDefaultSchedule", "conv2d"),
    ("heddle.lower.share_kernels", "ShareKernels", "matmul"),
]


@pytest.mark.parametrize(("module", "name", "kernel"), LOOP_FAULTS)
def test_a_wrong_loop_function(monkeypatch, model, module, name, kernel):
    plant_in_loops(monkeypatch, module, name, kernel)
    found = bisect(model, OPTIONS)
    assert found.stage.name == name, found.text()
    assert kernel in found.stage.kernel
    assert len(found.nodes) <= 3, found.nodes


CODE_FAULTS = [
    ("heddle.tir.transform.simplify", "Simplify"),
    ("heddle.tir.transform.run_in_lanes", "RunInLanes"),
    ("heddle.tir.transform.hoist_divisions", "HoistDivisions"),
    ("heddle.tir.transform.storage_rewrite", "StorageRewrite"),
    ("heddle.tir.transform.remove_no_op", "RemoveNoOp"),
]


@pytest.mark.parametrize(("module", "name"), CODE_FAULTS)
def test_a_wrong_pass_over_loops(monkeypatch, model, module, name):
    plant_in_loops(monkeypatch, module, name, "")
    found = bisect(model, OPTIONS)
    assert found.stage.name == name, found.text()
    assert found.stage.kernel
    assert len(found.nodes) == 1, found.nodes


GRAPH_FAULTS = [
    ("heddle.relax.transform.fold_constant", "FoldConstant"),
    ("heddle.relax.transform.sink_reshape", "SinkReshape"),
    ("heddle.relax.transform.convert_to_dataflow", "ConvertToDataflow"),
]


@pytest.mark.parametrize(("module", "name"), GRAPH_FAULTS)
def test_a_wrong_pass_over_graphs(monkeypatch, model, module, name):
    plant_in_graph(monkeypatch, module, name)
    found = bisect(model, OPTIONS)
    assert found.stage.name == name, found.text()
    assert found.nodes == ["Relu r1"]
    assert found.stage.before != found.stage.after


def test_a_wrong_operator_of_the_importer(monkeypatch, model):
    from heddle.frontend.onnx import registry

    monkeypatch.setitem(registry._CONVERTERS, ("", "Sigmoid"), registry._CONVERTERS["", "Tanh"])
    found = bisect(model, OPTIONS)
    assert found.stage.name == IMPORT
    assert found.nodes == ["Sigmoid s2"]


def test_a_wrong_plan_of_memory(monkeypatch, model):
    plant_in_loops(
        monkeypatch, "heddle.relax.transform.static_plan_block_memory", "StaticPlanBlockMemory", "softmax"
    )
    found = bisect(model, OPTIONS)
    assert found.stage.name == "StaticPlanBlockMemory", found.text()


def test_a_wrong_pass_that_is_always_needed(monkeypatch, model):
    plant_in_loops(monkeypatch, "heddle.tir.transform.flatten_buffer", "FlattenBuffer", "")
    found = bisect(model, OPTIONS)
    assert found.stage.name == "FlattenBuffer", found.text()
    assert found.stage.kernel


def test_wrong_machine_code(monkeypatch, model):
    """Behind all passes: what makes text for LLVM."""
    build = import_module("heddle.codegen.llvm.build")
    right = build.emit_module
    monkeypatch.setattr(build, "emit_module", lambda *args: right(*args).replace(" = fmul ", " = fadd "))
    found = bisect(model, OPTIONS)
    assert found.stage.name == CODE, found.text()
    assert found.stage.kernel
    assert len(found.nodes) == 1, found.nodes


def test_code_generation_that_fails(monkeypatch, model):
    """An error without a code, as a fault of the compiler raises it, is a fault like others."""
    build = import_module("heddle.codegen.llvm.build")

    def failing(*args):
        raise IndexError("no such lane")

    monkeypatch.setattr(build, "emit_module", failing)
    found = bisect(model, OPTIONS)
    assert found.fault == "IndexError: no such lane"
    assert found.stage is not None, found.text()


def _fail_in(monkeypatch, module, name, message):
    """Let a pass fail in code that lies where its own does: code that lies elsewhere is a user's."""

    def failing(self, mod, ctx):
        raise IndexError(message)

    failing.__code__ = failing.__code__.replace(co_filename=import_module(module).__file__)
    monkeypatch.setattr(getattr(import_module(module), name), "transform", failing)


def test_a_pass_over_graphs_that_fails(monkeypatch, model):
    module = "heddle.relax.transform.convert_to_dataflow"
    _fail_in(monkeypatch, module, "ConvertToDataflow", "no such block")
    found = bisect(model, OPTIONS)
    assert "pass ConvertToDataflow failed: IndexError" in found.fault
    assert found.stage.name == "ConvertToDataflow", found.text()
    assert found.stage.before


def test_a_pass_over_loops_that_fails(monkeypatch, model):
    _fail_in(monkeypatch, "heddle.tir.transform.flatten_buffer", "FlattenBuffer", "no such loop")
    found = bisect(model, OPTIONS)
    assert "pass FlattenBuffer failed: IndexError" in found.fault
    assert found.stage is not None, found.text()
    assert found.stage.kernel, found.text()


def test_a_wrong_machine(monkeypatch, model):
    machine = import_module("heddle.vm.relax").VirtualMachine
    right = machine.__getitem__
    monkeypatch.setattr(
        machine, "__getitem__", lambda self, name: lambda *args: _doubled(right(self, name)(*args))
    )
    found = bisect(model, OPTIONS)
    assert found.stage.name == MACHINE, found.text()


def _doubled(value):
    import heddle

    return heddle.tensor(value.numpy() * np.float32(2))


def test_engines_that_agree(model):
    found = bisect(model, OPTIONS)
    assert not found.fault
    assert "agree" in found.text()


def test_against_the_interpreter(monkeypatch, model):
    plant_in_loops(monkeypatch, "heddle.lower.default_schedule", "ApplyDefaultSchedule", "softmax")
    found = bisect(model, BisectOptions(against="interpreter", dims={"n": 2}))
    assert found.stage.name == "ApplyDefaultSchedule"
    assert [text.split()[0] for text in found.nodes] == ["Softmax"]


SCRIPT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            y = R.nn.softmax(R.nn.relu(x), axis=-1)
            R.output(y)
        return y
"""


def test_script_text(monkeypatch, tmp_path):
    (tmp_path / "m.py").write_text(SCRIPT)
    plant_in_loops(monkeypatch, "heddle.lower.fuse_tir", "FuseTIR", "softmax")
    found = bisect(str(tmp_path / "m.py"), BisectOptions(against="interpreter", dims={"n": 3}))
    assert found.stage.name == "FuseTIR", found.text()
    write_bundle(tmp_path / "b.zip", found)
    wrong, _ = replay(tmp_path / "b.zip")
    assert wrong
    monkeypatch.undo()
    assert replay(tmp_path / "b.zip")[0] == ""
    with pytest.raises(UsageError, match="D0402"):
        bisect(str(tmp_path / "m.py"), BisectOptions(dims={"n": 3}))


def test_the_command_line_and_its_bundle(monkeypatch, model, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_app(["bisect", model, "--dim", "n=2"]) == 0
    plant_in_loops(monkeypatch, "heddle.lower.default_schedule", "ApplyDefaultSchedule", "conv2d")
    assert run_app(["bisect", model, "--dim", "n=2"]) == 3
    shown = capsys.readouterr().out
    assert "stage: ApplyDefaultSchedule" in shown
    assert "network-bug.zip" in shown
    with zipfile.ZipFile("network-bug.zip") as file:
        assert {"report.txt", "bundle.json", "model.onnx", "before.txt", "after.txt"} <= set(file.namelist())
        assert json.loads(file.read("bundle.json"))["stage"] == "ApplyDefaultSchedule"
    assert run_app(["replay", "network-bug.zip"]) == 3
    monkeypatch.undo()
    assert run_app(["replay", str(tmp_path / "network-bug.zip")]) == 0


def test_no_bundle(tmp_path):
    for data in (b"", b"nothing", b"PK\x05\x06" + bytes(18)):
        (tmp_path / "b.zip").write_bytes(data)
        with pytest.raises(FormatError, match="D1002"):
            replay(tmp_path / "b.zip")
    with pytest.raises(UsageError, match="S0102"):
        replay(tmp_path / "other.zip")


def _bundle(model, folder):
    proto = onnx.load(model)
    array = np.ones((2, 3, 4, 4), "float32")
    case = Case(from_onnx(proto), (array,), (np.zeros((2, 10), "float32"),), Setup(as_target(None)))
    write_bundle(folder / "b.zip", Finding("differs", [], None, case, proto))
    with zipfile.ZipFile(folder / "b.zip") as file:
        return {item.filename: file.read(item) for item in file.infolist()}


def _replaced(folder, parts, **changed):
    with zipfile.ZipFile(folder / "bad.zip", "w") as file:
        for name, data in {**parts, **changed}.items():
            file.writestr(name, data)
    return folder / "bad.zip"


def test_damaged_parts_of_a_bundle(model, tmp_path):
    parts = _bundle(model, tmp_path)
    facts = json.loads(parts["bundle.json"])
    array = parts["input.0.npy"]
    wrong = {
        "bundle.json": [
            json.dumps({**facts, **bad}).encode()
            for bad in (
                *({"format": 7}, {"inputs": 10**9}, {"inputs": "x"}, {"inputs": 0}, {"heddle": None}),
                *({"fault": []}, {"function": "other"}, {"target": 3}),
            )
        ]
        + [b"[]", b"[" * 100_000, b"\xff"],
        "input.0.npy": [
            b"",
            array[:40],
            array.replace(b"}", b"#", 1),
            array.replace(b"(2, 3, 4, 4)", b"(9999999999,)"),
        ],
        "model.onnx": [b"", b"\x0a", parts["model.onnx"][:100]],
    }
    for name, texts in wrong.items():
        for data in texts:
            with pytest.raises((FormatError, UsageError), match=r"D1002|D020|N010"):
                replay(_replaced(tmp_path, parts, **{name: data}))
    assert replay(_replaced(tmp_path, parts))[0]


def test_a_bundle_has_a_budget(model, tmp_path):
    _bundle(model, tmp_path)
    with heddle.config.limits(message_bytes=1000), pytest.raises(UsageError, match="S0601"):
        replay(tmp_path / "b.zip")


def test_unknown_engine(model):
    with pytest.raises(UsageError, match="D0402"):
        bisect(model, BisectOptions(against="other"))
