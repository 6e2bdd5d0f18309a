"""Planning storages: how many bytes a tensor takes, and which storage that is free again takes it.

A storage is taken again where it is provably large enough and not far too large. Sizes are formulas in the
symbolic dimensions; where upper bounds of dimensions are stated, sizes are bounded by them and become
constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heddle.arith import Analyzer
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Var
from heddle.ir.visitor import walk
from heddle.prim.nodes import IntImm, PrimExpr, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.substitute import substitute
from heddle.runtime.dtype import DataType

MAX_WASTE = 16
"""A storage more than this many times too large is not reused."""
ALIGN_BYTES = 64


def size_bytes(shape: ShapeExpr, dtype: DataType) -> PrimExpr:
    """The bytes of a dense tensor."""
    size: PrimExpr = constant(dtype.itemsize, "int64")
    for dim in shape.values:
        size = dim * size
    return size


@dataclass(eq=False, slots=True)
class Storage:
    """Memory that a variable holds. `kind` says where it lies: only a tensor of that kind may take it."""

    var: Var
    size: PrimExpr
    kind: tuple[str, str]


class StorageSizes:
    """Sizes of storages in bytes, and which of them fit each other.

    `bounds` are the stated upper bounds of dimensions, by name.
    """

    def __init__(self, bounds: Mapping[str, int]) -> None:
        self._bounds = bounds
        self._analyzer = Analyzer()

    def bounded(self, size: PrimExpr) -> PrimExpr:
        """The size with stated upper bounds put in, rounded up to the alignment where it is constant."""
        if self._bounds:
            known = {
                node: constant(self._bounds[node.name], "int64")
                for node in walk(size)
                if isinstance(node, PrimVar) and node.name in self._bounds
            }
            size = substitute(size, known)
        size = self._analyzer.simplify(size)
        if isinstance(size, IntImm):
            return constant(-(-size.value // ALIGN_BYTES) * ALIGN_BYTES, "int64")
        return size

    def fits(self, have: PrimExpr, need: PrimExpr) -> bool:
        """Whether a storage of `have` bytes is large enough for `need`, and not far too large."""
        if isinstance(have, IntImm) and isinstance(need, IntImm):
            return need.value <= have.value <= max(need.value * MAX_WASTE, ALIGN_BYTES)
        if isinstance(have, IntImm) or isinstance(need, IntImm):
            return False
        equal = self._analyzer.can_prove_equal(have, need)
        return equal or self._analyzer.can_prove_greater_equal(have - need, 0)

    def take(self, free: list[Storage], size: PrimExpr, kind: tuple[str, str]) -> Storage | None:
        """Take the tightest storage that fits out of the free ones; None where none does."""
        fitting = [storage for storage in free if storage.kind == kind and self.fits(storage.size, size)]
        if not fitting:
            return None
        best = min(fitting, key=lambda s: s.size.value if isinstance(s.size, IntImm) else -1)
        free.remove(best)
        return best
