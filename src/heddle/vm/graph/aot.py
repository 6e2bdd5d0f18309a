"""The ahead-of-time executor: runs a program as one native function with inputs of fixed sizes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from heddle.runtime.artefact import Section, require
from heddle.runtime.device import Device
from heddle.runtime.dtype import DataType
from heddle.runtime.module import Module, SectionData, register_loader
from heddle.runtime.tensor import Tensor, empty
from heddle.runtime.wire import Reader, Writer
from heddle.support.diagnostics import TrapIndexError
from heddle.vm.codes import V0803
from heddle.vm.graph.inputs import StaticExecutor, given_out, is_number
from heddle.vm.graph.module import StaticModule, one_device
from heddle.vm.graph.trace import InputPlan
from heddle.vm.relax import VirtualMachine


class AotExecutor(StaticExecutor):
    """Runs `main` of a compiled program: `set_input`, `run`, `get_output`. Only one thread may use it at a
    time."""

    kind = "AotExecutor"
    _noun = "program"
    _UNKNOWN_INPUT = "there is no input {!r}"
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

    def __init__(
        self, executable: Any, device: Device, inputs: Sequence[InputPlan], num_outputs: int
    ) -> None:
        super().__init__()
        self._machine = VirtualMachine(executable, device)
        self._main = self._machine["main"]
        self._plans, self._num_outputs = tuple(inputs), num_outputs
        self._inputs = [empty(plan.shape, DataType(plan.dtype), device) for plan in self._plans]
        self._name_inputs([plan.name for plan in self._plans])
        self._outputs: list[Tensor] = []
        for each in self._inputs:
            ctypes.memset(each.address, 0, each.size_bytes)

    def run(self) -> None:
        """Run the program on the current inputs. Raises: Trap for an error of a kernel."""
        self._outputs = _flat(self._main(*self._inputs))

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return self._num_outputs

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Return shapes and dtypes of the inputs, by name."""
        rows = [(name, self._inputs[number]) for name, number in self._numbers.items()]
        return {name: tuple(t.shape) for name, t in rows}, {name: str(t.dtype) for name, t in rows}

    def get_input(self, key: str | int) -> Tensor:
        """Return the tensor of an input, by name or number. Raises: Trap V0803."""
        return self._inputs[self._input_number(key)]

    def get_output(self, index: int, out: Tensor | None = None) -> Tensor:
        """Return an output of the last run. If `out` is given, copy it there and return `out`. Raises:
        TrapIndexError V0803."""
        if not is_number(index, len(self._outputs)):
            raise TrapIndexError(
                V0803,
                f"there is no output {index!r}: the last run gave {len(self._outputs)}",
                help=None if self._outputs else "call run first",
            )
        found = self._outputs[index]
        return given_out(found, out)


class AotModule(StaticModule):
    """A program on a device: `AotModule(factory["default"](dev))`."""

    module: AotExecutor


class AotExecutorFactoryModule(Module):
    """The result of `relay.build` for the ahead-of-time executor. `factory["default"](dev)` creates an
    executor."""

    kind = "AotExecutorFactory"

    def __init__(
        self,
        executable: Module | None,
        libmod_name: str = "default",
        inputs: Sequence[InputPlan] = (),
        num_outputs: int = 1,
    ) -> None:
        super().__init__()
        if executable is not None:
            self._imports.append(executable)
        self.libmod_name = libmod_name
        self.inputs, self.num_outputs = tuple(inputs), num_outputs

    def function_names(self) -> Sequence[str]:
        return (self.libmod_name, "list_module_names")

    def _find(self, name: str) -> Callable[..., Any] | None:
        found: dict[str, Callable[..., Any]] = {
            self.libmod_name: lambda *devices: AotExecutor(
                self.lib, one_device(list(devices)), self.inputs, self.num_outputs
            ),
            "list_module_names": lambda: [self.libmod_name],
        }
        return found.get(name)

    @property
    def module(self) -> AotExecutorFactoryModule:
        """The factory itself. TVM scripts get the module from this attribute."""
        return self

    @property
    def lib(self) -> Any:
        """The compiled program."""
        return self.imports[0]

    @property
    def params(self) -> dict[str, Tensor]:
        """Empty: parameters are linked into the code."""
        return {}

    @property
    def function_metadata(self) -> Mapping[str, str]:
        """Texts by name about the functions and kernels."""
        found: Mapping[str, str] = self.lib.metadata
        return found

    def get_params(self) -> dict[str, Tensor]:
        """Return an empty dictionary: parameters are linked into the code."""
        return {}

    def get_lib(self) -> Any:
        """Return the compiled program."""
        return self.lib

    def get_executor_config(self) -> tuple[InputPlan, ...]:
        """Return names, shapes and dtypes of the inputs."""
        return self.inputs

    def save_sections(self) -> Mapping[str, SectionData]:
        head = Writer()
        head.text(self.libmod_name)
        head.u64(self.num_outputs)
        head.texts([plan.name for plan in self.inputs])
        head.texts([plan.dtype for plan in self.inputs])
        for plan in self.inputs:
            head.words(plan.shape)
        return {"aot": head.bytes()}


def _flat(value: Any) -> list[Tensor]:
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _flat(item)]
    return [value]


def _load(sections: Mapping[str, Section]) -> AotExecutorFactoryModule:
    head = require(sections, "aot").reader()
    name, num_outputs, names, dtypes = head.text(), head.u64(), head.texts(), head.texts()
    if len(names) != len(dtypes):
        raise head.fail(f"{len(names)} inputs have {len(dtypes)} dtypes")
    plans = [InputPlan(each, _sizes(head), dtype) for each, dtype in zip(names, dtypes, strict=True)]
    head.done()
    return AotExecutorFactoryModule(None, name, plans, num_outputs)


def _sizes(head: Reader) -> tuple[int, ...]:
    """Raises: FormatError F0106 for a negative size."""
    sizes = tuple(head.words())
    if min(sizes, default=0) < 0:
        raise head.fail(f"an input has sizes {sizes}")
    return sizes


register_loader(AotExecutorFactoryModule.kind, _load)
