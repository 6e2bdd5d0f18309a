"""The machine that runs programs of Relay's instruction set (see `heddle.vm.machine`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.runtime.device import Device
from heddle.runtime.module import Module
from heddle.runtime.profiling import Report
from heddle.runtime.shape import Array
from heddle.runtime.tensor import Tensor
from heddle.runtime.timing import Benchmarked
from heddle.support.diagnostics import TrapIndexError, TrapValueError, UsageError, did_you_mean
from heddle.vm.callables import MachineModule
from heddle.vm.codes import V0302, V0303, V0304, V0306
from heddle.vm.given_memory import check_apart
from heddle.vm.machine import Machine
from heddle.vm.placement import MachineTypeError, MemoryConfig
from heddle.vm.program import FunctionRow
from heddle.vm.relay.executable import Executable
from heddle.vm.relay.link import Linker
from heddle.vm.relay.outputs import OutputPlan, plan_outputs
from heddle.vm.stateful import convert_argument
from heddle.vm.steps import LinkedFunction

_KINDS = {1: "naive", 2: "pooled"}


class RelayMachineModule(MachineModule):
    kind = "relay.VirtualMachine"


class VirtualMachine(Machine, Benchmarked):
    """Runs an executable on devices, as `Machine` says. In a map, `memory_cfg` may name the kinds of
    allocators by TVM's numbers.

    Functions are called by name: `vm["main"](...)`, `invoke("main", ...)`, `run(...)`; or in steps:
    `set_input`, `invoke_stateful`, `get_outputs`.
    """

    executable_type = Executable
    module_type = RelayMachineModule
    NAIVE_ALLOCATOR = 1  # type: ignore[assignment]
    POOLED_ALLOCATOR = 2  # type: ignore[assignment]

    def __init__(
        self, exe: Module, device: Device | Sequence[Device], memory_cfg: MemoryConfig | Any = None
    ) -> None:
        super().__init__(exe, device, _memory_config(memory_cfg))
        self._placed: dict[tuple[int, int], Any] = {}
        self._plans: dict[str, OutputPlan] = {}
        self._last: str | None = None

    # What linking asks for

    def constant(self, number: int, device_index: int) -> Any:
        """A constant on one of the devices. Raises: UsageError V0303 for a device that there is not."""
        value = self._constants[number]
        if not isinstance(value, Tensor) or device_index == 0:
            return value
        if device_index >= len(self.devices):
            raise UsageError(
                V0303,
                f"constant {number} lies on device {device_index}: there are {len(self.devices)} devices",
            )
        key = number, device_index
        if key not in self._placed:
            where, memory = self.devices[device_index], self.allocators[device_index]
            self._placed[key] = value.to_device(where, memory).readonly()
        return self._placed[key]

    def linked_function(self, row: int) -> LinkedFunction:
        """The steps of a function of the program."""
        return self._linked[self.executable.program.functions[row].name]

    def instrumented(self, row: int, num_args: int) -> Callable[..., Any] | None:
        """What calls a function for an instrument; None where there is none."""
        return None if self._instrument is None else self._call_of(row, num_args)

    def call_of(self, row: int, num_args: int) -> Callable[..., Any]:
        """What calls a packed function. Raises: BytecodeError V0408."""
        return self._call_of(row, num_args)

    def _link_function(self, row: FunctionRow, target: LinkedFunction) -> None:
        Linker(self, self.executable.program, row).link(target)

    # Calling from Python

    def set_one_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Bind one argument of the next call: `set_one_input("main", name_or_number, value)`, or by keyword.

        Raises: UnknownFunctionError V0301; TrapIndexError V0306 for a parameter that there is not;
        TrapValueError V0302 for other arguments.
        """
        expected, names = self._parameters(func_name)
        if len(kwargs) == 1 and not args:
            args = next(iter(kwargs.items()))
        elif len(args) != 2 or kwargs:
            raise TrapValueError(V0302, f"one input of {func_name!r} is a name or number, and a value")
        key, value = args
        index = names.index(key) if key in names else key
        if not isinstance(index, int) or not 0 <= index < expected:
            raise TrapIndexError(
                V0306, f"function {func_name!r} has no parameter {key!r}", help=did_you_mean(str(key), names)
            )
        bound = self._inputs.setdefault(func_name, [_MISSING] * expected)
        bound[index] = self._on_device(convert_argument(value), self._places(func_name)[index])

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """The number of a parameter, -1 where there is none of that name."""
        names = self._parameters(func_name)[1]
        return names.index(input_name) if input_name in names else -1

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        """What a function gives for arguments, or, without any, for those that were set.

        Raises: as `set_input`; UnknownFunctionError V0301; TrapValueError V0304 where inputs were not set.
        """
        impl = self._closure(func_name).impl
        return self._keep(func_name, impl(self, *self._given(func_name, args, kwargs)))

    def _given(self, func_name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call; another thread's call does not change them."""
        if args or kwargs or not self._parameters(func_name)[0]:
            given = self._inputs[func_name] = self._bound(func_name, args, kwargs)
            return given
        given = self._inputs.get(func_name, [_MISSING])
        if any(value is _MISSING for value in given):
            raise TrapValueError(
                V0304, f"Input has not been set for function {func_name!r}: call set_input first"
            )
        return given

    def _keep(self, func_name: str, found: Any) -> Any:
        self._outputs[func_name], self._last = found, func_name
        return found

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """What `main` gives."""
        return self.invoke("main", *args, **kwargs)

    def invoke_stateful(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Run a function on arguments, or on those that were set, and keep the result.

        Raises: as `invoke`.
        """
        self.invoke(func_name, *args, **kwargs)

    def get_outputs(self, func_name: str | None = None) -> Any:
        """The results of the last `invoke_stateful`: a list, of one where the result is no tuple.

        Raises: TrapValueError V0304 where nothing ran.
        """
        name = func_name if func_name is not None else self._last
        if name is None:
            raise TrapValueError(V0304, "no outputs: call invoke_stateful before get_outputs")
        found = self._output(name, ())
        return list(found) if isinstance(found, Array) else [found]

    def set_outputs(self, func_name: str, *outputs: Any) -> None:
        """Let the next calls of a function write their results into these tensors, without copies; without
        any, into new ones again.

        A call that fails may have written anything into them.

        Raises: UnknownFunctionError V0301; UsageError V0310 where the results are not made in one place
        each, or are of another number, and for tensors and arrays that cannot be written in place or share
        memory; a call raises it where one shares memory with an argument.
        """
        if not outputs:
            self._plans.pop(func_name, None)
            return
        self._plans[func_name] = self._plan(func_name, outputs)

    def _plan(self, func_name: str, outputs: Sequence[Any]) -> OutputPlan:
        self._closure(func_name)
        self.ensure_linked()
        row = self._rows[func_name]
        return plan_outputs(self.executable.program, row, self._linked[func_name]).into(outputs)

    def invoke_with_outputs(
        self, func_name: str, input_args: Mapping[str, Any], output_args: Sequence[Any]
    ) -> None:
        """Call a function on arguments by name and let it write into tensors, for this call.

        Raises: as `set_outputs` and `invoke_stateful`; V0310 where a tensor has other sizes or another dtype;
        MachineTypeError V0303 for no mapping, or no list.
        """
        if not isinstance(input_args, Mapping):
            raise MachineTypeError(V0303, f"expected arguments by name, got {type(input_args).__name__}")
        if not isinstance(output_args, (Sequence, Array)):
            raise MachineTypeError(V0303, f"expected a list of tensors, got {type(output_args).__name__}")
        plan = self._plan(func_name, output_args)
        named = {str(name): value for name, value in input_args.items()}
        self._keep(func_name, self._run_into(plan, self._given(func_name, (), named)))

    def _run(self, function: LinkedFunction, args: Sequence[Any]) -> Any:
        plan = self._plans.get(function.name) if self._plans else None
        return super()._run(function, args) if plan is None else self._run_into(plan, args)

    def _run_into(self, plan: OutputPlan, args: Sequence[Any]) -> Any:
        check_apart(plan.outputs, args, plan.function.param_names)
        return super()._run(plan.function, args)

    def timed_call(
        self, func_name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any], end_to_end: bool
    ) -> Callable[[], Any]:
        """The call that `benchmark` measures, of `main` where no name is given."""
        name = func_name or "main"
        if end_to_end:
            return lambda: self.invoke(name, *args, **kwargs)
        if args or kwargs:
            self.set_input(name, *args, **kwargs)
        return lambda: self.invoke_stateful(name)


class VirtualMachineProfiler(VirtualMachine):
    """A machine whose `profile` tells where the time of a call goes."""

    def profile(
        self,
        *args: Any,
        func: str = "main",
        collectors: Any = None,
        func_name: str | None = None,
        **kwargs: Any,
    ) -> Report:
        """Call a function and report calls, time, FLOPs and bytes, as `Watchable.profile` does. `func_name`
        is another word for `func`. There are no other `collectors`."""
        func = func_name or func
        if collectors is not None:
            raise UsageError(V0303, "there are no collectors: the report counts time, FLOPs and bytes itself")
        return super().profile(func, *self._bind(func, args, kwargs))


_MISSING = object()
"""An input that was not set."""


def _memory_config(given: Any) -> MemoryConfig:
    """The configuration with kinds of allocators by name. Raises: MachineTypeError V0303."""
    if not isinstance(given, Mapping):
        return given  # type: ignore[no-any-return]
    if not all(isinstance(device, Device) for device in given):
        raise MachineTypeError(V0303, "expected memory_cfg to map devices to kinds of allocators")
    return {device: _KINDS.get(kind) or str(kind) for device, kind in given.items()}
