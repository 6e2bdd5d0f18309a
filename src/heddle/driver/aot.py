"""The ahead-of-time executor: a program as one native function over inputs of known sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from heddle.driver.signature import METADATA_PREFIX, Signature, TensorSpec, signature_from_json
from heddle.runtime.artefact import Section, require
from heddle.runtime.device import Device
from heddle.runtime.dtype import DataType
from heddle.runtime.module import Module, SectionData, register_loader
from heddle.runtime.tensor import Tensor, empty, tensor
from heddle.runtime.wire import Writer
from heddle.support.diagnostics import Trap, TrapIndexError, UsageError, did_you_mean
from heddle.vm.codes import V0801, V0803
from heddle.vm.graph.module import StaticModule, one_device
from heddle.vm.relax import VirtualMachine


class AotExecutor(Module):
    """Runs `main` of a compiled program: `set_input`, `run`, `get_output`. One thread runs it at a time."""

    kind = "AotExecutor"
    _METHODS: ClassVar[tuple[str, ...]] = (
        "get_input",
        "get_input_index",
        "get_input_info",
        "get_input_name",
        "get_num_inputs",
        "get_num_outputs",
        "get_output",
        "run",
        "set_input",
    )

    def __init__(self, executable: Any, device: Device, num_outputs: int) -> None:
        """Raises: UsageError V0801 for inputs that are no tensors of known sizes."""
        super().__init__()
        self._machine = VirtualMachine(executable, device)
        self._main = self._machine["main"]
        self._signature = signature_of(executable.metadata)
        self._num_outputs = num_outputs
        self._inputs = [
            empty(known_sizes(spec), DataType(str(spec.dtype)), device) for spec in self._signature.inputs
        ]
        self._numbers = {spec.name: number for number, spec in enumerate(self._signature.inputs)}
        self._outputs: list[Tensor] = []
        for each in self._inputs:
            each.copyfrom(tensor(each.numpy() * 0))

    def function_names(self) -> Sequence[str]:
        return tuple(self._METHODS)

    def _find(self, name: str) -> Callable[..., Any] | None:
        return getattr(self, name) if name in self._METHODS else None

    def run(self) -> None:
        """Run on the inputs that were set. Raises: Trap with what a kernel reported."""
        self._outputs = _flat(self._main(*self._inputs))

    def get_num_inputs(self) -> int:
        """How many inputs there are."""
        return len(self._inputs)

    def get_num_outputs(self) -> int:
        """How many results there are."""
        return self._num_outputs

    def get_input_index(self, name: str) -> int:
        """The number of an input; -1 where there is none of the name."""
        return self._numbers.get(name, -1)

    def get_input_name(self, index: int) -> str:
        """The name of an input. Raises: TrapIndexError V0803."""
        return self._signature.inputs[self._number(index)].name

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Sizes and dtypes of the inputs by name."""
        rows = [(name, self._inputs[number]) for name, number in self._numbers.items()]
        return {name: tuple(t.shape) for name, t in rows}, {name: str(t.dtype) for name, t in rows}

    def _number(self, key: str | int) -> int:
        if isinstance(key, str):
            if key not in self._numbers:
                raise Trap(V0803, f"there is no input {key!r}", help=did_you_mean(key, self._numbers))
            return self._numbers[key]
        if not 0 <= key < len(self._inputs):
            raise TrapIndexError(V0803, f"the program has {len(self._inputs)} inputs, and no number {key}")
        return key

    def set_input(self, key: str | int, value: Any) -> None:
        """Copy a value into an input. Raises: Trap V0803; what `Tensor.copyfrom` raises."""
        self.get_input(key).copyfrom(value if isinstance(value, Tensor) else tensor(value))

    def get_input(self, key: str | int) -> Tensor:
        """The tensor of an input. Raises: Trap V0803."""
        return self._inputs[self._number(key)]

    def get_output(self, index: int, out: Tensor | None = None) -> Tensor:
        """A result of the last run, or `out` with a copy of it. Raises: TrapIndexError V0803."""
        if not 0 <= index < len(self._outputs):
            raise TrapIndexError(
                V0803,
                f"there is no output {index}: the last run gave {len(self._outputs)}",
                help=None if self._outputs else "call run first",
            )
        found = self._outputs[index]
        return found if out is None else out.copyfrom(found)


class AotModule(StaticModule):
    """A program on a device: `AotModule(factory["default"](dev))`."""

    module: AotExecutor


class AotExecutorFactoryModule(Module):
    """What `relay.build` gives for the ahead-of-time executor: `factory["default"](dev)` makes one."""

    kind = "AotExecutorFactory"

    def __init__(self, executable: Module | None, libmod_name: str = "default", num_outputs: int = 1) -> None:
        super().__init__()
        if executable is not None:
            self._imports.append(executable)
        self.libmod_name, self._num_outputs = libmod_name, num_outputs

    def function_names(self) -> Sequence[str]:
        return (self.libmod_name, "list_module_names")

    def _find(self, name: str) -> Callable[..., Any] | None:
        found: dict[str, Callable[..., Any]] = {
            self.libmod_name: lambda *devices: AotExecutor(
                self.lib, one_device(list(devices)), self._num_outputs
            ),
            "list_module_names": lambda: [self.libmod_name],
        }
        return found.get(name)

    @property
    def module(self) -> AotExecutorFactoryModule:
        """The factory itself: what TVM's scripts take the module from."""
        return self

    @property
    def lib(self) -> Any:
        """The compiled program."""
        return self.imports[0]

    @property
    def params(self) -> dict[str, Tensor]:
        """None: parameters are linked."""
        return {}

    @property
    def function_metadata(self) -> Mapping[str, str]:
        """What is known of the functions and kernels: texts by name."""
        found: Mapping[str, str] = self.lib.metadata
        return found

    def get_params(self) -> dict[str, Tensor]:
        """None: parameters are linked."""
        return {}

    def get_lib(self) -> Any:
        """The compiled program."""
        return self.lib

    def get_executor_config(self) -> Signature:
        """Names, sizes and dtypes of the inputs and outputs."""
        return signature_of(self.function_metadata)

    def save_sections(self) -> Mapping[str, SectionData]:
        head = Writer()
        head.text(self.libmod_name)
        head.u64(self._num_outputs)
        return {"aot": head.bytes()}


def signature_of(metadata: Mapping[str, str]) -> Signature:
    """What `main` takes and gives. Raises: UsageError V0801 for inputs that are no tensors of known sizes."""
    found = signature_from_json(metadata[METADATA_PREFIX + "main"])
    for spec in found.inputs:
        known_sizes(spec)
    return found


def known_sizes(spec: TensorSpec) -> tuple[int, ...]:
    """The sizes of an input. Raises: UsageError V0801 where it is no tensor of known sizes."""
    sizes = tuple(dim for dim in spec.shape or () if isinstance(dim, int))
    if spec.kind != "tensor" or spec.dtype is None or spec.shape != sizes:
        raise UsageError(
            V0801,
            f"parameter {spec.name!r} is {spec.text()}: expected a tensor of known sizes",
            help="the executor 'vm' takes others",
        )
    return sizes


def _flat(value: Any) -> list[Tensor]:
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _flat(item)]
    return [value]


def _load(sections: Mapping[str, Section]) -> AotExecutorFactoryModule:
    head = require(sections, "aot").reader()
    name, num_outputs = head.text(), head.u64()
    head.done()
    return AotExecutorFactoryModule(None, name, num_outputs)


register_loader(AotExecutorFactoryModule.kind, _load)
