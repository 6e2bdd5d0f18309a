"""What tells plain values apart, those that are no nodes: bytes that are equal for equal values."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np

VALUE_KEYS: dict[type, Callable[[Any], bytes]] = {}
"""How values that are not nodes (tensors, say) are keyed; rooms add theirs with `register_value_key`."""


def register_value_key(cls: type, key: Callable[[Any], bytes]) -> None:
    """Say how values of a class that are no nodes are told apart: values of equal keys are equal."""
    VALUE_KEYS[cls] = key


def value_key(value: Any) -> bytes:
    """A byte string equal for equal values; floats by bits so that -0.0 and NaN compare as written."""
    cls = type(value)
    if cls is str:
        return b"s:" + value.encode()  # type: ignore[no-any-return]
    if cls is int:
        return b"int:%d" % value
    if cls is bool:
        return b"b1" if value else b"b0"
    for known, key in VALUE_KEYS.items():
        if isinstance(value, known):
            return key(value)
    if isinstance(value, float):
        return b"f" + (b"nan" if math.isnan(value) else struct.pack("<d", value))
    if isinstance(value, bytes):
        return b"y" + value
    return f"{'s' if isinstance(value, str) else cls.__name__}:{value}".encode()


_PACKAGE = __name__.split(".")[0]


def has_key(value: Any) -> bool:
    """Whether what `value_key` writes tells a value from any other one: a stranger's text may not."""
    cls = type(value)
    return (
        cls in (str, int, bool, float, bytes, NoneType)
        or isinstance(value, np.generic)
        or cls.__module__.split(".")[0] == _PACKAGE
    )
