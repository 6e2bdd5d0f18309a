"""The namespace `T` of scripts, with the decorator for loop functions."""

from __future__ import annotations

from typing import Any

from heddle.script.decorators import in_class_body, left_alone, parse_decorated, unwrapped
from heddle.tir import script as _words
from heddle.tir.script import *  # noqa: F403 (a namespace is meant to hand on every word)


def prim_func(func: Any = None, **options: Any) -> Any:
    """Decorate a function: return the PrimFunc that it describes. In a module class, the decorator of the
    class parses it."""
    if in_class_body():
        return left_alone(func)
    return unwrapped(func, options, parse_decorated)


def __getattr__(name: str) -> Any:
    return getattr(_words, name)
