"""Helpers of the script decorators: get the source text of a Python object and the names that it can see."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from heddle.script.parser import parse_source
from heddle.support.span import Source


def left_alone(target: Any) -> Any:
    """Return a function in a class body unchanged. The decorator of the class parses it later."""
    return target if target is not None else left_alone


def unwrapped(target: Any, options: dict[str, Any], make: Callable[[Any], Any]) -> Any:
    """Support both `@decorator` and `@decorator(option=...)`. The options are read from the source text."""
    return make(target) if target is not None else make


def in_class_body() -> bool:
    """Whether the decorator's caller is the body of a class."""
    names = sys._getframe(2).f_locals
    return "__module__" in names and "__qualname__" in names


def _callers_names() -> dict[str, Any]:
    """Return the names that are visible at the decorator: those of the first frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("heddle.script"):
        frame = frame.f_back
    return {**frame.f_globals, **frame.f_locals}


def parse_decorated(target: Any) -> Any:
    """Parse a decorated class or function to IR."""
    lines, first_line = inspect.getsourcelines(target)
    name, text = inspect.getsourcefile(target) or "<script>", textwrap.dedent("".join(lines))
    source = Source(name, text, first_line, is_own=True)
    names = _callers_names()
    if inspect.isfunction(target):
        names.update(inspect.getclosurevars(target).nonlocals)
    return parse_source(source, names)
