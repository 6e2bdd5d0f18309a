"""The Relax VM: runs bytecode, and machine code that was compiled from it (see `heddle.vm.machine`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.runtime.device import Device
from heddle.runtime.module import Module
from heddle.support.diagnostics import UsageError
from heddle.vm.builtins.closures import invoke_closure
from heddle.vm.callables import MachineModule, raw_callable
from heddle.vm.codes import V0311
from heddle.vm.frames import wrong_count
from heddle.vm.insight.lifetimes import CheckedRunner
from heddle.vm.isa import UNDEFINED_ARGS, FuncKind
from heddle.vm.machine import MACHINES, Machine, VMInstrumentReturnKind
from heddle.vm.objects import VMClosure
from heddle.vm.placement import MemoryConfig
from heddle.vm.program import FunctionRow
from heddle.vm.relax.executable import VMExecutable
from heddle.vm.relax.link import link_function
from heddle.vm.relax.native import NativeProgram, native_code
from heddle.vm.shortcuts import shortcut
from heddle.vm.steps import DO, ENTER, INVOKE, LinkedFunction

__all__ = ["RelaxMachineModule", "VMInstrumentReturnKind", "VirtualMachine"]


class RelaxMachineModule(MachineModule):
    kind = "relax.VirtualMachine"


class VirtualMachine(Machine):
    """Runs an executable on devices; see `Machine` for the arguments. `profile` exists for TVM compatibility:
    every machine can profile.

    An executable that was compiled with `sanitize` runs with lifetime checks (`insight/lifetimes.py`). Given
    an executable of another instruction set, the class returns the machine for that one, because TVM scripts
    use one name, `runtime.vm`, for both machines.
    """

    executable_type = VMExecutable
    module_type = RelaxMachineModule

    def __new__(cls, rt_mod: Any = None, *args: Any, **kwargs: Any) -> Any:
        other = MACHINES.get(type(rt_mod), cls)
        if other.executable_type is cls.executable_type:
            return super().__new__(cls)
        return other(rt_mod, *args, **kwargs)

    def __init__(
        self,
        rt_mod: Module,
        device: Device | Sequence[Device],
        memory_cfg: MemoryConfig = None,
        profile: bool = False,
    ) -> None:
        super().__init__(rt_mod, device, memory_cfg)
        if self._native is not None:
            values = map(self.function_value, range(len(self._pool)))
            self._native.place_constants(self._constants, list(values))
        if self._native is None or any(row.kind is FuncKind.VM for row in self._rows.values()):
            self._link()
        if self.checks_lifetimes:
            self._run = CheckedRunner(self).run_call  # type: ignore[method-assign]
            self.watching_changed()

    # Loading

    def _function_pool(self) -> list[Any]:
        self._native = self._native_program()
        return super()._function_pool()

    def _native_program(self) -> NativeProgram | None:
        """Return what the machine code of compiled functions needs; None if there is no machine code.

        Raises: UsageError V0311 on a device whose memory the host cannot access.
        """
        program = self.executable.program
        if not any(native_code(self.executable, row) for row in program.functions):
            return None
        far = next((where for where in self.devices if not where.is_host), None)
        if far is not None:
            raise UsageError(
                V0311,
                f"machine code of a program does not run on {far}",
                help='compile it with exec_mode="bytecode"',
            )
        return NativeProgram(self, program, self.allocators)

    def _pool_entry(self, number: int, row: FunctionRow) -> Any:
        if row.kind is FuncKind.PACKED:
            return super()._pool_entry(number, row)
        code = native_code(self.executable, row)
        if code is not None and self._native is not None:
            linked = self._linked.get(row.name)
            return self._native_closure(row, linked, self._native.add_function(number, code))
        if row.num_args == UNDEFINED_ARGS or row.kind is FuncKind.VM:
            return super()._pool_entry(number, row)
        compiled = raw_callable(self._resolve_packed(f"__vmtir__{row.name}"))
        return VMClosure(row.name, lambda vm, *args: vm._run_compiled(row, compiled, args))

    def _native_closure(
        self, row: FunctionRow, linked: LinkedFunction | None, call: Callable[..., Any]
    ) -> VMClosure:
        """Return the closure of a compiled function. While the machine is observed, the function's bytecode
        runs instead, because observers need instructions."""
        if linked is None:
            return VMClosure(row.name, lambda vm, *args: call(*args))
        return VMClosure(
            row.name,
            lambda vm, *args: vm._run(linked, args) if vm._watched else call(*args),
            linked,
            direct=call,
        )

    def watching_changed(self) -> None:
        super().watching_changed()
        if self._native is not None:
            self._native.watch(self._watched)

    def _link_function(self, row: FunctionRow, target: LinkedFunction) -> None:
        link_function(self.executable.program, row, target, self._callee, self._operand, self._shorten)

    def _shorten(self, call: Callable[..., Any], operands: Sequence[Any]) -> tuple[int, Any] | None:
        """Return a faster form of a call, unless an instrument must see the call."""
        return None if self._instrument is not None else shortcut(call, operands, self.allocators)

    def _callee(self, number: int, num_args: int) -> tuple[int, Any]:
        call = self._call_of(number, num_args)
        if self._instrument is None:
            linked = self._linked.get(self.executable.program.functions[number].name)
            if linked is not None:
                return ENTER, linked
            if raw_callable(self._pool[number]) is invoke_closure:
                return INVOKE, None
        return DO, call

    # Running

    def _run_compiled(self, row: FunctionRow, compiled: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Run a compiled function, which takes (machine, registers, constants, functions). The register after
        the arguments receives its result."""
        if len(args) != row.num_args:
            raise wrong_count(row.name, row.num_args, row.param_names, len(args))
        registers = [*args, *[None] * (row.register_file_size - row.num_args)]
        compiled(self, registers, self._constants, self._pool)
        return registers[row.num_args]
