"""The executor "vm" of Relay programs: functions are compiled when they are first called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.driver.compile import build
from heddle.graph.values import as_value
from heddle.ir.expr import Expr, Function, GlobalVar
from heddle.ir.module import IRModule
from heddle.lower.relay_to_relax import to_relax
from heddle.relay.executor import EXECUTORS, Executor
from heddle.runtime.device import Device
from heddle.runtime.tensor import Tensor, tensor
from heddle.vm.relax import VirtualMachine


class MachineExecutor(Executor):
    """Evaluates expressions of a module by compiled code. Raises: UsageError L0301 for programs with data
    types, matches or references; else as `Executor`."""

    def __init__(self, mod: IRModule | None, device: Device | None = None) -> None:
        super().__init__(mod, device)
        self._interpreter: Any = _Machines(self.mod, self.device)


class _Machines:
    """What calls the functions of a module, a machine for each."""

    def __init__(self, mod: IRModule, device: Device) -> None:
        self.mod, self.device = mod, device
        self._calls: dict[int, tuple[Function, Callable[..., Any]]] = {}

    def call(self, func: Any, args: Sequence[Any]) -> Any:
        """The value of a function: arrays and tuples in and out. A closure is the machine's."""
        if not isinstance(func, Function):
            return _arrays(func(*(_tensors(arg, self.device) for arg in args)))
        known = self._calls.get(id(func))
        if known is None:
            known = self._calls[id(func)] = func, self._compiled(func)
        return _arrays(known[1](*(_tensors(arg, self.device) for arg in args)))

    def evaluate(self, expr: Expr) -> Any:
        """The value of an expression without free variables."""
        return self.call(Function((), expr, dialect="relay"), ())

    def _compiled(self, func: Function) -> Callable[..., Any]:
        own = [var.name_hint for var, other in self.mod.functions.items() if other is func]
        name = own[0] if own else self.mod.names().fresh("expression")
        whole = self.mod if own else self.mod.with_functions({**self.mod.functions, GlobalVar(name): func})
        executable = build(to_relax(whole, [name]), exec_mode="compiled")
        found: Callable[..., Any] = VirtualMachine(executable, self.device)[name]
        return found


def _tensors(value: Any, device: Device) -> Any:
    if isinstance(value, tuple):
        return tuple(_tensors(item, device) for item in value)
    return tensor(value, device) if not isinstance(value, Tensor) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_arrays(item) for item in value)
    return as_value(value)


EXECUTORS.add("vm", MachineExecutor)
