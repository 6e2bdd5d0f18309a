"""Which values no clause of a match fits."""

from __future__ import annotations

from enum import Enum

from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.relay.codes import Q0101
from heddle.relay.nodes import Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from heddle.support.diagnostics import UsageError
from heddle.support.limits import current_limits, exceeded


class _Fit(Enum):
    FITS = "fits"
    CLASHES = "clashes"
    OPEN = "open"
    """The case must be looked at more closely."""


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """Patterns of the values that no clause fits, only as deep as the clauses look. `mod` defines the data
    types.

    Raises: MissingNameError I0305 for a data type that it lacks; UsageError S0601 where the clauses split the
    values into more cases than the limit `match_cases`, Q0101 for no match.
    """
    if not isinstance(match, Match):
        raise UsageError(Q0101, f"unmatched_cases takes a match, got {type(match).__name__}")
    if any(_fits_all(clause.lhs) for clause in match.clauses):
        return []
    mod = mod or IRModule()
    cases: list[Pattern] = [PatternWildcard(span=None)]
    missed: list[Pattern] = []
    for _ in range(current_limits().match_cases):
        if not cases:
            return missed
        case = cases.pop()
        for clause in match.clauses:
            fit = _fit(clause.lhs, case)
            if fit is _Fit.OPEN:
                cases += reversed(_split(clause.lhs, case, mod))
            if fit is not _Fit.CLASHES:
                break
        else:
            missed.append(case)
    if not cases:
        return missed
    raise exceeded("match_cases", "a match has more cases to look at", match.span)


def _fits_all(pattern: Pattern) -> bool:
    if isinstance(pattern, PatternTuple):
        return all(map(_fits_all, pattern.patterns))
    return isinstance(pattern, (PatternWildcard, PatternVar))


def _parts(pattern: Pattern) -> tuple[Pattern, ...]:
    return pattern.patterns if isinstance(pattern, (PatternConstructor, PatternTuple)) else ()


def _fit(pattern: Pattern, case: Pattern) -> _Fit:
    if isinstance(pattern, (PatternWildcard, PatternVar)):
        return _Fit.FITS
    if isinstance(case, PatternWildcard):
        return _Fit.OPEN
    if isinstance(pattern, PatternConstructor) and isinstance(case, PatternConstructor):
        if pattern.constructor != case.constructor:
            return _Fit.CLASHES
    found = [_fit(a, b) for a, b in zip(_parts(pattern), _parts(case), strict=False)]
    if _Fit.CLASHES in found:
        return _Fit.CLASHES
    return _Fit.OPEN if _Fit.OPEN in found else _Fit.FITS


def _split(pattern: Pattern, case: Pattern, mod: IRModule) -> list[Pattern]:
    """The case as several, where the pattern looks deeper."""
    if isinstance(case, PatternWildcard):
        if isinstance(pattern, PatternTuple):
            return [PatternTuple(_wildcards(len(pattern.patterns)), span=None)]
        assert isinstance(pattern, PatternConstructor)
        items = mod.type_definition(pattern.constructor.belong_to).constructors
        return [PatternConstructor(item, _wildcards(len(item.inputs)), span=None) for item in items]
    parts = list(_parts(case))
    for place, (inner, part) in enumerate(zip(_parts(pattern), parts, strict=False)):
        if _fit(inner, part) is _Fit.OPEN:
            found = _split(inner, part, mod)
            return [replace(case, patterns=(*parts[:place], new, *parts[place + 1 :])) for new in found]
    return [case]


def _wildcards(count: int) -> tuple[Pattern, ...]:
    return tuple(PatternWildcard(span=None) for _ in range(count))
