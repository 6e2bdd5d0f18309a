"""Configuration of `qnn.requantize` calls that leave rounding or compute dtype open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from heddle.graph.codes import R0205
from heddle.support.diagnostics import IRTypeError
from heddle.support.frozen import frozen

ROUNDINGS = ("UPWARD", "TONEAREST")
COMPUTE_DTYPES = ("int64", "float32", "float64")


@frozen
class RequantizeConfig:
    """The configuration for calls of `qnn.requantize` that say "None": whether halves are rounded up or away
    from zero, and whether integers or floats are used."""

    rounding: str = "UPWARD"
    compute_dtype: str = "int64"

    def __post_init__(self) -> None:
        """Raises: IRTypeError R0205 for other words."""
        for what, value, words in (
            ("rounding", self.rounding, ROUNDINGS),
            ("compute_dtype", self.compute_dtype, COMPUTE_DTYPES),
        ):
            if value not in words:
                raise IRTypeError(R0205, f"{what} is one of {', '.join(words)}, got {value!r}")


_DEFAULT = RequantizeConfig()
_CONFIG: ContextVar[RequantizeConfig] = ContextVar("requantize_config", default=_DEFAULT)


def current_requantize_config() -> RequantizeConfig:
    """Return the configuration in effect."""
    return _CONFIG.get()


@contextmanager
def requantize_config(**kwargs: str) -> Iterator[RequantizeConfig]:
    """In the `with` block, calls that say "None" use this `rounding` and `compute_dtype`. The configuration
    applies when a program is compiled or interpreted. Raises: IRTypeError R0205."""
    token = _CONFIG.set(replace(_CONFIG.get(), **kwargs))
    try:
        yield _CONFIG.get()
    finally:
        _CONFIG.reset(token)
