"""The base class of machines: devices and memory, resolved functions, and the loop that runs bytecode.

Every call from outside has its own frames. So a callback may call the machine again, and there is nothing to
clean up after an exception. Calls between functions of the program do not use Python's stack.
"""

from __future__ import annotations

import types
from abc import abstractmethod
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, ClassVar

from heddle.runtime.device import Device
from heddle.runtime.function import Function, find_global_func, get_global_func, to_value
from heddle.runtime.module import Module
from heddle.runtime.tensor import Tensor
from heddle.runtime.timing import BenchmarkResult
from heddle.runtime.variants import VariantsModule
from heddle.support.diagnostics import HeddleError, TrapTypeError, UsageError, did_you_mean
from heddle.support.limits import current_limits
from heddle.vm.builtins import register_builtins
from heddle.vm.builtins.memory import PLAIN_SCOPES
from heddle.vm.builtins.table import ALLOCATING_BUILTINS, BUILTINS, check_call
from heddle.vm.callables import (
    MachineModule,
    ProgramFunction,
    UnknownFunctionError,
    UnresolvedFunctionError,
    compact,
    raw_callable,
)
from heddle.vm.codes import V0301, V0303, V0402
from heddle.vm.constants import LateConstant, not_loaded
from heddle.vm.dataflow import callee_of
from heddle.vm.executable import Executable
from heddle.vm.frames import (
    FAILURES,
    add_place,
    are_equal,
    checked_builtin,
    closure_target,
    is_true,
    too_deep,
    typed_failure,
    wrong_count,
)
from heddle.vm.insight.watchable import Watchable
from heddle.vm.isa import UNDEFINED_ARGS, VM_STATE, ArgKind, FuncKind
from heddle.vm.objects import VMClosure
from heddle.vm.placement import (
    MachineMemory,
    MachineTypeError,
    MemoryConfig,
    device_of_kernel,
    launcher,
    placement_of,
    with_host,
)
from heddle.vm.program import CHECKS_LIFETIMES, FunctionRow
from heddle.vm.program_devices import DEVICES, Place, check_devices, param_places
from heddle.vm.stateful import StatefulCalls
from heddle.vm.steps import (
    CLEAR,
    COMPARE,
    DO,
    DO0,
    DO1,
    INVOKE,
    INVOKE_LAST,
    JUMP,
    LEAVE,
    TAIL,
    LinkedFunction,
)


class VMInstrumentReturnKind(IntEnum):
    """The answer of an instrument before a call."""

    NO_OP = 0
    SKIP_RUN = 1


MACHINES: dict[type[Executable], type[Machine]] = {}
"""The machine class for each kind of executable."""


class Machine(StatefulCalls, Watchable):
    """Runs the bytecode of an executable on devices. Each instruction set has a subclass, which resolves
    function table rows and defines the steps of its instructions.

    `device` is one device or several. If the last one is not a CPU, a CPU is appended as host. `memory_cfg`:
    None (pooled), "naive", "pooled", or a map from device to one of them. If the executable has variants, the
    best one for this processor is taken. A program that names several devices needs them all, in its order;
    arguments are moved to the devices of their parameters.

    Raises: FormatError F0111, F0112 for code that this processor cannot run; UsageError V0303 for invalid
    arguments (also a TypeError, ValueError or AssertionError); BytecodeError V01.. for a program that breaks
    a rule; UnresolvedFunctionError V0301 if a callee is missing.
    """

    executable_type: ClassVar[type[Executable]]
    module_type: ClassVar[type[MachineModule]]

    NAIVE_ALLOCATOR = "naive"
    POOLED_ALLOCATOR = "pooled"

    def __init_subclass__(cls) -> None:
        MACHINES.setdefault(cls.executable_type, cls)

    def __init__(
        self,
        rt_mod: Module,
        device: Device | Sequence[Device],
        memory_cfg: MemoryConfig = None,
    ) -> None:
        super().__init__()
        if isinstance(rt_mod, VariantsModule):
            rt_mod = rt_mod.select()
        if not isinstance(rt_mod, self.executable_type):
            raise MachineTypeError(
                V0303,
                f"expected an executable or a module with one, got {type(rt_mod).__name__}",
                help="heddle.compile, relay.vm.compile and runtime.load_module give one",
            )
        rt_mod.verify()
        register_builtins()
        self.executable = rt_mod
        self.devices = with_host(device)
        check_devices(rt_mod.metadata, self.devices if isinstance(device, Device) else device)
        self.max_frames = current_limits().frames
        self.checks_lifetimes = rt_mod.program.metadata.get(CHECKS_LIFETIMES) == "yes"
        self.memory = MachineMemory(memory_cfg, self.checks_lifetimes)
        self.allocators = [self.memory.allocator_of(where) for where in self.devices]
        self._has_far_memory = not all(where.is_host for where in self.devices)
        self.module: Module = self.module_type(self)
        self._instrument: Callable[..., Any] | None = None
        program = rt_mod.program
        self._constants = [self._place(number, value) for number, value in enumerate(program.constants)]
        self._linked = {row.name: LinkedFunction(row) for row in program.functions if row.has_bytecode}
        self._pool: list[Any] = self._function_pool()
        self._values: dict[int, Any] = {}
        self._rows = {row.name: row for row in program.functions if row.kind is not FuncKind.PACKED}
        self._numbers = {row.name: number for number, row in enumerate(program.functions)}
        self._is_linked = self._watched = False

    @property
    def host_device(self) -> Device:
        """The host device: the last device of the machine."""
        return self.devices[-1]

    def wait(self) -> None:
        """Wait for work that calls left pending on devices. Calls on the host leave none."""
        for device in self.devices:
            device.sync()

    # Loading

    def _function_pool(self) -> list[Any]:
        """Resolve all rows of the function table."""
        rows = enumerate(self.executable.program.functions)
        return [self._pool_entry(number, row) for number, row in rows]

    def _pool_entry(self, number: int, row: FunctionRow) -> Any:
        """Resolve a row: an external function, or a closure of bytecode."""
        if row.kind is FuncKind.PACKED:
            return self._resolve_packed(row.name)
        if row.num_args == UNDEFINED_ARGS:
            return VMClosure(row.name, _undefined(row.name))
        linked = self._linked.get(row.name)
        return VMClosure(row.name, lambda vm, *args: vm._run(linked, args), linked)

    def _place(self, number: int, value: Any) -> Any:
        if isinstance(value, LateConstant):
            raise not_loaded(value)
        if not isinstance(value, Tensor):
            return value
        placement = placement_of(self.executable.program.memory_scopes.get(number, ""))
        assert placement is not None  # verified before
        scope, index = placement
        if index >= len(self.devices):
            raise UsageError(
                V0303, f"constant {number} lies on device {index}: there are {len(self.devices)} devices"
            )
        if scope not in PLAIN_SCOPES:
            raise UsageError(
                V0303, f"memory scope {scope!r} of constant {number} does not exist on {self.devices[index]}"
            )
        return value.to_device(self.devices[index], self.allocators[index]).readonly()

    def _resolve_packed(self, name: str) -> Callable[..., Any]:
        found = self.executable.find_function(name, True) or find_global_func(name)
        if found is None:
            raise UnresolvedFunctionError(
                V0301,
                f"cannot find function {name!r} in the executable's modules or among the global functions",
                help="register_global_func makes a python function known",
            )
        if name in ALLOCATING_BUILTINS and raw_callable(found) is BUILTINS[name]:
            return Function(partial(BUILTINS[name], memory=self.memory), name)
        is_far = self._has_far_memory and name not in BUILTINS
        if not is_far or self.executable.find_function(name, True) is None:
            return found
        where = device_of_kernel(name, self.executable.metadata, self.devices)
        return found if where.is_host else Function(launcher(where, raw_callable(found)), name)

    def watching_changed(self) -> None:
        """Called when an instrument or an observer was added or removed."""
        self._watched = self._instrument is not None or "_run" in self.__dict__

    def function_value(self, number: int) -> Any:
        """Return a row as a value. A builtin that is one says what is wrong with its operands."""
        if number not in self._values:
            entry, name = self._pool[number], self.executable.program.functions[number].name
            is_builtin = self._is_builtin(number)
            self._values[number] = checked_builtin(name, raw_callable(entry)) if is_builtin else entry
        return self._values[number]

    def pool_entry(self, number: int) -> Any:
        """Return the object that a row of the function table resolves to."""
        return self._pool[number]

    def ensure_linked(self) -> None:
        if not self._is_linked:
            self._link()

    def _link(self) -> None:
        """Decode all functions. If an instrument is set, every call goes through it; this is the machine's
        only hook."""
        self._is_linked = True
        for row in self.executable.program.functions:
            if row.has_bytecode:
                self._link_function(row, self._linked[row.name])

    @abstractmethod
    def _link_function(self, row: FunctionRow, target: LinkedFunction) -> None:
        """Decode a function's instructions to steps."""

    def _is_builtin(self, number: int) -> bool:
        """Whether a row resolves to the machine's own builtin and not to a user's override."""
        name = self.executable.program.functions[number].name
        call = raw_callable(self._pool[number])
        return name in BUILTINS and (call.func if isinstance(call, partial) else call) is BUILTINS[name]

    def _call_of(self, number: int, num_args: int) -> Callable[..., Any]:
        """Return the callable for call instructions of a row with so many operands. Its result is a runtime
        value.

        Raises: BytecodeError V0408 for a builtin that does not take so many arguments.
        """
        entry, name = self._pool[number], self.executable.program.functions[number].name
        is_builtin = self._is_builtin(number)
        if is_builtin:
            check_call(name, num_args)
        if self._instrument is not None:
            return self._instrumented(entry, name, self._instrument)
        if isinstance(entry, VMClosure):
            return lambda *args: entry.impl(self, *args)
        call = raw_callable(entry)
        if isinstance(call, types.BuiltinFunctionType) or is_builtin:
            return call
        return lambda *args: to_value(call(*args))

    def _operand(self, kind: ArgKind, value: int) -> Any:
        if kind is ArgKind.IMMEDIATE:
            return value
        if kind is ArgKind.CONSTANT:
            return self._constants[value]
        if kind is ArgKind.FUNCTION:
            return self.function_value(value)
        return self if value == VM_STATE else None

    # Running

    def _run(self, function: LinkedFunction, args: Sequence[Any]) -> Any:
        self.ensure_linked()
        if len(args) != function.num_args:
            raise wrong_count(function.name, function.num_args, function.param_names, len(args))
        frame = function.template.copy()
        frame[: function.num_args] = args
        code, pc, max_frames = function.steps, 0, self.max_frames
        callers: list[tuple[LinkedFunction, list[Any], int]] = []
        try:
            while True:
                op, a, b, dst = code[pc]
                if op == DO:
                    frame[dst] = a(*b(frame))
                    pc += 1
                elif op == CLEAR:
                    frame[dst] = None
                    pc += 1
                elif op == DO1:
                    frame[dst] = a(frame[b])
                    pc += 1
                elif op == DO0:
                    frame[dst] = a()
                    pc += 1
                elif op <= INVOKE_LAST:
                    args = b(frame)
                    if op >= INVOKE:
                        a, args = closure_target(args)
                    if a is None:
                        frame[dst] = self.invoke_closure(*args)
                        args = ()
                        pc += 1
                        continue
                    if op != TAIL and op != INVOKE_LAST:
                        if len(callers) >= max_frames:
                            raise too_deep(a, max_frames)
                        callers.append((function, frame, pc))
                    frame = a.template.copy()
                    frame[: a.num_args] = args
                    args = ()  # only registers keep values alive, so a dropped value is freed
                    function, code, pc = a, a.steps, 0
                elif op == LEAVE:
                    value = frame[a]
                    if not callers:
                        return value
                    function, frame, pc = callers.pop()
                    code = function.steps
                    frame[code[pc][3]] = value
                    value = None
                    pc += 1
                elif op == JUMP:
                    pc = a
                elif op == COMPARE:
                    pc = dst if are_equal(*a(frame)) else b
                elif type(frame[a]) is bool:
                    pc = pc + 1 if frame[a] else b
                else:
                    pc = pc + 1 if is_true(frame[a]) else b
        except FAILURES as error:
            blamed = self.blame(error, function, pc)
            if blamed is error:
                raise
            raise blamed from error

    def blame(self, error: Exception, function: LinkedFunction, pc: int) -> Exception:
        """Return the exception to raise for an exception at an instruction. Its position is added, and it
        becomes a trap unless it came from a user's function."""
        step = self.executable.program.instruction(function.first + pc)
        number = callee_of(step)
        name = step.spec.mnemonic if number is None else self.executable.program.functions[number].name
        found = typed_failure(error, name, is_instruction=number is None) or error
        if isinstance(found, HeddleError):
            add_place(found, self.executable.program, self._rows[function.name], pc)
        return found

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        """Call a closure of this machine, or any function. Raises: TrapTypeError V0402 for another value."""
        if isinstance(closure, VMClosure):
            return closure.impl(self, *args)
        if callable(closure):
            return to_value(raw_callable(closure)(*args))
        raise TrapTypeError(V0402, f"expected a closure, got {type(closure).__name__}")

    # Calling from Python

    def _closure(self, name: str) -> VMClosure:
        """Return a saved call or a function of the program as a closure. Raises: UnknownFunctionError
        V0301; TrapTypeError V0402 for a name that is no text.
        """
        if not isinstance(name, str):
            raise TrapTypeError(V0402, f"expected the name of a function, got {type(name).__name__}")
        saved = self._saved.get(name)
        if saved is not None:
            return saved
        if name not in self._rows:
            known = (*self._saved, *self._rows)
            raise UnknownFunctionError(
                V0301,
                f"Cannot find function {name!r} in the executable: it has {', '.join(known) or 'none'}",
                help=did_you_mean(name, known),
            )
        found: VMClosure = self._pool[self._numbers[name]]
        return found

    def _parameters(self, name: str) -> tuple[int, tuple[str, ...]]:
        self._closure(name)
        row = self._rows.get(name)
        return (row.num_args, row.param_names) if row is not None else (0, ())

    def _places(self, name: str) -> list[Place]:
        row = self._rows.get(name)
        return [] if row is None else param_places(self.executable.metadata, name, row.num_args)

    def __getitem__(self, name: str) -> Function:
        """Return a callable for a saved call or a function of the program. Raises: UnknownFunctionError V0301
        (also an AttributeError)."""
        closure = self._closure(name)
        if DEVICES in self.executable.metadata:
            moved = partial(self._on_devices, name)
            return ProgramFunction(lambda *args: closure.impl(self, *moved(map(compact, args))), name)
        if closure.direct is not None:
            return ProgramFunction(closure.direct, name)
        return ProgramFunction(lambda *args: closure.impl(self, *map(compact, args)), name)

    def get_function(self, name: str) -> Function:
        """Return a callable for a function of the program or a saved call. Raises: UnknownFunctionError
        V0301."""
        return self[name]

    def trim(self) -> None:
        """Return the unused memory of the machine's allocators to the system. Other machines share these
        allocators."""
        for allocator in dict.fromkeys(self.allocators):
            allocator.clear()

    def set_instrument(self, instrument: Callable[..., Any] | str | None) -> None:
        """Call `instrument(func, name, before_run, ret_value, *args)` before and after every call
        instruction.

        If it returns SKIP_RUN before a call, the call is skipped and its result is None. What it returns
        after a call is ignored. `instrument` may be the name of a global function. None removes the
        instrument.
        """
        if isinstance(instrument, str):
            instrument = get_global_func(instrument)
        self._instrument = raw_callable(instrument) if instrument is not None else None
        self.watching_changed()
        self._link()

    def _instrumented(self, entry: Any, name: str, instrument: Callable[..., Any]) -> Callable[..., Any]:
        shown = entry if isinstance(entry, (Function, VMClosure)) else Function(entry, name)

        def call(*args: Any) -> Any:
            answer = instrument(shown, name, True, None, *args)
            if isinstance(answer, int) and answer == VMInstrumentReturnKind.SKIP_RUN:
                return None
            result = self.invoke_closure(entry, *args)
            instrument(shown, name, False, result, *args)
            return result

        return call

    def time_evaluator(self, func_name: str, *options: Any, **named: Any) -> Callable[..., BenchmarkResult]:
        """Return a function that times `func_name`: a function, a saved call, or `"invoke_stateful"` (which
        then takes a function name). The options are those of `Module.time_evaluator`."""
        return self.module.time_evaluator(func_name, *options, **named)


def _undefined(name: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise UnknownFunctionError(V0301, f"function {name!r} was declared and never defined")

    return refuse
