"""Sets of characters, as sorted disjoint ranges (first, last) of code points."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache, lru_cache

LAST = 0x10FFFF
Ranges = tuple[tuple[int, int], ...]

ALL: Ranges = ((0, LAST),)
DIGITS: Ranges = ((48, 57),)
SPACES: Ranges = ((9, 10), (12, 13), (32, 32))
WORDS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
NEWLINE: Ranges = ((10, 10),)
POSIX: dict[str, Ranges] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": DIGITS,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": WORDS,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_CATEGORIES = {"L": "ultmo", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp", "C": "cfos"}
"""The groups of Unicode general categories, and the second letters of the categories in each."""
_LAST_WITH_CASE = 0x1FFFF
_NOT_FOLDED = frozenset((0x130, 0x131))
"""The dotted and the dotless I of Turkish. Simple case folding does not map them to another character."""


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The set of all characters in any of the ranges."""
    made: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if made and first <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(last, made[-1][1]))
        else:
            made.append((first, last))
    return tuple(made)


def complement(ranges: Ranges) -> Ranges:
    """The set of all other characters."""
    made, begin = [], 0
    for first, last in ranges:
        if begin < first:
            made.append((begin, first - 1))
        begin = last + 1
    return (*made, (begin, LAST)) if begin <= LAST else tuple(made)


@cache
def category(name: str) -> Ranges | None:
    """Return the characters of a Unicode general category, of a group of categories such as `L`, or of `Any`.
    None for another name."""
    if name == "Any":
        return ALL
    if len(name) not in (1, 2) or name[0] not in _CATEGORIES or name[1:] not in _CATEGORIES[name[0]]:
        return None
    of = unicodedata.category
    found = [code for code in range(LAST + 1) if of(chr(code)).startswith(name) and of(chr(code)) != "Cn"]
    return union((code, code) for code in found)


@cache
def _orbits() -> dict[int, tuple[int, ...]]:
    """Return, for each character that has case variants, those variants."""
    groups: dict[int, set[int]] = {}
    for code in range(_LAST_WITH_CASE + 1):
        char = chr(code)
        for other in {char.lower(), char.upper()} - {char}:
            if len(other) == 1 and code not in _NOT_FOLDED and ord(other) not in _NOT_FOLDED:
                joined = groups.get(code, {code}) | groups.get(ord(other), {ord(other)})
                groups.update(dict.fromkeys(joined, joined))
    return {code: tuple(sorted(group)) for code, group in groups.items()}


@lru_cache(maxsize=256)
def folded(ranges: Ranges) -> Ranges:
    """Return the set together with all case variants of its members."""
    begins = [first for first, _ in ranges]
    more = []
    for code, group in _orbits().items():
        at = bisect_right(begins, code) - 1
        if at >= 0 and code <= ranges[at][1]:
            more += [(each, each) for each in group]
    return union((*ranges, *more))
