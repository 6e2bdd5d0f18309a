"""Machine code of a program's functions, joined to a machine: what `exec_mode="compiled"` runs.

A context holds what the code needs: pools by device, constants and functions as values, and the entry by
which it calls back. Python is entered for functions that are not native (callbacks, rare builtins) and to
word errors. See `heddle/runtime/native/source/calls.py` and `program_calls.py`.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from heddle.runtime.data import ConstructorValue
from heddle.runtime.function import to_value
from heddle.runtime.kernel_module import PROGRAM_PREFIX, KernelModule
from heddle.runtime.module import Module
from heddle.runtime.native import abi, objects
from heddle.runtime.native.errors import native_error
from heddle.runtime.native.glue import configure_glue
from heddle.runtime.native.library import native_library
from heddle.runtime.native.memory import record_of
from heddle.runtime.native.methods import make_fast_method, slot_offset
from heddle.runtime.shape import Array, Shape, TextTensor
from heddle.runtime.storage import Allocator
from heddle.support.collection import unseen
from heddle.support.diagnostics import HeddleError, Trap
from heddle.support.limits import current_limits
from heddle.systems.types import ctype_of
from heddle.vm.builtins.closures import make_closure
from heddle.vm.builtins.table import BUILTINS
from heddle.vm.codes import V0305, V0307
from heddle.vm.dataflow import callee_of
from heddle.vm.frames import FAILURES, add_place, typed_failure, wrong_count
from heddle.vm.isa import FuncKind
from heddle.vm.objects import VMClosure
from heddle.vm.program import FunctionRow, Program

_CLOSURE_CALL = -1
_BUSY, _OWN_ERROR = -1, -2
_Context = ctype_of(abi.Context)
_OWNER = abi.Context.layout.fields["owner"].offset_bytes
_ENTRY_BYTES = abi.Entry.layout.size_bytes
_NOWHERE, _NO_FUNCTION = -1, -1


def native_code(executable: Module, row: FunctionRow) -> KernelModule | None:
    """The module that holds a compiled function's machine code."""
    if row.kind is FuncKind.VMTIR:
        for module in executable.imports:
            if isinstance(module, KernelModule) and PROGRAM_PREFIX + row.name in module.names:
                return module
    return None


class _ProgramMemory:
    """What machine code reads and writes by address: the context, and tables that it leads to. Constants come
    after `base`, functions before it, last first.
    """

    def __init__(self, program: Program, pools: Sequence[Allocator], owner: int) -> None:
        self.entries = ctypes.create_string_buffer(_ENTRY_BYTES * max(len(program.functions), 1))
        words = [len(pools), *(pool.address for pool in pools)]
        self.pool_table = ctypes.create_string_buffer(struct.pack(f"<{len(words)}q", *words))
        self._count = len(program.functions) + len(program.constants)
        self.values = ctypes.create_string_buffer(objects.VALUE_BYTES * (self._count + 1))
        self.base = ctypes.addressof(self.values) + objects.VALUE_BYTES * len(program.functions)
        context = _Context(
            pools=ctypes.addressof(self.pool_table),
            constants=self.base,
            functions=ctypes.addressof(self.entries),
            host_call=native_library().addresses["heddle_python_call"],
            error_place=_NOWHERE,
            owner=owner,
            stack_left=current_limits().stack_bytes,
            asks=1,
        )
        self.context = ctypes.create_string_buffer(bytes(context), ctypes.sizeof(context))
        self.borrowed: Any = None

    def __del__(self) -> None:
        objects.runtime().release_all(None, ctypes.addressof(self.values), self._count)


class NativeProgram:
    """The native functions of one machine. `machine` has `pool_entry`, `invoke_closure`."""

    def __init__(self, machine: Any, program: Program, pools: Sequence[Allocator]) -> None:
        configure_programs()
        self._machine = machine
        self._program = program
        self._pools = list(pools)
        self._translator = objects.ObjectTranslator(machine, self._closure, self._is_ours)
        self._callables: dict[str, Callable[..., Any]] = {}
        self._objects_at = self._native_method("heddle_objects_at")
        self._store = self._native_method("heddle_store_object")
        self._memory = _ProgramMemory(program, pools, id(self))
        self._keeper = unseen(self._memory)  # finalizers may call the functions
        self.address = ctypes.addressof(self._memory.context)
        self._context = _Context.from_address(self.address)

    def place_constants(self, constants: Sequence[Any], functions: Sequence[Any]) -> None:
        """Make the constants and the function pool known to the code."""
        for number, value in enumerate(constants):
            self._translator.store(self._memory.base + objects.VALUE_BYTES * number, value)
        self._functions = list(functions)
        self._memory.borrowed, payloads = self._translator.borrow(self._functions)
        for number, payload in enumerate(payloads):
            at = self._memory.base - objects.VALUE_BYTES * (number + 1)
            if self._program.functions[number].name in self._callables:
                objects.write_value(at, objects.CLOSURE, self._translator.new_closure(number))
            else:
                objects.write_value(at, objects.FOREIGN, payload)

    def add_function(self, number: int, module: KernelModule) -> Callable[..., Any]:
        """A builtin function that runs the machine code of a function with this machine's context."""
        row = self._program.functions[number]
        code = module.address(PROGRAM_PREFIX + row.name)
        entry = record_of(abi.Entry, code, row.num_args)
        ctypes.memmove(ctypes.byref(self._memory.entries, _ENTRY_BYTES * number), entry, _ENTRY_BYTES)
        record = record_of(abi.ProgramRecord, self.address, code, row.num_args)
        call = make_fast_method(
            row.name, native_library().addresses["heddle_call_program"], record, (self, number, module)
        )
        self._callables[row.name] = call
        return call

    def _native_method(self, symbol: str) -> Callable[..., Any]:
        """A function of `source/host_values.py`, which asks this object for what it does not do itself."""
        return make_fast_method(symbol, native_library().addresses[symbol], b"", (self, _NO_FUNCTION, None))

    def _is_ours(self) -> bool:
        """Whether no other thread runs the machine."""
        return not self._context.calls or self._context.thread == get_ident()

    def _closure(self, number: int, bound: tuple[Any, ...]) -> Any:
        """The Python form of a native closure."""
        entry = self._machine.function_value(number)
        return make_closure(entry, *bound) if bound else entry

    # What native code asks Python for

    def to_native(self, value: Any, at: int) -> None:
        """Write a Python value to the 16 bytes at an address.

        Raises: Trap V0305 for tuples nested too deep.
        """
        try:
            objects.write_value(at, *self._translator.to_native(to_value(value)))
        except RecursionError as error:
            raise _nested_too_deep() from error

    def from_native(self, at: int) -> Any:
        """The Python value of the 16 bytes at an address."""
        try:
            return self._translator.from_native(at, 1)[0]
        except RecursionError as error:
            raise _nested_too_deep() from error

    def call_host(self, function: int, args: int, count: int, result: int) -> None:
        """Call a function of the table, or a closure, for machine code: `count` values at `args`, the result
        to `result`. A failure gets its place in the program."""
        place = self._context.call_place
        try:
            values = self._objects_at(args, count)
            if function == _CLOSURE_CALL:
                value = self._machine.invoke_closure(*values)
            else:
                value = self._machine.invoke_closure(self._machine.pool_entry(function), *values)
            self._store(result, value)
        except FAILURES as error:
            callee = "" if function == _CLOSURE_CALL else self._program.functions[function].name
            blamed = typed_failure(error, callee) or error
            if isinstance(blamed, HeddleError):
                add_place(blamed, self._program, *self._place(place))
            if blamed is error:
                raise
            raise blamed from error

    def refuse(self, number: int, count: int) -> None:
        """Say what is wrong with a call that was not begun."""
        if count == _OWN_ERROR:
            raise native_error()
        row = self._program.functions[number]
        if count == _BUSY:
            raise Trap(
                V0307,
                f"function {row.name!r} was called while another thread runs the same machine",
                help="give each thread a machine of its own: they can share the executable",
            )
        raise wrong_count(row.name, row.num_args, row.param_names, count)

    def watch(self, watched: bool) -> None:
        """Let calls from Python go to the machine's bytecode while something watches it."""
        self._context.watched = int(watched)

    def run_watched(self, number: int, args: Sequence[Any]) -> Any:
        """Run a function's bytecode, because somebody watches the machine."""
        entry: VMClosure = self._machine.pool_entry(number)
        return entry.impl(self._machine, *[to_value(arg) for arg in args])

    def raise_error(self) -> None:
        """Raise the error that machine code stored, with its place in the program."""
        if self._context.error_place == _NOWHERE:
            raise native_error()  # before the first instruction: the stack has no room
        row, pc = self._place(self._context.error_place)
        error = native_error(self._kernel_note(row, pc))
        add_place(error, self._program, row, pc)
        raise error

    def _place(self, place: int) -> tuple[FunctionRow, int]:
        """The function and instruction of a place that the context holds."""
        return self._program.functions[place >> 32], place & 0xFFFFFFFF

    def _kernel_note(self, row: FunctionRow, pc: int) -> list[str]:
        step = self._program.instruction(row.start + pc) if row.has_bytecode else None
        number = None if step is None else callee_of(step)
        if number is None:
            return []
        called = self._program.functions[number]
        is_kernel = called.kind is FuncKind.PACKED and called.name not in BUILTINS
        return [f"in kernel {called.name!r}"] if is_kernel else []


def _nested_too_deep() -> Trap:
    """Tuples in tuples are converted by recursion, which Python bounds."""
    return Trap(V0305, "a tuple is nested too deep to pass between Python and machine code")


_Keep = tuple[NativeProgram, int, KernelModule | None]


def _to_native(keep: _Keep, value: Any, _context: int, at: int) -> None:
    keep[0].to_native(value, at)


def _from_native(keep: _Keep, at: int) -> Any:
    return keep[0].from_native(at)


def _call_host(context: int, function: int, args: int, count: int, result: int) -> None:
    program: NativeProgram = objects.object_in(context + _OWNER)  # the call keeps it
    program.call_host(function, args, count, result)


def _refuse(keep: _Keep, count: int) -> None:
    keep[0].refuse(keep[1], count)


def _watch(bound: tuple[bytes, _Keep], args: tuple[Any, ...]) -> Any:
    return bound[1][0].run_watched(bound[1][1], args)


def _raise_error(keep: _Keep) -> None:
    keep[0].raise_error()


_configured: list[bool] = []


def configure_programs() -> None:
    """Tell the native library which Python functions it may ask."""
    if not _configured:
        configure_glue()
        configure = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 11, *[ctypes.c_int64] * 2)(
            native_library().addresses["heddle_program_configure"]
        )
        hooks = (_to_native, _from_native, _call_host, _refuse, _raise_error, _watch)
        classes = (Array, ConstructorValue, tuple, TextTensor, Shape)
        slots = slot_offset(ConstructorValue, "tag"), slot_offset(ConstructorValue, "fields")
        configure(*map(id, (*hooks, *classes)), *slots)
        _configured.append(True)
