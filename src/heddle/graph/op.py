"""Operators as functions that build calls: `op.add(x, y)`, `op.nn.conv2d(data, weight, strides=(2, 2))`."""

from __future__ import annotations

from typing import Any

from heddle.graph.op_words import operator, operator_names


def __getattr__(name: str) -> Any:
    return operator(name)


def __dir__() -> list[str]:
    return operator_names()
