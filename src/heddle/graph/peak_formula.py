"""Peaks of memory as formulas: sums of blocks over symbolic dimensions, of which the greatest counts.

    block(n * 16) + block(n * 4)        storages of n * 16 and n * 4 bytes are alive together
    block(n * 16) + 4096                another moment of the same program
        →  max(block(n * 16) + block(n * 4), block(n * 16) + 4096)

`block` is what the allocator takes for a size. A sum that another one covers, storage by storage, is left
out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from heddle.arith import Analyzer
from heddle.ir.visitor import walk_distinct
from heddle.prim.nodes import IntImm, PrimExpr
from heddle.prim.nodes import Var as PrimVar
from heddle.prim.size_text import size_text
from heddle.runtime.size_class import block_bytes

_MAX_COMPARED = 64
"""So many sums are compared with proofs; more only by the storages that they have."""
_MOST_STORAGES = 4096
"""Sums of so many storages are compared by them alone."""

Sizes = Counter[PrimExpr]
"""Storages that are alive together: sizes in bytes, each with how many there are."""


class UnboundedError(Exception):
    """A function whose memory has no formula; the reason is the message."""


def peak_text(peaks: list[Sizes]) -> str:
    """The greatest of the sums as text over the names of dimensions, which `heddle.runtime.size_text` reads.

    Raises: UnboundedError for a size without a formula, or two dimensions of one name.
    """
    names = _names(peaks)
    left = _without_dominated(peaks)
    sums = dict.fromkeys(_sum_text(sizes, names) for sizes in left)
    return _greatest(list(sums)) if sums else "0"


def _names(peaks: Sequence[Sizes]) -> dict[PrimVar, str]:
    found = dict.fromkeys(
        node for sizes in peaks for size in sizes for node in walk_distinct(size) if isinstance(node, PrimVar)
    )
    by_name: dict[str, PrimVar] = {}
    for var in found:
        if by_name.setdefault(var.name, var) is not var:
            raise UnboundedError(f"two sizes have the name {var.name}")
    return {var: name for name, var in by_name.items()}


def _sum_text(sizes: Sizes, names: Mapping[PrimVar, str]) -> str:
    """`block(n * 16) + 2 * block(n * 4) + 4096`: what has symbols first, then what is known."""
    terms: Counter[str] = Counter()
    known = 0
    for size, count in sizes.items():
        if isinstance(size, IntImm):
            known += count * block_bytes(size.value)
            continue
        text = size_text(size, names)
        if text is None:
            raise UnboundedError(f"no formula for a storage of {size} bytes")
        terms[text] += count
    parts = [f"block({text})" if count == 1 else f"{count} * block({text})" for text, count in terms.items()]
    return " + ".join(parts + [str(known)] * (known > 0))


def _greatest(sums: list[str]) -> str:
    """A balanced tree of `max`, so that no reader recurses deep."""
    if len(sums) == 1:
        return sums[0]
    middle = len(sums) // 2
    return f"max({_greatest(sums[:middle])}, {_greatest(sums[middle:])})"


def _without_dominated(peaks: list[Sizes]) -> list[Sizes]:
    """Leave out sums that another one covers, storage by storage."""
    return without_parts(peaks) if len(peaks) > _MAX_COMPARED else _unproved(_largest_first(peaks))


def _largest_first(peaks: Iterable[Sizes]) -> list[Sizes]:
    return sorted(peaks, key=lambda sizes: -sum(sizes.values()))


def without_parts(peaks: Iterable[Sizes]) -> list[Sizes]:
    """Leave out sums of which another one has every storage. Only those are compared that share the storage
    that the fewest have: the work grows with the sums, not with their square."""
    left: list[Sizes] = []
    having: defaultdict[PrimExpr, list[Sizes]] = defaultdict(list)
    for sizes in _largest_first(peaks):
        others = min((having[size] for size in sizes), key=len, default=left)
        if not any(sizes <= other for other in others):
            left.append(sizes)
            for size in sizes:
                having[size].append(sizes)
    return left


def _unproved(largest_first: list[Sizes]) -> list[Sizes]:
    """Leave out sums that another one covers, as far as the analyzer proves it."""
    analyzer = Analyzer()
    for var in {
        node
        for sizes in largest_first
        for size in sizes
        for node in walk_distinct(size)
        if isinstance(node, PrimVar)
    }:
        analyzer.mark_global_non_neg(var)
    proofs: dict[tuple[PrimExpr, PrimExpr], bool] = {}

    def covers(large: PrimExpr, small: PrimExpr) -> bool:
        if isinstance(large, IntImm) and isinstance(small, IntImm):
            return large.value >= small.value
        if (large, small) not in proofs:
            proofs[large, small] = analyzer.can_prove_greater_equal(large - small, 0)
        return proofs[large, small]

    left: list[Sizes] = []
    for sizes in largest_first:
        if not any(_is_covered(sizes, other, covers) for other in left):
            left.append(sizes)
    return left


def _is_covered(sizes: Sizes, by: Sizes, covers: Callable[[PrimExpr, PrimExpr], bool]) -> bool:
    """Whether each storage of `sizes` has one of its own in `by` that is provably no smaller."""
    missing, more = sizes - by, by - sizes
    if not missing:
        return True
    if sum(more.values()) > _MOST_STORAGES:
        return False
    free = list(more.elements())
    if sum(missing.values()) > len(free):
        return False
    for size in missing.elements():
        found = next((index for index, other in enumerate(free) if covers(other, size)), None)
        if found is None:
            return False
        free.pop(found)
    return True
