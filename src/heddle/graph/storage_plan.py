"""Planning storages: how many bytes a tensor takes, and which storage that is free again takes it.

A free storage is taken where it is large enough, or can be made so: its size becomes the larger one of two
formulas, where the dimensions of both are known when it is allocated. Which one is nearest in size is judged
at a sample of the dimensions; one that is far too large or too small there is left. Where upper bounds of
dimensions are stated, sizes are bounded by them and become constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from heddle.arith import Analyzer
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Var
from heddle.ir.structural import structural_digest
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import IntImm, PrimExpr, Range, constant
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.ops import maximum
from heddle.prim.substitute import free_vars, substitute
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import TrapValueError

MAX_WASTE = 16
"""A storage more than this many times too large, or too small, is not reused."""
ALIGN_BYTES = 64
MAX_JUDGED = 64
"""Of the storages that are free, so many are judged, those that are nearest in size."""
MAX_FORMULAS = 16
"""So many formulas of sizes a storage has at most."""
SAMPLE = 64
"""What a dimension is where sizes are compared that no proof orders."""
_POINTS = ((SAMPLE, SAMPLE), (1, 1), (2, 3), (7, 7), (1000, 1), (1, 1000), (97, 33))
"""What the dimensions are, one after the other in turn: a storage that is too small at one of these needs no
proof. The first is the sample."""
_SPREADS, _WIDEST = 4, 1500
"""Further points, at which each dimension has a value of its own up to the widest: those of unrelated tensors
differ there."""


def size_bytes(shape: ShapeExpr, dtype: DataType) -> PrimExpr:
    """The bytes of a dense tensor."""
    size: PrimExpr = constant(dtype.itemsize, "int64")
    for dim in shape.values:
        size = dim * size
    return size


@dataclass(eq=False, slots=True)
class Storage:
    """Memory that a variable holds. `kind` says where it lies: only a tensor of that kind may take it. It is
    as large as the largest of `sizes`. `known`: the dimensions known where it is allocated."""

    sizes: list[PrimExpr]
    kind: tuple[str, str]
    known: frozenset[PrimVar]
    var: Var | None = None

    def size(self) -> PrimExpr:
        """The size in bytes: the greatest of those that it has to hold."""
        return reduce(maximum, self.sizes)


class StorageSizes:
    """Sizes of storages in bytes, and which of them fit each other.

    `bounds` are the stated upper bounds of dimensions, by name.
    """

    def __init__(self, bounds: Mapping[str, int]) -> None:
        self._bounds = bounds
        self._analyzer = Analyzer()
        self._known: dict[bytes, PrimExpr] = {}
        self._at_points: dict[PrimExpr, tuple[int | None, ...]] = {}
        self._places: dict[PrimVar, int] = {}
        self._covers: dict[tuple[PrimExpr, PrimExpr], bool] = {}

    def bounded(self, size: PrimExpr) -> PrimExpr:
        """The size with stated upper bounds put in, rounded up to the alignment where it is constant. A bound
        is not put into a formula that may be larger below it. Equal sizes are one object."""
        size = self._analyzer.simplify(size)
        for var in free_vars(size):
            if var.name in self._bounds:
                most = constant(self._bounds[var.name], "int64")
                at_most = self._analyzer.simplify(substitute(size, {var: most}))
                if self._grows(size, at_most, var, most):
                    size = at_most
        if isinstance(size, IntImm):
            size = constant(-(-size.value // ALIGN_BYTES) * ALIGN_BYTES, "int64")
        return self._known.setdefault(structural_digest(size), size)

    def _grows(self, size: PrimExpr, at_most: PrimExpr, var: PrimVar, most: PrimExpr) -> bool:
        """Whether a size is largest where a dimension is."""
        below = Analyzer()
        below.bind(var, Range.from_min_extent(constant(0, "int64"), most + 1))
        return below.can_prove_greater_equal(at_most - size, 0)

    def take(
        self, free: list[Storage], size: PrimExpr, kind: tuple[str, str], known: frozenset[PrimVar]
    ) -> Storage:
        """A free storage: one that fits before one that grows, the nearest in size first. Else a new one,
        allocated where the dimensions `known` are."""
        gaps = (
            (self._gap(storage, size), index) for index, storage in enumerate(free) if storage.kind == kind
        )
        nearest = sorted((gap, index) for gap, index in gaps if gap is not None)[:MAX_JUDGED]
        growing = None
        for _, index in nearest:
            if self._is_enough(free[index], size):
                return free.pop(index)
            if growing is None and self._can_grow(free[index], size):
                growing = index
        if growing is None:
            return Storage([size], kind, known)
        storage = free.pop(growing)
        storage.sizes = _merged(storage.sizes, size)
        return storage

    def _at_sample(self, storage: Storage, size: PrimExpr) -> tuple[int, int] | None:
        """How large a storage is and has to be at the sample; None where one of them has no value there."""
        sizes = [known for have in storage.sizes if (known := self._sample(have)) is not None]
        need = self._sample(size)
        return None if need is None or not sizes else (max(sizes), need)

    def _gap(self, storage: Storage, size: PrimExpr) -> int | None:
        """How many bytes lie between a storage and a size at the sample, 0 where nobody knows; None where it
        is far too large or too small."""
        found = self._at_sample(storage, size)
        if found is None:
            return 0
        is_near = max(found) <= max(min(found) * MAX_WASTE, ALIGN_BYTES)
        return abs(found[0] - found[1]) if is_near else None

    def _can_grow(self, storage: Storage, size: PrimExpr) -> bool:
        """Whether a storage can be made large enough where it is allocated."""
        has_room = len(storage.sizes) < MAX_FORMULAS and storage.known.issuperset(free_vars(size))
        return has_room and self._at_sample(storage, size) is not None

    def _is_enough(self, storage: Storage, size: PrimExpr) -> bool:
        """Whether a storage is certainly large enough."""
        for have in storage.sizes:
            if isinstance(have, IntImm) and isinstance(size, IntImm):
                if have.value >= size.value:
                    return True
            elif self._is_at_least(have, size):
                return True
        return False

    def _is_at_least(self, have: PrimExpr, size: PrimExpr) -> bool:
        """Whether one size is certainly no less than another; judged once for each two of them."""
        if have is size:
            return True
        if (have, size) not in self._covers:
            points = zip(self._points(have), self._points(size), strict=True)
            known = [(a, b) for a, b in points if a is not None and b is not None]
            self._covers[have, size] = all(a >= b for a, b in known) and (
                (all(a == b for a, b in known) and self._analyzer.can_prove_equal(have, size))
                or self._analyzer.can_prove_greater_equal(have - size, 0)
            )
        return self._covers[have, size]

    def _sample(self, size: PrimExpr) -> int | None:
        return self._points(size)[0]

    def _points(self, size: PrimExpr) -> tuple[int | None, ...]:
        """A size at all points; None where it divides by what is 0 there."""
        if size not in self._at_points:
            dims = free_vars(size)
            for dim in dims:
                self._places.setdefault(dim, len(self._places))
            points = [{dim: point[self._places[dim] % 2] for dim in dims} for point in _POINTS]
            points += [{dim: _spread(self._places[dim], k) for dim in dims} for k in range(_SPREADS)]
            self._at_points[size] = tuple(_value(size, point) for point in points)
        return self._at_points[size]


def _spread(place: int, point: int) -> int:
    """A dimension's value at one of the further points: any numbers that do not go together."""
    return 1 + (place * 40503 + point * 30011 + 17) * 2654435761 % (1 << 32) * _WIDEST // (1 << 32)


def _value(size: PrimExpr, dims: Mapping[PrimVar, int]) -> int | None:
    try:
        return int(evaluate(size, dims))
    except TrapValueError:
        return None


def _merged(sizes: list[PrimExpr], size: PrimExpr) -> list[PrimExpr]:
    """The formulas with one more, of which the constants are one."""
    constants = [item.value for item in (*sizes, size) if isinstance(item, IntImm)]
    others = [item for item in (*sizes, size) if not isinstance(item, IntImm)]
    return [*others, *([constant(max(constants), "int64")] if constants else [])]
