"""The table that the builtin files fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

PREFIX = "vm.builtin."
BUILTINS: dict[str, Callable[..., Any]] = {}


def builtin(name: str) -> Callable[[F], F]:
    """Declare the function below as `vm.builtin.<name>`."""

    def declare(function: F) -> F:
        assert PREFIX + name not in BUILTINS, f"builtin {name} is declared twice"
        BUILTINS[PREFIX + name] = function
        return function

    return declare
