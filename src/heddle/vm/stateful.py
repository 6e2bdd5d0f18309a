"""Stateful calls: bind arguments, run, fetch results; and functions that are saved with their arguments."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from heddle.runtime.data import ConstructorValue, RefValue, map_values
from heddle.runtime.device import Device
from heddle.runtime.dlpack import is_lender
from heddle.runtime.dtype import DataType
from heddle.runtime.function import Function
from heddle.runtime.module import Module
from heddle.runtime.shape import Array, Map, Shape
from heddle.runtime.tensor import Tensor, from_dlpack, tensor, tensor_from_numpy
from heddle.support.diagnostics import Trap, TrapIndexError, TrapTypeError, TrapValueError, UsageError
from heddle.vm.codes import V0302, V0303, V0304, V0306
from heddle.vm.objects import VMClosure
from heddle.vm.placement import MachineMemory
from heddle.vm.program_devices import Place

_UNCHANGED = (Tensor, Shape, Array, Map, str, Function, VMClosure, Device, DataType, Module, RefValue)


class ArgumentCountError(UsageError, AssertionError):
    """A saved call has too few or too many arguments."""


def convert_argument(value: Any) -> Any:
    """Convert an argument of `save_function` or `set_input`. Numbers become 0-d tensors (int32, float32).

    Raises: TrapTypeError V0303 for a value of another kind.
    """
    if value is None or isinstance(value, _UNCHANGED):
        return value
    if isinstance(value, np.ndarray):
        return tensor_from_numpy(value)
    if isinstance(value, (list, tuple)):
        return Array(map(convert_argument, value))
    if isinstance(value, ConstructorValue):
        return map_values(value, convert_argument, Array)
    if isinstance(value, np.generic):
        return tensor(np.asarray(value))
    if isinstance(value, int):
        return tensor(value, dtype="int32")
    if isinstance(value, float):
        return tensor(value, dtype="float32")
    if is_lender(value):
        return from_dlpack(value)
    raise TrapTypeError(V0303, f"cannot pass a value of type {type(value).__name__} to a program")


class StatefulCalls(ABC):
    """The stateful part of a machine: saved calls, bound inputs, outputs."""

    devices: list[Device]
    memory: MachineMemory

    def __init__(self) -> None:
        self._saved: dict[str, VMClosure] = {}
        self._inputs: dict[str, list[Any]] = {}
        self._outputs: dict[str, Any] = {}

    @abstractmethod
    def _closure(self, name: str) -> VMClosure:
        """A saved closure or a function of the program. Raises: UnknownFunctionError V0301."""

    @abstractmethod
    def _parameters(self, name: str) -> tuple[int, tuple[str, ...]]:
        """Return the number of parameters of a function, and their names if they were recorded."""

    @abstractmethod
    def _places(self, name: str) -> list[Place]:
        """The device of each parameter of a function of the program; none for a saved call."""

    def _on_device(self, value: Any, place: Place = 0) -> Any:
        if isinstance(value, Array):
            places = place if isinstance(place, list) and len(place) == len(value) else [place] * len(value)
            return Array(map(self._on_device, value, places))
        if isinstance(place, list):  # what was given is no such tuple, as the program will say
            return value
        if isinstance(value, Tensor):
            where = self.devices[place]
            return value.to_device(where, self.memory.allocator_of(where)).contiguous()
        if isinstance(value, ConstructorValue):
            return map_values(value, lambda item: self._on_device(item, place), Array)
        return value

    def _on_devices(self, name: str, values: Iterable[Any]) -> list[Any]:
        """Arguments of a function on the devices of its parameters. Surplus ones, which the call will tell
        of, are on the first."""
        places = chain(self._places(name), repeat(0))
        return [self._on_device(value, place) for value, place in zip(values, places, strict=False)]

    def _bind(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the arguments in parameter order. Positional arguments fill the parameters that keywords
        leave."""
        if not kwargs:
            return self._on_devices(name, map(convert_argument, args))
        _, names = self._parameters(name)
        for keyword in [key for key in kwargs if key not in names]:
            sys.stdout.write(f"Warning: {keyword} is not a parameter of {name}\n")
        named = {key: value for key, value in kwargs.items() if key in names}
        positional = iter(args)
        ordered = [named[key] if key in named else next(positional, _MISSING) for key in names]
        if any(value is _MISSING for value in ordered) or len(named) + len(args) != len(names):
            raise ArgumentCountError(
                V0302,
                f"function {name!r} expects {len(names)} arguments ({', '.join(names)}), "
                f"got {len(named) + len(args)}",
            )
        return self._on_devices(name, map(convert_argument, ordered))

    def saved_names(self) -> tuple[str, ...]:
        """The names of the saved calls."""
        return tuple(self._saved)

    def save_function(
        self, func_name: str, saved_name: str, *args: Any, include_return: bool = True, **kwargs: Any
    ) -> None:
        """Save a call of `func_name` with its arguments; `vm[saved_name]()` runs it. Without `include_return`
        its result is dropped. A saved call of the same name is replaced.

        Raises: UnknownFunctionError V0301 (also a ValueError); ArgumentCountError V0302 (also an
        AssertionError).
        """
        impl = self._closure(func_name).impl
        bound = self._bind(func_name, args, kwargs)
        if include_return:
            self._saved[saved_name] = VMClosure(saved_name, lambda vm: impl(vm, *bound))
            return

        def run(vm: Any) -> None:
            impl(vm, *bound)

        self._saved[saved_name] = VMClosure(saved_name, run)

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Bind the arguments of the next `invoke_stateful`. Tensors that are already on the machine's device
        are not copied.

        Raises: UnknownFunctionError V0301; Trap V0302 for a wrong number of arguments.
        """
        self._inputs[func_name] = self._bound(func_name, args, kwargs)

    def _bound(self, func_name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """All arguments of a call. Raises: as `set_input`."""
        expected, names = self._parameters(func_name)
        bound = self._bind(func_name, args, kwargs)
        if len(bound) != expected:
            raise Trap(
                V0302,
                f"function {func_name!r} expects {expected} arguments ({', '.join(names)}), got {len(bound)}",
            )
        return bound

    def set_input_with_param_module(self, func_name: str, *args: Any) -> None:
        """Like `set_input`. The last argument is a module; its function `get_params` returns the last value
        to bind."""
        self.set_input(func_name, *args[:-1], args[-1]["get_params"]())

    def invoke_stateful(self, func_name: str) -> None:
        """Run a function on its bound inputs and keep the result for `get_outputs`.

        Raises: UnknownFunctionError V0301; TrapValueError V0304 without a previous `set_input`.
        """
        closure = self._closure(func_name)
        bound = self._inputs.get(func_name)
        if bound is None:
            raise TrapValueError(V0304, f"no inputs for {func_name!r}: call set_input before invoke_stateful")
        self._outputs[func_name] = closure.impl(self, *bound)

    def _output(self, func_name: str, path: Sequence[int]) -> Any:
        self._closure(func_name)
        if func_name not in self._outputs:
            raise TrapValueError(
                V0304, f"no outputs of {func_name!r}: call invoke_stateful before get_outputs"
            )
        value = self._outputs[func_name]
        for index in path:
            if not isinstance(value, Array):
                raise TrapValueError(
                    V0306, f"output {list(path)} of {func_name!r} leads into a {type(value).__name__}"
                )
            if not 0 <= index < len(value):
                raise TrapIndexError(
                    V0306, f"output index {index} of {func_name!r} is out of range: there are {len(value)}"
                )
            value = value[index]
        return value

    def get_output_arity(self, func_name: str, *path: int) -> int:
        """Return the length of the tuple at index path `path` of the result, or -1 if that is not a tuple."""
        value = self._output(func_name, path)
        return len(value) if isinstance(value, Array) else -1

    def get_output(self, func_name: str, *path: int) -> Any:
        """Return the value at index path `path` of the result; it must not be a tuple. Raises: TrapValueError
        V0304, V0306; TrapIndexError V0306."""
        value = self._output(func_name, path)
        if isinstance(value, Array):
            raise TrapValueError(
                V0306, f"output {list(path)} of {func_name!r} is a tuple of {len(value)}: name an element"
            )
        return value

    def get_outputs(self, func_name: str) -> Any:
        """Return the result of the last `invoke_stateful`; tuples become Python tuples. Raises:
        TrapValueError V0304 if there is none."""
        return _as_tuples(self._output(func_name, ()))

    def get_function_arity(self, func_name: str) -> int:
        """Return the number of recorded parameter names of a function."""
        return len(self._parameters(func_name)[1])

    def get_function_param_name(self, func_name: str, index: int) -> str:
        """Return the name of a parameter by index. Raises: UnknownFunctionError V0301, TrapIndexError
        V0306.
        """
        names = self._parameters(func_name)[1]
        if not 0 <= index < len(names):
            raise TrapIndexError(
                V0306, f"parameter {index} of {func_name!r} is out of range: there are {len(names)}"
            )
        return names[index]


_MISSING = object()


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, Array) else value
