"""What tests of Relay share: texts, and values by the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.ir.module import IRModule
from heddle.relay import create_executor, parse

HEAD = '#[version = "0.0.5"]\n'


def program(text: str, mod: IRModule | None = None) -> IRModule:
    """A program of a text without its version."""
    return parse(HEAD + text, "test", mod)


def run(mod: IRModule, *args: Any) -> Any:
    """What `main` gives, as numpy arrays and tuples."""
    return plain(create_executor("debug", mod).evaluate()(*args))


def value(expr: Any, mod: IRModule | None = None) -> Any:
    return plain(create_executor("debug", mod).evaluate(expr))


def plain(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(plain(item) for item in found)
    return found.numpy() if hasattr(found, "numpy") else found


def listed(found: Any) -> list[Any]:
    """The elements of a value of List."""
    items = []
    while len(found):
        items.append(plain(found.fields[0]))
        found = found.fields[1]
    return items


def floats(*shape: int) -> Any:
    return np.random.default_rng().standard_normal(shape).astype("float32")
