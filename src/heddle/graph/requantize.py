"""How quantised integers get another scale, where a program leaves it open."""

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
    """What calls of `qnn.requantize` that say "None" do: halves go upward or away from zero, in integers or
    floats."""

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
    """What holds where a call says "None"."""
    return _CONFIG.get()


@contextmanager
def requantize_config(**kwargs: str) -> Iterator[RequantizeConfig]:
    """Within the block, calls that say "None" take `rounding` and `compute_dtype` from here. What counts is
    where a program is compiled or run. Raises: IRTypeError R0205."""
    token = _CONFIG.set(replace(_CONFIG.get(), **kwargs))
    try:
        yield _CONFIG.get()
    finally:
        _CONFIG.reset(token)
