"""How much of a parallel loop is worth a thread."""

from __future__ import annotations

from heddle.prim.nodes import IntImm, PrimExpr
from heddle.prim.ops import floordiv, maximum

GRAIN = "grain"
"""The annotation of a parallel loop: the least number of iterations worth a thread."""
GRAIN_ELEMENTS = 1 << 14
"""Work that is worth a thread: elements of elementwise work."""


def grain_of(work: int | PrimExpr, least: int = GRAIN_ELEMENTS) -> int | PrimExpr:
    """How many iterations, of so much work each, are worth a thread: of free sizes, that follows when it
    runs."""
    known = work.value if isinstance(work, IntImm) else work
    if isinstance(known, int):
        return max(1, least // max(1, known))
    grain: PrimExpr = maximum(floordiv(least, maximum(known, 1)), 1)
    return grain
