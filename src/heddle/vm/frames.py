"""Entering functions: what the machine's loop and the loops that watch it have to agree on."""

from __future__ import annotations

import ctypes
import struct
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heddle.runtime.codes import U0601
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import HeddleError, Trap, TrapIndexError, TrapTypeError, TrapValueError
from heddle.vm.builtins.table import BUILTINS, CALLING_BUILTINS
from heddle.vm.codes import V0302, V0305, V0405, V0408
from heddle.vm.objects import VMClosure
from heddle.vm.program import FunctionRow, Program
from heddle.vm.steps import LinkedFunction


def closure_target(args: Sequence[Any]) -> tuple[LinkedFunction | None, Sequence[Any]]:
    """What the operands (machine, closure, arguments...) of an invocation enter, and with which arguments; no
    target where the closure is not bytecode."""
    _, closure, *rest = args
    if type(closure) is not VMClosure or closure.target is None:
        return None, args[1:]
    target: LinkedFunction = closure.target
    rest += closure.bound
    if len(rest) != target.num_args:
        raise wrong_count(target.name, target.num_args, target.param_names, len(rest))
    return target, rest


def wrong_count(name: str, expected: int, param_names: Sequence[str], got: int) -> Trap:
    """The error of a call with a number of arguments that the function does not take (V0302)."""
    names = f" ({', '.join(param_names)})" if param_names else ""
    return Trap(V0302, f"function {name!r} expects {expected} arguments{names}, got {got}")


def too_deep(function: LinkedFunction, most: int) -> Trap:
    """The error of more calls inside each other than a machine allows (V0305)."""
    return Trap(
        V0305,
        f"call depth exceeded in {function.name!r}: expected at most {most} frames",
        help="a call in the last place takes no room; to raise the limit: make the machine "
        "with heddle.config.limits(frames=VALUE)",
    )


def add_place(error: HeddleError, program: Program, row: FunctionRow, pc: int) -> None:
    """Say where a failure was: in the program, and in the user's model."""
    error.add_place(f"instruction {pc} of {row.name!r}", program.line_table.get(row.start + pc))


def is_true(condition: Any) -> bool:
    """What an If does with its register. Raises: TrapTypeError V0405 for anything but a bool or an int."""
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
    that is no bool, integer or tensor with an element of one."""
    return integer_of(value) == integer_of(target)


def integer_of(value: Any) -> int:
    """The integer that a scalar is. Raises: as `are_equal`."""
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, Tensor):
        raise TrapTypeError(V0405, f"expected an integer or a tensor, got {type(value).__name__}")
    element = _INTEGERS.get(value.dtype)
    if element is None:
        raise TrapTypeError(V0405, f"expected a bool or integer dtype, got {value.dtype}")
    if value.layout.num_elements != 1:
        raise TrapValueError(V0405, f"expected one element, got a tensor of shape {tuple(value.shape)}")
    return int(element.from_address(value.address).value)


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
"""Its own errors, and what Python and numpy raise for operands of a wrong form."""
_TRAPS: dict[type[Exception], type[Trap]] = {
    TypeError: TrapTypeError,
    ValueError: TrapValueError,
    IndexError: TrapIndexError,
}
_OWN_CODE, _NUMPY = str(Path(__file__).parents[1]), str(Path(np.__file__).parent)


def typed_failure(error: Exception, callee: str, is_instruction: bool = False) -> Trap | None:
    """The trap for an exception that the machine or a builtin raised, because a program's operands fit no
    check; None for what came out of a function of the user's, whose exceptions keep their type.

    `callee` is the function that the failing instruction calls, or (`is_instruction`) the instruction itself.
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


def _is_own(filename: str) -> bool:
    return filename.startswith((_OWN_CODE, _NUMPY, "<__array_function__", "<frozen"))


def new_frame(function: LinkedFunction, args: Sequence[Any]) -> list[Any]:
    """The registers and constants that a call of `function` starts with. Raises: Trap V0302."""
    if len(args) != function.num_args:
        raise wrong_count(function.name, function.num_args, function.param_names, len(args))
    frame = function.template.copy()
    frame[: function.num_args] = args
    return frame
