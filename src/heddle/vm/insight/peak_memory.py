"""The bound of a function's memory, as it travels in an executable's metadata: entry `peak_memory.FUNCTION`.

It is a text over the names of symbolic sizes (see `heddle.runtime.size_text`), where `block(size)` is what a
pool lends for a size, or `unbounded: reason`. Units: bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from heddle.runtime.size_text import evaluate_size

METADATA_PREFIX = "peak_memory."
UNBOUNDED = "unbounded"


def peak_memory_text(metadata: Mapping[str, str], function: str) -> str | None:
    """The formula of a function, or why there is none; None for programs that say nothing about it."""
    return metadata.get(METADATA_PREFIX + function)


def peak_memory_bytes(metadata: Mapping[str, str], function: str, dims: Mapping[str, int]) -> int | None:
    """The most bytes that a call needs beside its arguments, where the dimensions have these values.

    None where there is no bound, or it depends on a dimension that is not given.

    Raises: FormatError F0108 for a malformed entry; UsageError U0901 for a division by zero.
    """
    text = peak_memory_text(metadata, function)
    return None if text is None or text.startswith(UNBOUNDED) else evaluate_size(text, dims)
