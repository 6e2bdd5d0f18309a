"""Call a machine from outside: its functions as callables, and the machine as a module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.runtime.function import Function, to_value
from heddle.runtime.module import Module
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import MissingNameError, Trap


class UnknownFunctionError(MissingNameError, ValueError):
    """The program has no function of this name."""


class UnresolvedFunctionError(Trap, ValueError):
    """The program calls a function that nothing provides."""


def raw_callable(entry: Any) -> Callable[..., Any]:
    """Return the callable inside a Function; calling it does not convert arguments."""
    found: Callable[..., Any] = entry.call if isinstance(entry, Function) else entry
    return found


class ProgramFunction(Function):
    """A function of a program as a Python callable. Arguments are converted to runtime values and tensors are
    made compact."""

    __slots__ = ()

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)


def compact(arg: Any) -> Any:
    """Convert an argument to a runtime value. A strided tensor becomes a compact copy, which kernels need."""
    if type(arg) is not Tensor:
        arg = to_value(arg)
    return arg.contiguous() if type(arg) is Tensor and arg.layout.strides is not None else arg


class MachineModule(Module):
    """A machine as a module. Its functions are those of the program, the methods of the machine, and those of
    the executable's imports."""

    _METHODS = (
        "set_input",
        "invoke_stateful",
        "get_output",
        "get_output_arity",
        "get_function_arity",
        "get_function_param_name",
        "save_function",
        "set_instrument",
        "invoke_closure",
    )

    def __init__(self, machine: Any) -> None:
        super().__init__()
        self._machine = machine
        self._imports = list(machine.executable.imports)

    def function_names(self) -> Sequence[str]:
        return (*self._machine.executable.function_names(), *self._machine.saved_names(), *self._METHODS)

    def wait(self) -> None:
        """Wait for work that calls left pending on the machine's devices."""
        self._machine.wait()

    def _find(self, name: str) -> Callable[..., Any] | None:
        if name in self._machine.executable.function_names() or name in self._machine.saved_names():
            found: Callable[..., Any] = self._machine[name]
            return found
        return getattr(self._machine, name) if name in self._METHODS else None
