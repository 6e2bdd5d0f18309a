"""Numbers by chance, as a function of a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle import te
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import bitwise_xor, cast, shift_right
from heddle.topi.dims import as_dim, ravel

STEP = 0x9E3779B97F4A7C15
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
"""SplitMix64's: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014."""


def uniform(key: te.Tensor, size: Sequence[Any]) -> te.Tensor:
    """float32 numbers from [0, 1): the upper 24 bits of mixed numbers of a counter."""
    dims = [as_dim(dim) for dim in size]
    words: te.Tensor = te.compute(dims, lambda *i: _word(key, i, dims), name="random_words")
    scale = constant(2.0**-24, "float32")

    def element(*index: PrimExpr) -> PrimExpr:
        word = words[index] if dims else words()
        drawn: PrimExpr = cast("float32", cast("int32", shift_right(word, constant(40, "uint64")))) * scale
        return drawn

    result: te.Tensor = te.compute(dims, element, name="uniform")
    return result


def _word(key: te.Tensor, index: Sequence[PrimExpr], dims: Sequence[PrimExpr]) -> PrimExpr:
    at = cast("uint64", ravel(index, dims) + 1) * constant(STEP, "uint64")
    mixed: PrimExpr = cast("uint64", key()) * constant(FACTORS[1], "uint64") + at
    for shift, factor in zip(SHIFTS, FACTORS, strict=False):
        mixed = bitwise_xor(mixed, shift_right(mixed, constant(shift, "uint64"))) * constant(factor, "uint64")
    return bitwise_xor(mixed, shift_right(mixed, constant(SHIFTS[2], "uint64")))
