"""Programs of the Relay machine as modules."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heddle.runtime.artefact import Section
from heddle.runtime.module import Module, register_loader
from heddle.runtime.params import load_param_dict, save_param_dict
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.diagnostics import TrapTypeError, UsageError, did_you_mean
from heddle.support.files import write_bytes
from heddle.support.reading import read_bytes, reading
from heddle.vm.callables import UnknownFunctionError
from heddle.vm.codes import V0301, V0303, V0309
from heddle.vm.constants import Constant, LateConstant
from heddle.vm.executable import Executable as AnyExecutable
from heddle.vm.executable import read_program
from heddle.vm.program import FunctionRow, Program
from heddle.vm.relay.isa import RELAY
from heddle.vm.relay.object_file import listed_devices, read_object, write_object
from heddle.vm.relay.text import (
    bytecode_text,
    constants_text,
    devices_text,
    function_rows,
    primitive_names,
    primitives_text,
    stats_text,
)


class ExecutableTypeError(UsageError, TypeError):
    """An argument of the executable that is of another type."""


class Executable(AnyExecutable):
    """A compiled program of the Relay machine; `heddle.vm.relay.VirtualMachine` runs it. Its kernels are in
    `lib`.

    It is stored as an object file beside its kernels (`save`, `load_exec`), or with them in one file
    (`export_library`).
    """

    kind = "relay.Executable"
    isa = RELAY

    def __init__(self, program: Program, imports: Sequence[Module] = ()) -> None:
        super().__init__(program, imports)
        self._queries |= {
            "stats": lambda: self.stats,
            "get_function_arity": lambda name: len(self.get_function_params(name)),
            "get_function_param_name": lambda name, index: self.get_function_params(name)[index],
        }

    # What it holds

    @property
    def module(self) -> Executable:
        """The executable itself."""
        return self

    @property
    def lib(self) -> Module | None:
        """The module with the kernels; None where the program calls none."""
        return self.imports[0] if self.imports else None

    @property
    def bytecode(self) -> str:
        """Every function, an instruction a line."""
        return bytecode_text(self.program)

    @property
    def constants(self) -> str:
        """Every constant and its device, a line each."""
        return constants_text(self.program)

    @property
    def virtual_devices(self) -> str:
        """The devices that the program is for, a line each."""
        return devices_text(listed_devices(self.program))

    @property
    def primitives(self) -> str:
        """Every packed function, a line each."""
        return primitives_text(self.program)

    @property
    def primitive_ops(self) -> list[str]:
        """Names of the packed functions that the program calls, by their number."""
        return primitive_names(self.program)

    @property
    def globals(self) -> list[str]:
        """Names of the program's own functions, by their number."""
        return [row.name for row in function_rows(self.program)]

    @property
    def stats(self) -> str:  # type: ignore[override]
        """How many constants, functions and primitives there are, and which."""
        return stats_text(self.program)

    def function_row(self, name: str) -> FunctionRow:
        """Raises: UnknownFunctionError V0301."""
        found = {row.name: row for row in function_rows(self.program)}
        if not isinstance(name, str) or name not in found:
            raise UnknownFunctionError(
                V0301, f"Cannot find function {name!r} in the executable", help=did_you_mean(name, found)
            )
        return found[name]

    def get_function_params(self, func_name: str) -> list[str]:
        """The names of a function's parameters. Raises: UnknownFunctionError V0301."""
        return list(self.function_row(func_name).param_names)

    # Storing

    def save(self) -> tuple[bytearray, Module | None]:
        """The object file, and the module with the kernels, which is stored on its own (`export_library`).

        Raises: UsageError V0303 for functions without bytecode; BytecodeError V01.. for a program that breaks
        a rule.
        """
        self.verify()
        return bytearray(write_object(self.program)), self.lib

    @staticmethod
    def load_exec(code: bytes | bytearray | memoryview | str, lib: Module | None = None) -> Executable:
        """The executable of an object file and its kernels. A text stands for the bytes with its characters'
        numbers.

        Raises: ExecutableTypeError V0303 (a TypeError) for arguments of other types, FormatError F0106 for a
        malformed file, BytecodeError V01.. for a program that breaks a rule.
        """
        if isinstance(code, str):
            try:
                code = code.encode("latin-1")
            except UnicodeEncodeError:
                raise ExecutableTypeError(V0303, "expected bytes, got a text with other characters") from None
        if not isinstance(code, (bytes, bytearray, memoryview)):
            raise ExecutableTypeError(V0303, f"expected the code as bytes, got {type(code).__name__}")
        if lib is not None and not isinstance(lib, Module):
            raise ExecutableTypeError(V0303, f"expected lib to be a module, got {type(lib).__name__}")
        made = Executable(read_object(bytes(code)), [] if lib is None else [lib])
        made.verify()
        return made

    # Constants in a file of their own

    def get_late_bound_consts(self, byte_limit: int) -> dict[str, Tensor]:
        """The tensors of at least so many bytes, by the names that they get. Integers of 32 bits and more
        are not among them: kernels rely on what they hold, so that they cannot be given later."""
        return {
            f"const_{number}": value
            for number, value in enumerate(self.program.constants)
            if isinstance(value, Tensor) and value.size_bytes >= byte_limit and not value.dtype.may_index
        }

    def move_late_bound_consts(self, path: str | os.PathLike[str], byte_limit: int) -> None:
        """Write the tensors of at least so many bytes to a file (as `save_param_dict` does); the executable
        has their names alone from then on. Raises: S0101 where the path cannot be written."""
        moved = self.get_late_bound_consts(byte_limit)
        write_bytes(path, save_param_dict(moved))
        late = {id(value): LateConstant(name) for name, value in moved.items()}
        self._change_constants(lambda value: late.get(id(value), value))

    def _change_constants(self, change: Callable[[Constant], Constant]) -> None:
        self.program = replace(self.program, constants=tuple(change(each) for each in self.program.constants))

    def load_late_bound_consts(self, path: str | os.PathLike[str]) -> None:
        """Put the tensors of a file in their places. Raises: UsageError S0102 for a file that cannot be read;
        FormatError F0106; as `load_late_bound_consts_from_map`."""
        with reading(path):
            data = read_bytes(path)
        self.load_late_bound_consts_from_map(load_param_dict(data))

    def load_late_bound_consts_from_map(self, map: Mapping[str, Any]) -> None:
        """Put tensors in their places, by name. Raises: ExecutableTypeError V0303 for no mapping; UsageError
        V0309 for names that are missing, or that nobody asks for."""
        if not isinstance(map, Mapping):
            raise ExecutableTypeError(V0303, f"expected constants by name, got {type(map).__name__}")
        wanted = {value.name for value in self.program.constants if isinstance(value, LateConstant)}
        if wanted != set(map):
            missing, surplus = sorted(wanted - set(map)), sorted(str(name) for name in set(map) - wanted)
            raise UsageError(
                V0309,
                f"late-bound constants differ: missing {', '.join(missing) or 'none'}, "
                f"not asked for {', '.join(surplus) or 'none'}",
            )
        self._change_constants(
            lambda value: _tensor(map[value.name]) if isinstance(value, LateConstant) else value
        )


def _tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        return tensor(value)
    except (TypeError, ValueError) as error:
        raise TrapTypeError(V0303, f"expected a tensor as constant, got {type(value).__name__}") from error


def load_executable(sections: Mapping[str, Section]) -> Executable:
    """The executable whose sections these are, verified. Raises: as `read_program`."""
    return Executable(read_program(RELAY, sections))


register_loader(Executable.kind, load_executable)
