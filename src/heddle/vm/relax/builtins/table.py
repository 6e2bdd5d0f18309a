"""The table that the builtin files fill."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

PREFIX = "vm.builtin."
BUILTINS: dict[str, Callable[..., Any]] = {}


def takes(function: Callable[..., Any], num_args: int) -> bool:
    """Whether a builtin can be called with so many arguments."""
    code = function.__code__
    most = num_args if code.co_flags & inspect.CO_VARARGS else code.co_argcount
    return code.co_argcount - len(function.__defaults__ or ()) <= num_args <= most


def builtin(name: str) -> Callable[[F], F]:
    """Declare the function below as `vm.builtin.<name>`."""

    def declare(function: F) -> F:
        assert PREFIX + name not in BUILTINS, f"builtin {name} is declared twice"
        BUILTINS[PREFIX + name] = function
        return function

    return declare
