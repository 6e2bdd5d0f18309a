"""The base class of executors of programs with fixed input sizes: functions by name, inputs by name or
number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from heddle.runtime.module import Module
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.diagnostics import HeddleError, Trap, TrapIndexError, UsageError, did_you_mean
from heddle.vm.codes import V0803, V0804


def given_out(found: Tensor, out: Any) -> Tensor:
    """What `get_output` gives: the value, or `out` with a copy of it. Raises: UsageError V0804 for an `out`
    that is no tensor; the errors of `Tensor.copyfrom`."""
    if out is None:
        return found
    if not isinstance(out, Tensor):
        raise UsageError(
            V0804, f"out is a tensor, got {type(out).__name__}", help="empty(shape, dtype) makes one"
        )
    return out.copyfrom(found)


def is_number(key: Any, count: int) -> bool:
    """Whether this is the number of one of `count` things."""
    return isinstance(key, (int, np.integer)) and 0 <= int(key) < count


class StaticExecutor(Module):
    """The base class of executors. `_METHODS` are the functions of the module. `_noun` is the name of the
    program in messages, `_UNKNOWN_INPUT` the message for an unknown input."""

    _METHODS: ClassVar[tuple[str, ...]]
    _noun: ClassVar[str]
    _UNKNOWN_INPUT: ClassVar[str]

    def _name_inputs(self, names: Sequence[str]) -> None:
        self._input_names = tuple(names)
        self._numbers = {name: number for number, name in enumerate(names)}

    def function_names(self) -> Sequence[str]:
        return tuple(self._METHODS)

    def _find(self, name: str) -> Callable[..., Any] | None:
        return getattr(self, name) if name in self._METHODS else None

    def get_num_inputs(self) -> int:
        """Return the number of inputs, including the parameters of a graph."""
        return len(self._input_names)

    def get_input_index(self, name: str) -> int:
        """Return the number of the input `name`; -1 if there is none."""
        return self._numbers.get(name, -1) if isinstance(name, str) else -1

    def get_input_name(self, index: int) -> str:
        """Return the name of an input. Raises: TrapIndexError V0803."""
        return self._input_names[self._input_number(index)]

    def _input_number(self, key: str | int) -> int:
        if isinstance(key, str):
            if key not in self._numbers:
                raise Trap(V0803, self._UNKNOWN_INPUT.format(key), help=did_you_mean(key, self._numbers))
            return self._numbers[key]
        count = len(self._input_names)
        if not is_number(key, count):
            raise TrapIndexError(V0803, f"the {self._noun} has {count} inputs, and no number {key!r}")
        return key

    @abstractmethod
    def get_input(self, key: str | int) -> Tensor:
        """Return the tensor of an input, by name or number. Raises: Trap V0803."""

    def set_input(self, key: str | int, value: Any) -> None:
        """Copy a value to an input. Raises: Trap V0803; the errors of `Tensor.copyfrom`."""
        own = self.get_input(key)
        try:
            own.copyfrom(value if isinstance(value, Tensor) else tensor(value))
        except HeddleError as error:
            error.add_place(f"the value is for input {self.get_input_name(self._input_number(key))!r}", None)
            raise

    @abstractmethod
    def get_num_outputs(self) -> int:
        """Return the number of outputs."""

    @abstractmethod
    def get_output(self, index: int, out: Tensor | None = None) -> Tensor:
        """Return an output of the last run, or copy it to `out`. Raises: TrapIndexError V0803."""

    @abstractmethod
    def run(self) -> None:
        """Run the program on the current inputs. Raises: Trap for an error of a kernel."""
