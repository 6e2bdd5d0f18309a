"""The table of builtins, which the files of this package fill."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from heddle.vm.codes import V0408
from heddle.vm.objects import BytecodeError

F = TypeVar("F", bound=Callable[..., Any])

PREFIX = "vm.builtin."
BUILTINS: dict[str, Callable[..., Any]] = {}
CALLING_BUILTINS: set[str] = set()
"""Builtins that call a function of the user. Exceptions of that function pass through unchanged."""
ALLOCATING_BUILTINS: set[str] = set()
"""Builtins with a keyword parameter `memory`: the allocators for new tensors, which the machine passes."""
REACHING_BUILTINS: dict[str, str] = {}
"""Builtins that access more than the program's own values, and what they access. Untrusted programs may not
call them."""


def check_call(name: str, num_args: int) -> None:
    """Check that a builtin can be called with so many arguments. Raises: BytecodeError V0408 if not."""
    function = BUILTINS.get(name)
    if function is None:
        return
    code = function.__code__
    most = num_args if code.co_flags & inspect.CO_VARARGS else code.co_argcount
    if not code.co_argcount - len(function.__defaults__ or ()) <= num_args <= most:
        raise BytecodeError(V0408, f"builtin {name!r} does not take {num_args} arguments")


def builtin(name: str, calls: bool = False, allocates: bool = False, reaches: str = "") -> Callable[[F], F]:
    """Declare the decorated function as `vm.builtin.<name>`.

    `calls`: it calls functions that it gets as arguments. `allocates`: it has a keyword parameter `memory`.
    `reaches`: what it accesses beyond the program's own values ("" for nothing).
    """

    def declare(function: F) -> F:
        assert PREFIX + name not in BUILTINS, f"builtin {name} is declared twice"
        BUILTINS[PREFIX + name] = function
        if calls:
            CALLING_BUILTINS.add(PREFIX + name)
        if allocates:
            ALLOCATING_BUILTINS.add(PREFIX + name)
        if reaches:
            REACHING_BUILTINS[PREFIX + name] = reaches
        return function

    return declare
