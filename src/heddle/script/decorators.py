"""What the decorators share: from a Python object to its source text and the names it can see."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from heddle.script.parser import parse_source
from heddle.support.span import Source


def left_alone(target: Any) -> Any:
    """What a decorator does to a function in a class body: the class's decorator reads it there."""
    return target if target is not None else left_alone


def unwrapped(target: Any, options: dict[str, Any], make: Callable[[Any], Any]) -> Any:
    """Serve both `@decorator` and `@decorator(option=...)`; the options are read from the source text."""
    return make(target) if target is not None else make


def in_class_body() -> bool:
    """Whether the decorator's caller is the body of a class."""
    names = sys._getframe(2).f_locals
    return "__module__" in names and "__qualname__" in names


def _callers_names() -> dict[str, Any]:
    """What can be named where the decorator stands: the first frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("heddle.script"):
        frame = frame.f_back
    return {**frame.f_globals, **frame.f_locals}


def parse_decorated(target: Any) -> Any:
    """The IR that a decorated class or function describes."""
    lines, first_line = inspect.getsourcelines(target)
    name, text = inspect.getsourcefile(target) or "<script>", textwrap.dedent("".join(lines))
    source = Source(name, text, first_line, is_own=True)
    names = _callers_names()
    if inspect.isfunction(target):
        names.update(inspect.getclosurevars(target).nonlocals)
    return parse_source(source, names)
