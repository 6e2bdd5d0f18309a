"""The table that the builtin files fill."""

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
"""Those that call a function of the user's: its exceptions pass through."""
ALLOCATING_BUILTINS: set[str] = set()
"""Those that take a keyword `memory`, which machines give them: where new tensors come from."""
REACHING_BUILTINS: dict[str, str] = {}
"""Those that reach beyond the program's own values, and what they reach: programs from outside may not."""


def check_call(name: str, num_args: int) -> None:
    """Raises: BytecodeError V0408 for a builtin that cannot be called with so many arguments."""
    function = BUILTINS.get(name)
    if function is None:
        return
    code = function.__code__
    most = num_args if code.co_flags & inspect.CO_VARARGS else code.co_argcount
    if not code.co_argcount - len(function.__defaults__ or ()) <= num_args <= most:
        raise BytecodeError(V0408, f"builtin {name!r} does not take {num_args} arguments")


def builtin(name: str, calls: bool = False, allocates: bool = False, reaches: str = "") -> Callable[[F], F]:
    """Declare the function below as `vm.builtin.<name>`. `calls`: it calls functions that it is given.
    `allocates`: it takes a keyword `memory`. `reaches`: what it gets at beyond the program's own values."""

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
