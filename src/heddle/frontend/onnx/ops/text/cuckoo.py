"""Hash tables of integers that never change, in which two places may hold a key (cuckoo hashing).

Source: Pagh and Rodler, Cuckoo hashing, 2004. The hash function is multiply-shift (Dietzfelbinger et al.,
1997).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.int64]]
_MOST_ROUNDS = 64
"""A table that takes more rounds gets other factors."""
_MOST_TRIES = 4
"""Tables that were tried in vain before they become larger."""


@dataclass(frozen=True, slots=True)
class CuckooTable:
    """Two tables. Each key lies in one of them, in its slot `(key * factors[t] >> shift) & (size - 1)`, where
    products are modulo 2**64. `places[t]` (size,) holds the number of the key in each slot; in a free slot,
    how many keys there are."""

    factors: tuple[int, int]
    shift: int
    places: tuple[Numbers, Numbers]


def cuckoo_table(keys: Numbers) -> CuckooTable:
    """A table of distinct keys (n,), at least three quarters of whose slots are free. It depends on the keys
    alone."""
    rng = np.random.default_rng(0)
    for attempt in count():
        bits = max(1, (2 * len(keys) - 1).bit_length()) + attempt // _MOST_TRIES
        first, second = (int(factor) | 1 for factor in rng.integers(1 << 62, (1 << 63) - 1, 2))
        made = _filled(keys, (first, second), bits)
        if made is not None:
            return made
    raise AssertionError("tables grow until one is found")


def _filled(keys: Numbers, factors: tuple[int, int], bits: int) -> CuckooTable | None:
    """All waiting keys go to their slots in one table, those that they drive out and those that meet there to
    theirs in the other, and so on. None where there is no end to it."""
    size, none = 1 << bits, len(keys)
    table = CuckooTable(factors, 64 - bits, (np.full(size, none), np.full(size, none)))
    waiting = np.arange(none)
    for round_ in range(_MOST_ROUNDS):
        if not waiting.size:
            return table
        places = table.places[round_ % 2]
        slots = (keys[waiting] * np.int64(factors[round_ % 2]) >> table.shift) & (size - 1)
        before = places[slots]
        places[slots] = waiting  # the last of those that meet
        driven_out = np.unique(before[before < none])
        waiting = np.concatenate([waiting[places[slots] != waiting], driven_out])
    return None
