"""`heddle.backend`: an implementation of ONNX's backend interface, `onnx.backend.base.Backend`.

    import heddle.backend
    from onnx.backend.test import BackendTest

    suite = BackendTest(heddle.backend, __name__)

The functions are also class methods of `HeddleBackend`, so both the module and the class can be passed as a
backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

import heddle.frontend.onnx.dependency  # noqa: F401  (it says what to install where onnx is missing)
from heddle.driver.codes import D0103, D0701
from heddle.driver.compile import build
from heddle.driver.pipeline import OptionError
from heddle.driver.values import as_argument, as_array
from heddle.frontend.onnx.load import from_onnx
from heddle.frontend.onnx.part import given_inputs
from heddle.frontend.onnx.proto import read_model
from heddle.frontend.onnx.registry import MAX_OPSET
from heddle.runtime.device import cpu
from heddle.support.diagnostics import UsageError
from heddle.vm.relax import VirtualMachine


class HeddleRep(BackendRep):  # type: ignore[misc]  # onnx has no types
    """A compiled model. `run` takes the inputs in the graph's order or by name, and returns the outputs."""

    def __init__(self, executable: Any, input_names: Sequence[str], num_outputs: int) -> None:
        self.executable = executable
        self.input_names = tuple(input_names)
        self.num_outputs = num_outputs
        self._main = VirtualMachine(executable, cpu())["main"]

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """Run the model. Inputs and outputs are arrays; a sequence is a list of arrays.

        Raises: OptionError D0103 for an option; UsageError D0701 for another number of inputs or unknown
        names; the errors of the machine.
        """
        if options:
            raise OptionError(D0103, f"run has no option {next(iter(options))!r}")
        given = (_plain(value) for value in self._in_order(inputs))
        result = self._main(*(as_argument(value) for value in given))
        return tuple(as_array(value) for value in (result if self.num_outputs > 1 else (result,)))

    def _in_order(self, inputs: Any) -> list[Any]:
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if isinstance(inputs, Mapping):
            if set(inputs) != set(self.input_names):
                raise UsageError(
                    D0701, f"expected the inputs {', '.join(self.input_names)}, got {', '.join(inputs)}"
                )
            return [inputs[name] for name in self.input_names]
        if len(inputs) != len(self.input_names):
            raise UsageError(D0701, f"expected {len(self.input_names)} inputs, got {len(inputs)}")
        return list(inputs)


def _plain(value: Any) -> Any:
    """Return a stored tensor as an array; lists are converted item by item."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


class HeddleBackend(Backend):  # type: ignore[misc]  # onnx has no types
    """Compiles models for this machine's processor."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **options: Any) -> bool:
        """Whether the device is supported. `prepare` reports what is not supported in the model."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto | str | Path, device: str = "CPU", **options: Any) -> HeddleRep:
        """Compile a model, given as a ModelProto or a file path. The options are `exec_mode`, `target` and
        `precision` of `heddle.compile`, and `shape_dict` of `from_onnx`.

        Raises: UsageError D0701 for another device; the errors of `from_onnx` and `heddle.compile`.
        """
        if not cls.supports_device(device):
            raise UsageError(D0701, f"no device {device!r}: models run on CPU")
        unknown = options.keys() - {"exec_mode", "target", "precision", "shape_dict"}
        if unknown:
            raise OptionError(D0103, f"prepare has no option {min(unknown)!r}")
        mod = from_onnx(model, options.pop("shape_dict", None))
        executable = build(mod, **{"exec_mode": "compiled", **options})
        graph = (model if isinstance(model, ModelProto) else read_model(model).proto).graph
        names = [value.name for value in given_inputs(graph)]
        return HeddleRep(executable, names, len(graph.output))

    @classmethod
    def run_model(
        cls, model: ModelProto | str | Path, inputs: Any, device: str = "CPU", **options: Any
    ) -> tuple[Any, ...]:
        """Compile a model and run it once."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls, node: NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any
    ) -> tuple[Any, ...]:
        """Compile a model of one node and run it once. `opset_version` is the operator set version of its
        domain, by default the newest that is supported."""
        version = options.pop("opset_version", MAX_OPSET.get(node.domain, 1))
        names = [name for name in node.input if name]
        arrays = [np.asarray(value) for value in inputs]
        graph = helper.make_graph(
            [node],
            "node",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in zip(names, arrays, strict=True)
            ],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.run_model(model, arrays, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is supported, given in ONNX's form such as `CPU` or `CPU:0`."""
        try:
            asked = Device(device)
        except (AttributeError, ValueError):
            return False
        return bool(asked.type == DeviceType.CPU and asked.device_id == 0)


is_compatible = HeddleBackend.is_compatible
prepare = HeddleBackend.prepare
run_model = HeddleBackend.run_model
run_node = HeddleBackend.run_node
supports_device = HeddleBackend.supports_device
