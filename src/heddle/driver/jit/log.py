"""What a program with JIT tells of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heddle.support.frozen import frozen


@frozen
class Swap:
    """One attempt to put faster code in place.

    `sizes` are the free dimensions that the code is for, empty for code for every size. `at_s` is when it was
    in place, since the program began; `compile_s` and `load_s` are what it took, the first in the other
    process. `error` says why there is none; `dropped` names the sizes whose code it took the place of.
    """

    function: str
    sizes: Mapping[str, int]
    at_s: float
    compile_s: float
    load_s: float
    error: str | None = None
    dropped: Mapping[str, int] | None = None

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items()) or "every size"
        if self.error is not None:
            return f"{self.at_s:8.3f} s  {self.function}, {sizes}: not replaced: {self.error}"
        text = f"{self.at_s:8.3f} s  {self.function}, {sizes}: compiled in {self.compile_s:.3f} s"
        return f"{text}, loaded in {1e3 * self.load_s:.1f} ms"


@dataclass(slots=True)
class JitStatistics:
    """Calls by the code that ran them, and swaps. Threads that call at the same time may count one less."""

    quick_calls: int = 0
    full_calls: int = 0
    sized_calls: int = 0
    swaps: int = 0
    failed: int = 0
    dropped: int = 0
    waiting: int = 0
    """Programs that were asked for and are not there yet."""
