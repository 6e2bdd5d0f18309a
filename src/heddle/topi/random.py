"""Numbers by chance, as a function of a key."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from heddle import te
from heddle.prim.intrinsics import cos, log, sqrt
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import bitwise_and, bitwise_xor, cast, shift_right
from heddle.topi.dims import as_dim, ravel

STEP = 0x9E3779B97F4A7C15
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
"""SplitMix64's: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014."""


def uniform(key: te.Tensor, size: Sequence[Any]) -> te.Tensor:
    """float32 numbers from [0, 1): the upper 24 bits of mixed numbers of a counter."""
    return _of_words(key, size, lambda word: _part(word, 40), "uniform")


def normal(key: te.Tensor, size: Sequence[Any]) -> te.Tensor:
    """float32 numbers of the standard normal distribution: sqrt(-2 log(1 - u)) cos(2 pi v), where u and v are
    from [0, 1), the upper 24 bits and the next ones of a mixed number.

    Source: Box and Muller, A Note on the Generation of Random Normal Deviates, 1958.
    """

    def drawn(word: PrimExpr) -> PrimExpr:
        radius = sqrt(log(constant(1, "float32") - _part(word, 40)) * constant(-2, "float32"))
        result: PrimExpr = radius * cos(_part(word, 16) * constant(2 * math.pi, "float32"))
        return result

    return _of_words(key, size, drawn, "normal")


def _of_words(
    key: te.Tensor, size: Sequence[Any], drawn: Callable[[PrimExpr], PrimExpr], name: str
) -> te.Tensor:
    """A number of each mixed number of a counter."""
    dims = [as_dim(dim) for dim in size]
    words: te.Tensor = te.compute(dims, lambda *i: _word(key, i, dims), name="random_words")
    result: te.Tensor = te.compute(dims, lambda *i: drawn(words[i] if dims else words()), name=name)
    return result


def _part(word: PrimExpr, first: int) -> PrimExpr:
    """24 bits of a word as a number from [0, 1)."""
    bits = shift_right(word, constant(first, "uint64"))
    if first < 40:
        bits = bitwise_and(bits, constant((1 << 24) - 1, "uint64"))
    drawn: PrimExpr = cast("float32", cast("int32", bits)) * constant(2.0**-24, "float32")
    return drawn


def _word(key: te.Tensor, index: Sequence[PrimExpr], dims: Sequence[PrimExpr]) -> PrimExpr:
    at = cast("uint64", ravel(index, dims) + 1) * constant(STEP, "uint64")
    mixed: PrimExpr = cast("uint64", key()) * constant(FACTORS[1], "uint64") + at
    for shift, factor in zip(SHIFTS, FACTORS, strict=False):
        mixed = bitwise_xor(mixed, shift_right(mixed, constant(shift, "uint64"))) * constant(factor, "uint64")
    return bitwise_xor(mixed, shift_right(mixed, constant(SHIFTS[2], "uint64")))
