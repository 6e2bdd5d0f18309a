"""Calling conventions and errors that the machine's loop and the loops of debuggers and profilers share."""

from __future__ import annotations

import ctypes
import struct
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heddle.runtime.codes import U0601
from heddle.runtime.device import cpu
from heddle.runtime.function import Function
from heddle.runtime.tensor import Tensor, is_far
from heddle.support.diagnostics import HeddleError, Trap, TrapIndexError, TrapTypeError, TrapValueError
from heddle.vm.builtins.table import BUILTINS, CALLING_BUILTINS, check_call
from heddle.vm.codes import V0302, V0305, V0405, V0408
from heddle.vm.objects import VMClosure
from heddle.vm.program import FunctionRow, Program
from heddle.vm.steps import LinkedFunction


def closure_target(args: Sequence[Any]) -> tuple[LinkedFunction | None, Sequence[Any]]:
    """Return the function and the arguments of a closure call with the operands (machine, closure,
    arguments...). The function is None if the closure is not bytecode."""
    _, closure, *rest = args
    if type(closure) is not VMClosure or closure.target is None:
        return None, args[1:]
    target: LinkedFunction = closure.target
    rest += closure.bound
    if len(rest) != target.num_args:
        raise wrong_count(target.name, target.num_args, target.param_names, len(rest))
    return target, rest


def wrong_count(name: str, expected: int, param_names: Sequence[str], got: int) -> Trap:
    """Return the error (V0302) for a call with the wrong number of arguments."""
    names = f" ({', '.join(param_names)})" if param_names else ""
    return Trap(V0302, f"function {name!r} expects {expected} arguments{names}, got {got}")


def too_deep(function: LinkedFunction, most: int) -> Trap:
    """Return the error (V0305) for more nested calls than a machine allows."""
    return Trap(
        V0305,
        f"call depth exceeded in {function.name!r}: expected at most {most} frames",
        help="a call in the last place takes no room; to raise the limit: make the machine "
        "with heddle.config.limits(frames=VALUE)",
    )


def add_place(error: HeddleError, program: Program, row: FunctionRow, pc: int) -> None:
    """Add the position of a failure to an error: in the program and in the user's model."""
    error.add_place(f"instruction {pc} of {row.name!r}", program.line_table.get(row.start + pc))


def is_true(condition: Any) -> bool:
    """Return the truth value of an If condition. Raises: TrapTypeError V0405 for another value than a bool or
    an int."""
    if isinstance(condition, int):
        return condition != 0
    raise TrapTypeError(V0405, f"a branch needs a bool or an integer, got {type(condition).__name__}")


_INTEGERS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    **{f"int{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
}
"""How an element lies in memory, by its dtype."""


def are_equal(value: Any, target: Any) -> bool:
    """Whether two scalars are the same integer. Raises: TrapTypeError or TrapValueError V0405 for a value
    that is not a bool, an integer, or a tensor with one element."""
    return integer_of(value) == integer_of(target)


def integer_of(value: Any) -> int:
    """Return a scalar as an int. Raises: as `are_equal`."""
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, Tensor):
        raise TrapTypeError(V0405, f"expected an integer or a tensor, got {type(value).__name__}")
    element = _INTEGERS.get(value.dtype)
    if element is None:
        raise TrapTypeError(V0405, f"expected a bool or integer dtype, got {value.dtype}")
    if value.layout.num_elements != 1:
        raise TrapValueError(V0405, f"expected one element, got a tensor of shape {tuple(value.shape)}")
    near = value.copyto(cpu(0)) if is_far(value) else value
    return int(element.from_address(near.address).value)


FAILURES = (
    HeddleError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    BufferError,
    MemoryError,
    RuntimeError,
    struct.error,
)
"""Exceptions that become traps: the machine's own errors, and errors of Python and numpy for operands of a
wrong form."""
_TRAPS: dict[type[Exception], type[Trap]] = {
    TypeError: TrapTypeError,
    ValueError: TrapValueError,
    IndexError: TrapIndexError,
}
_OWN_CODE, _NUMPY = str(Path(__file__).parents[1]), str(Path(np.__file__).parent)


def typed_failure(error: Exception, callee: str, is_instruction: bool = False) -> Trap | None:
    """Return the trap for an exception of the machine or a builtin that received wrong operands. Return None
    for an exception from a user's function, which keeps its type.

    `callee` is the function that the failing instruction calls or, with `is_instruction`, the instruction
    itself.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, HeddleError) or any(not _is_own(frame.filename) for frame in frames[1:]):
        return None
    if isinstance(error, MemoryError):
        return Trap(U0601, f"the system has no memory left for {callee or 'another frame'}")
    if not is_instruction and (callee not in BUILTINS or callee in CALLING_BUILTINS):
        return None
    for kind, trap in _TRAPS.items():
        if isinstance(error, kind):
            return trap(V0408, f"{callee} cannot take its operands: {error}")
    return Trap(V0408, f"{callee} cannot take its operands: {type(error).__name__}: {error}")


def checked_builtin(name: str, call: Callable[..., Any]) -> Function:
    """A builtin as a value of a program. Raises when called: BytecodeError V0408 for operands that it does
    not take."""

    def checked(*args: Any) -> Any:
        check_call(name, len(args))
        try:
            return call(*args)
        except FAILURES as error:
            found = typed_failure(error, name)
            if found is None:
                raise
            raise found from error

    return Function(checked, name)


def _is_own(filename: str) -> bool:
    return filename.startswith((_OWN_CODE, _NUMPY, "<__array_function__", "<frozen"))


def new_frame(function: LinkedFunction, args: Sequence[Any]) -> list[Any]:
    """Return the initial frame of a call: its registers and constants. Raises: Trap V0302."""
    if len(args) != function.num_args:
        raise wrong_count(function.name, function.num_args, function.param_names, len(args))
    frame = function.template.copy()
    frame[: function.num_args] = args
    return frame
