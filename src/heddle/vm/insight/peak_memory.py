"""The upper bound of a function's memory, as stored in an executable's metadata: entry
`peak_memory.FUNCTION`.

The entry is an expression over the names of symbolic sizes (see `heddle.runtime.size_text`), where
`block(size)` is the size of the block that a pool lends, or `unbounded: reason`. Units: bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from heddle.runtime.size_text import evaluate_size

METADATA_PREFIX = "peak_memory."
UNBOUNDED = "unbounded"


def peak_memory_text(metadata: Mapping[str, str], function: str) -> str | None:
    """Return the formula of a function, or the text why there is none; None for programs without such an
    entry."""
    return metadata.get(METADATA_PREFIX + function)


def peak_memory_bytes(metadata: Mapping[str, str], function: str, dims: Mapping[str, int]) -> int | None:
    """Return the maximum number of bytes that a call allocates besides its arguments, for given values of the
    symbolic dimensions.

    The result is None if there is no bound, or if it depends on a dimension that is not given.

    Raises: FormatError F0108 for a malformed entry; UsageError U0901 for a division by zero.
    """
    text = peak_memory_text(metadata, function)
    return None if text is None or text.startswith(UNBOUNDED) else evaluate_size(text, dims)
