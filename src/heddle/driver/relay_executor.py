"""Executors of Relay programs that compile: functions are compiled when they are first called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from heddle.driver.relay_build import build
from heddle.driver.relay_vm import compile_functions
from heddle.graph.types import TensorType
from heddle.graph.values import as_value
from heddle.ir.expr import Expr, Function, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.types import TupleType
from heddle.prim.nodes import IntImm
from heddle.relay.executor import EXECUTORS, Executor
from heddle.relay.text_values import type_text
from heddle.relay.typed import infer_expr
from heddle.runtime.data import RefValue, map_values
from heddle.runtime.device import Device
from heddle.runtime.shape import Array
from heddle.runtime.tensor import tensor
from heddle.support.diagnostics import UsageError
from heddle.vm.codes import V0801
from heddle.vm.objects import VMClosure
from heddle.vm.program_devices import machine_devices
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
        executable = compile_functions(whole, [name], self._target)
        machine = VirtualMachine(executable, machine_devices(executable.metadata, self.device))
        made = self._callable(machine, machine[name])
        types = [param.ty for param in func.params]
        if not any(map(_is_narrow, types)):
            return made
        return lambda *args: made(*(self._of_type(*pair) for pair in zip(args, types, strict=True)))

    def _of_type(self, value: Any, ty: Any) -> Any:
        """An array of a type with fewer than 8 bits, whose elements lie in bytes, as a tensor of it."""
        if _is_narrow(ty) and isinstance(value, np.ndarray):
            return tensor(value, self.device, str(ty.dtype))
        return value

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


def _is_narrow(ty: Any) -> bool:
    """Whether elements are numbers of fewer than 8 bits."""
    return isinstance(ty, TensorType) and ty.dtype is not None and ty.dtype.bits < 8 and not ty.dtype.is_bool


class _StaticExecutor(VMExecutor):
    """An executor of programs without control flow. Results are lists of tensors, as they are nested; the
    arguments and the result have known sizes."""

    kind = ""

    def __init__(self, mod: IRModule | None, device: Device | None = None, target: Any = None) -> None:
        super().__init__(mod, device, target)
        self._interpreter = _StaticPrograms(self.mod, self.device, target, self.kind)

    def evaluate(self, expr: Any = None, binds: Mapping[Var, Any] | None = None) -> Any:
        """As in the base class. Raises: also UsageError V0801 (a ValueError) for programs that have control
        flow, or results of unknown sizes."""
        return super().evaluate(expr, binds)

    def _outside(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return [self._outside(item) for item in value]
        return super()._outside(value)


class GraphExecutor(_StaticExecutor):
    """Evaluates expressions of a module as graphs of kernels."""

    kind = "graph"


class AotExecutor(_StaticExecutor):
    """Evaluates expressions of a module as native functions."""

    kind = "aot"


class _StaticPrograms(_Machines):
    def __init__(self, mod: IRModule, device: Device, target: Any, kind: str) -> None:
        super().__init__(mod, device, target)
        self._kind = kind

    def _compiled(self, func: Function) -> Callable[..., Any]:
        func = infer_expr(func, self.mod)
        _require_static(func)
        whole = self.mod.with_functions({**self.mod.functions, self._main(): func})
        factory = build(whole, self._target, executor=self._kind)
        module = factory["default"](self.device)
        result = func.ret_ty

        def call(*args: Any) -> Any:
            for number, arg in enumerate(args):
                module.set_input(number, arg)
            module.run()
            count = module.get_num_outputs()
            found = [as_value(module.get_output(index)).copy() for index in range(count)]
            return _nested(iter(found), result)

        return call

    def _main(self) -> GlobalVar:
        return self.mod.get_global_var("main") if self.mod.get("main") is not None else GlobalVar("main")


def _require_static(func: Function) -> None:
    """Raises: UsageError V0801 for a result of unknown sizes."""
    pending: list[Any] = [func.ret_ty]
    while pending:
        ty = pending.pop()
        if isinstance(ty, TupleType):
            pending += ty.fields
        elif not isinstance(ty, TensorType) or not all(isinstance(dim, IntImm) for dim in ty.dims or ()):
            raise UsageError(
                V0801,
                f"the result has type {type_text(ty)}: expected tensors of known sizes",
                help="use the executor 'vm'",
            )


def _nested(values: Iterator[Any], ty: Any) -> Any:
    return tuple(_nested(values, part) for part in ty.fields) if isinstance(ty, TupleType) else next(values)


EXECUTORS.add("vm", VMExecutor)
EXECUTORS.add("graph", GraphExecutor)
EXECUTORS.add("aot", AotExecutor)
