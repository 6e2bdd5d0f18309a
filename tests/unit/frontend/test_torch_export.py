"""Models of PyTorch against PyTorch, by way of ONNX."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.driver import sources
from heddle.frontend import torch_export
from heddle.support.diagnostics import FormatError, MissingDependencyError, UsageError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
HAS_SCRIPT = torch_export.find_spec("onnxscript") is not None
needs_script = pytest.mark.skipif(not HAS_SCRIPT, reason="onnxscript is not installed")


class Net(torch.nn.Module):
    """Weights, a buffer, a dropout, and an argument that may be left out."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.norm.running_mean.copy_(torch.randn(4))
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x: Any, y: Any = None) -> Any:
        z = self.drop(self.norm(torch.relu(self.linear(x))))
        return z if y is None else (z, z + y)


class Branches(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1


def _arrays(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def _check(executable: Any, module: Any, *arrays: Any) -> None:
    found = relax.VirtualMachine(executable, heddle.cpu())["main"](*arrays)
    with torch.no_grad():
        want = module.eval()(*map(torch.from_numpy, arrays))
    found, want = (value if isinstance(value, tuple) else (value,) for value in (found, want))
    assert len(found) == len(want)
    for one, other in zip(found, want, strict=True):
        assert one.numpy().dtype == other.numpy().dtype
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


@pytest.fixture(params=["program", "trace"])
def exporter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both exporters: without onnxscript, the tracing one is left."""
    if request.param == "program" and not HAS_SCRIPT:
        pytest.skip("onnxscript is not installed")
    if request.param == "trace":
        without(monkeypatch, "onnxscript")
    return request.param


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    find = torch_export.find_spec
    monkeypatch.setattr(torch_export, "find_spec", lambda name: None if name == package else find(name))


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_free_sizes(exporter: str, mode: str) -> None:
    (x,) = _arrays((3, 8))
    executable = heddle.compile(
        Net(), example_inputs=torch.from_numpy(x), dynamic_shapes={"x": {0: "n"}}, exec_mode=mode
    )
    for rows in (1, 7, 64):
        _check(executable, Net(), *_arrays((rows, 8)))


def test_dims_of_pytorch_in_order(exporter: str) -> None:
    n = torch.export.Dim("n")
    executable = heddle.compile(
        Net(), tuple(_tensors((3, 8), (3, 4))), dynamic_shapes=({0: n}, {0: n, 1: None})
    )
    for rows in (2, 5):
        _check(executable, Net(), *_arrays((rows, 8), (rows, 4)))


def _tensors(*shapes: tuple[int, ...]) -> list[Any]:
    return [torch.from_numpy(array) for array in _arrays(*shapes)]


def test_arguments_by_name_and_arrays(exporter: str) -> None:
    x, y = _arrays((3, 8), (3, 4))
    _check(heddle.compile(Net(), example_inputs={"x": x, "y": y}), Net(), x, y)


def test_examples_may_stand_second_and_training_is_kept(exporter: str) -> None:
    (x,) = _tensors((3, 8))
    module = Net()
    module.norm.eval()
    executable = heddle.compile(module, [x])
    assert [each.training for each in module.modules()] == [True, True, False, True]
    _check(executable, Net(), x.numpy())


@needs_script
def test_exported_programs() -> None:
    (x,) = _tensors((3, 8))
    program = torch.export.export(Net().eval(), (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    executable = heddle.compile(program)
    for rows in (2, 9):
        _check(executable, Net(), *_arrays((rows, 8)))
    with pytest.raises(UsageError) as caught:
        heddle.compile(program, example_inputs=(x,))
    assert caught.value.code == "N0502"


def test_torchscript() -> None:
    (x,) = _tensors((3, 8))
    for module in (torch.jit.trace(Net().eval(), x), torch.jit.script(torch.nn.Linear(8, 4))):
        executable = heddle.compile(module, x, dynamic_shapes=({0: "n"},))
        _check(executable, module, *_arrays((6, 8)))


def test_a_branch_on_values_is_refused(exporter: str) -> None:
    with pytest.raises(FormatError, match="Branches") as caught:
        heddle.compile(Branches(), torch.ones(3))
    assert caught.value.code == "N0501"


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ({}, {"example_inputs": "x"}, {"example_inputs": 3}):
        with pytest.raises(UsageError, match="example_inputs") as caught:
            heddle.compile(Net(), **given)
        assert caught.value.code == "N0502"
    with pytest.raises(UsageError, match="state_dict") as caught:
        heddle.compile(Net().state_dict())
    assert caught.value.code == "D0108"


def test_a_program_needs_its_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    program = torch.export.export(Net().eval(), tuple(_tensors((3, 8))))
    without(monkeypatch, "onnxscript")
    with pytest.raises(MissingDependencyError, match="onnxscript"):
        heddle.compile(program)


def test_pytorch_is_not_imported_to_look_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module, tensor = Net(), torch.ones(2)
    assert sources.is_torch_model(module) and sources.is_torch_tensor(tensor)
    monkeypatch.delitem(sys.modules, "torch")
    assert not sources.is_torch_model(module) and not sources.is_torch_tensor(tensor)
    assert "torch" not in sys.modules
