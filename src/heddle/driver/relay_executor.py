"""The executor "vm" of Relay programs: functions are compiled when they are first called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from heddle.driver.relay_vm import compile_functions
from heddle.graph.values import as_value
from heddle.ir.expr import Expr, Function, GlobalVar
from heddle.ir.module import IRModule
from heddle.relay.executor import EXECUTORS, Executor
from heddle.runtime.data import RefValue, map_values
from heddle.runtime.device import Device
from heddle.runtime.shape import Array
from heddle.runtime.tensor import tensor
from heddle.vm.objects import VMClosure
from heddle.vm.relay import VirtualMachine


class VMExecutor(Executor):
    """Evaluates expressions of a module on Relay's machine. Raises: UsageError L0303, L0304 for programs that
    cannot be compiled; else as `Executor`."""

    def __init__(self, mod: IRModule | None, device: Device | None = None, target: Any = None) -> None:
        super().__init__(mod, device)
        self._interpreter: Any = _Machines(self.mod, self.device, target)


class _Machines:
    """What calls the functions of a module, a machine for each."""

    def __init__(self, mod: IRModule, device: Device, target: Any) -> None:
        self.mod, self.device, self._target = mod, device, target
        self._calls: dict[int, tuple[Function, Callable[..., Any]]] = {}
        self._constructors = {
            made.tag: made for definition in mod.type_definitions.values() for made in definition.constructors
        }

    def call(self, func: Any, args: Sequence[Any]) -> Any:
        """The value of a function, or of a closure that was given out: arrays, tuples and values of data
        types in and out."""
        if not isinstance(func, Function):
            return func(*args)
        known = self._calls.get(id(func))
        if known is None:
            known = self._calls[id(func)] = func, self._compiled(func)
        return known[1](*args)

    def evaluate(self, expr: Expr) -> Any:
        """The value of an expression without free variables."""
        return self.call(Function((), expr, dialect="relay"), ())

    def _compiled(self, func: Function) -> Callable[..., Any]:
        own = [var.name_hint for var, other in self.mod.functions.items() if other is func]
        name = own[0] if own else self.mod.names().fresh("expression")
        whole = self.mod if own else self.mod.with_functions({**self.mod.functions, GlobalVar(name): func})
        machine = VirtualMachine(compile_functions(whole, [name], self._target), self.device)
        return self._callable(machine, machine[name])

    def _callable(self, machine: VirtualMachine, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of a machine over the executor's values."""

        def leaf(value: Any) -> Any:
            if isinstance(value, VMClosure):
                return self._callable(machine, partial(machine.invoke_closure, value))
            return as_value(value)

        def call(*args: Any) -> Any:
            found = function(*(map_values(arg, self._tensor, Array) for arg in args))
            return map_values(found, leaf, constructors=self._constructors)

        return call

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, RefValue):
            value.value = map_values(value.value, self._tensor, Array)
            return value
        return tensor(value, self.device) if isinstance(value, (np.ndarray, np.generic)) else value


EXECUTORS.add("vm", VMExecutor)
