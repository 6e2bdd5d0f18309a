"""What values the attributes of operators take, for all dialects: each kind of `AttrSpec`."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heddle.graph.codes import R0205
from heddle.graph.virtual_device import VirtualDevice
from heddle.ir.op_def import AttrSpec
from heddle.support.diagnostics import IRTypeError
from heddle.support.span import Span

_WHOLE, _REAL = (int, np.integer), (int, float, np.integer, np.floating)
_KINDS: dict[str, tuple[str, tuple[type, ...], int, bool]] = {
    "int": ("a whole number", _WHOLE, 0, True),
    "ints": ("a list of whole numbers, or one", _WHOLE, 1, True),
    "list": ("a list of whole numbers", _WHOLE, 1, False),
    "pairs": ("a list of pairs of whole numbers", _WHOLE, 2, False),
    "float": ("a number", _REAL, 0, True),
    "floats": ("a list of numbers", _REAL, 1, False),
    "bool": ("True or False", (bool, int), 0, True),
    "device": ("a device", (str, VirtualDevice), 0, True),
    "str": ("a string", (str,), 0, True),
    "dtype": ("the name of an element type", (str,), 0, True),
}
"""Of each kind: what it is called, what its items are, how deeply its lists are nested, and whether one item
stands for a list."""


def is_whole(value: Any) -> bool:
    """Whether a value is one whole number."""
    return isinstance(value, _WHOLE)


def check_kinds(
    name: str, specs: Sequence[AttrSpec], attrs: Mapping[str, Any], span: Span | None = None
) -> None:
    """Whether the attributes of a call of `name` are of their kinds. Raises: IRTypeError R0205."""
    for spec in specs:
        value = attrs.get(spec.name)
        words, items, depth, is_one = _KINDS.get(spec.kind, _KINDS["int"])
        if value is None and spec.default in (None, ""):
            continue
        if not ((is_one and isinstance(value, items)) or (depth and _fits(value, items, depth))):
            message = f"{name}: attribute {spec.name} must be {words}, got {reprlib.repr(value)}"
            raise IRTypeError(R0205, message, span=span)


def _fits(value: Any, items: tuple[type, ...], depth: int) -> bool:
    """Whether these are lists of items, nested to a depth."""
    if depth == 0:
        return isinstance(value, items)
    return isinstance(value, (tuple, list)) and all(_fits(item, items, depth - 1) for item in value)
