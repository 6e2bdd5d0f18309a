"""Branches, loops and sequences."""

from __future__ import annotations

from heddle.frontend.onnx.ops.control import (
    branch,
    loop,
    run_time_sequence,
    sequence,
)

__all__ = [
    "branch",
    "loop",
    "run_time_sequence",
    "sequence",
]
