"""Sums with sizes."""

from heddle.systems.types import u64
from heddle.systems.words import inline


@inline
def round_up(size_bytes: u64, step_bytes: u64) -> u64:
    """The next multiple of a step."""
    return (size_bytes + (step_bytes - 1)) // step_bytes * step_bytes
