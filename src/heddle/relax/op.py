"""Operators as functions that build calls: `op.add(x, y)`, `op.nn.conv2d(data, weight, strides=(2, 2))`.

The names come from the operator table; `heddle.ops.load()` fills it.
"""

from __future__ import annotations

from typing import Any

from heddle.ir.op import OP_RECORDS
from heddle.relax.script import lookup


def __getattr__(name: str) -> Any:
    return lookup(name)


def __dir__() -> list[str]:
    return sorted(
        {key.removeprefix("relax.").split(".")[0] for key in OP_RECORDS if key.startswith("relax.")}
    )
