"""The namespace `R` of scripts, with the decorator for graph functions."""

from __future__ import annotations

from typing import Any

from heddle.relax import script as _words
from heddle.relax.script import *  # type: ignore[assignment]  # noqa: F403 (a namespace hands on every word)
from heddle.script.decorators import in_class_body, left_alone, parse_decorated, unwrapped


def function(func: Any = None, **options: Any) -> Any:
    """Decorate a function: return the Relax Function that it describes. In a module class, the decorator of
    the class parses it."""
    if in_class_body():
        return left_alone(func)
    return unwrapped(func, options, parse_decorated)


def __getattr__(name: str) -> Any:
    return getattr(_words, name)


def __dir__() -> list[str]:
    return dir(_words)
