"""Detecting iterator maps: whether indices are digits of loop iterators, and whether the map is a bijection.

i in [0, 4), j in [0, 8):   [i * 8 + j]            one fused iterator of extent 32       bijective
f in [0, 32):               [f // 8, f % 8]        two digits of one iterator            bijective
o in [0, 5), k in [0, 8):   [o * 8 + k] where o * 8 + k < 35      fused, extent 35       bijective
i, j in [0, n), [0, m):     [i * m + j]            fused, extent n * m                   bijective
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from heddle.arith.analyzer import Analyzer
from heddle.arith.codes import A0102
from heddle.arith.iters.iter_detector import IterMapDetector, NotAffineError, const_scale
from heddle.arith.iters.iter_nodes import IterMapLevel, IterSumExpr, iter_value
from heddle.prim.nodes import PrimExpr, Range, Var, as_expr, constant
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen


@frozen
class IterMapResult:
    """`indices` is empty where detection failed; `errors` says why. No padding is ever introduced."""

    indices: tuple[IterSumExpr, ...]
    errors: tuple[str, ...] = ()
    padding_predicate: PrimExpr = field(default_factory=lambda: constant(False))


def _analyzer_for(input_iters: Mapping[Var, Range], analyzer: Analyzer | None) -> Analyzer:
    made = Analyzer() if analyzer is None else analyzer.clone()
    for var, dom in input_iters.items():
        made.bind(var, dom, allow_override=True)
    return made


def _level(level: IterMapLevel | str) -> IterMapLevel:
    """Raises: UsageError A0102 for what is no level."""
    if isinstance(level, str):
        return IterMapLevel.from_str(level)
    if level not in list(IterMapLevel):
        named = ", ".join(known.name for known in IterMapLevel)
        raise UsageError(A0102, f"expected one of IterMapLevel ({named}), got {level!r}")
    return IterMapLevel(level)


def detect_iter_map(
    indices: Sequence[Any],
    input_iters: Mapping[Var, Range],
    predicate: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """Each index as a fused sum of digits of the iterators, for points where the predicate holds.

    Raises: UsageError A0102 where `check_level` is no level.
    """
    level = _level(check_level)
    known = _analyzer_for(input_iters, analyzer)
    exact = level is not IterMapLevel.NoCheck
    detector = IterMapDetector(input_iters, known, simplify_trivial_iterators, exact)
    try:
        detector.add_predicate(as_expr(predicate))
        sums = [detector.fused_index(index) for index in indices]
        if exact:
            detector.check(sums, level)
    except NotAffineError as error:
        return IterMapResult((), (str(error),))
    return IterMapResult(tuple(sums))


def normalize_to_iter_sum(
    index: Any, input_iters: Mapping[Var, Range], analyzer: Analyzer | None = None
) -> IterSumExpr:
    """The index as a sum of splits, coarsest first; what is no digit of an iterator goes to the base."""
    known = _analyzer_for(input_iters, analyzer)
    detector = IterMapDetector(input_iters, known, trivial=True, exact=False)
    simplified = known.simplify(index)
    try:
        found = detector.to_sum(simplified)
    except NotAffineError:
        return IterSumExpr((), simplified)
    ordered = sorted(found.args, key=const_scale, reverse=True)
    return IterSumExpr(tuple(ordered), found.base)


def normalize_iter_map_to_expr(expr: Any, analyzer: Analyzer | None = None) -> PrimExpr:
    """An iterator map, or one part of it, as a simplified scalar expression."""
    known = Analyzer() if analyzer is None else analyzer
    result: PrimExpr = known.simplify(iter_value(expr, known.can_prove_equal))
    return result


def iter_map_simplify(
    indices: Sequence[Any],
    input_iters: Mapping[Var, Range],
    predicate: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> list[PrimExpr]:
    """The indices simplified as an iterator map; where they are none, simplified as expressions."""
    known = _analyzer_for(input_iters, analyzer)
    found = detect_iter_map(
        indices, input_iters, predicate, check_level, simplify_trivial_iterators, analyzer
    )
    if not found.indices:
        return [known.simplify(index) for index in indices]
    return [normalize_iter_map_to_expr(item, known) for item in found.indices]
