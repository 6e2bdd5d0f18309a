"""The zoo of networks: its halves, its files, and that those without PyTorch's exporters run."""

import numpy as np
import onnx
import onnxruntime
import pytest

import heddle
from heddle.frontend.onnx import from_onnx

pytest.importorskip("torch", reason="the zoo's modules are PyTorch's")
pytest.importorskip("benchmarks", reason="the zoo is beside the package")

from benchmarks.zoo.catalogue import NETWORKS, chosen
from benchmarks.zoo.network import Input, Network

from heddle.vm.insight.kernel_cost import METADATA_PREFIX, KernelCosts

TUNED = [
    "efficientnet",
    "regnet",
    "densenet",
    "vit",
    "swin",
    "text-detector",
    "text-recogniser",
    "detector",
    "detector-top",
    "pose",
    "video",
    "bert",
    "rotary-decoder",
    "whisper-encoder",
    "separator",
    "demucs",
    "recommender",
    "tabular",
    "graph-net",
    "state-space",
    "boosted-trees",
    "resnet18-int8",
    "mobilenet-v3-int8",
    "resnet18-fp16",
]


def test_names_are_unique_and_halves_are_fixed():
    names = [network.name for network in NETWORKS]
    assert len(names) == len(set(names)) >= 48
    assert [network.name for network in chosen([], "tuned")] == TUNED
    assert len(chosen([], "validation")) == len(names) - len(TUNED)


def test_every_free_size_has_a_value():
    for network in NETWORKS:
        free = {name for given in network.inputs.values() for name in given.free.values()}
        assert all(set(sizes) == free for sizes in network.sizes), network.name


@pytest.mark.parametrize("name", ["state-space", "boosted-trees"])
def test_networks_without_an_exporter_run(name):
    (network,) = chosen([name], "all")
    model = network.model()
    onnx.checker.check_model(model, full_check=True)
    machine = heddle.relax.VirtualMachine(heddle.compile(from_onnx(model)), heddle.cpu())
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for sizes in network.sizes:
        arrays = network.arrays(sizes)
        wanted = session.run(None, dict(zip(network.inputs, arrays, strict=True)))
        made = machine["main"](*arrays)
        made = made if isinstance(made, (list, tuple)) else [made]
        for ours, theirs in zip(made, wanted, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [network.name for network in NETWORKS])
def test_every_kernel_has_loops_by_a_rule(name):
    """What no schedule rule takes runs element by element, far from what the machine can do."""
    (network,) = chosen([name], "all")
    executable = heddle.compile(from_onnx(str(network.path())))
    costs = KernelCosts(executable.metadata)
    kernels = [
        key.removeprefix(METADATA_PREFIX) for key in executable.metadata if key.startswith(METADATA_PREFIX)
    ]
    found = {kernel: costs.of(kernel) for kernel in kernels}
    assert found and not [kernel for kernel, cost in found.items() if not cost.rule or cost.failed_rules]


def test_fixed_files_have_no_free_sizes(tmp_path, monkeypatch):
    monkeypatch.setattr(Network, "path", lambda self: tmp_path / f"{self.name}.onnx")
    network = Network("doubled", "test", {"x": Input(("batch", 3))}, ({"batch": 5},))
    node = onnx.helper.make_node("Add", ["x", "x"], ["y"])
    values = [onnx.helper.make_tensor_value_info(name, 1, ["batch", 3]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "doubled", values[:1], values[1:])
    onnx.save(onnx.helper.make_model(graph), str(network.path()))
    fixed = onnx.load(str(network.fixed_path({"batch": 5})))
    assert fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 5
