"""Random numbers as a function of a key."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from heddle import te
from heddle.arith.sizes import as_dim, ravel
from heddle.prim.intrinsics import cos, log, sqrt
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import bitwise_and, bitwise_or, bitwise_xor, cast, shift_left, shift_right
from heddle.tir.builder import StmtBuilder
from heddle.tir.grain import GRAIN, grain_of
from heddle.tir.nodes import Buffer, ForKind, Stmt

STEP = 0x9E3779B97F4A7C15
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
"""SplitMix64's: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014."""

_COST_OF_BLOCK = 256
"""Work in elements: four numbers, by twenty rounds."""


def uniform(key: te.Tensor, size: Sequence[Any]) -> te.Tensor:
    """Return uniform float32 numbers in [0, 1): the upper 24 bits of SplitMix64 outputs."""
    return _of_words(key, size, lambda word: _part(word, 40), "uniform")


def normal(key: te.Tensor, size: Sequence[Any]) -> te.Tensor:
    """Return float32 numbers of the standard normal distribution: sqrt(-2 log(1 - u)) cos(2 pi v). u and v
    are uniform in [0, 1): the upper 24 bits and the next 24 bits of one SplitMix64 output.

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


TURNS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
PARITY = 0x1BD11BDAA9FC1A22
ROUNDS = 20
"""Threefry-4x64-20's: Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3, 2011."""


def threefry(state: te.Tensor, size: Sequence[Any]) -> te.Tensor:
    """Threefry-4x64-20: encrypt a counter and its successors. Return (blocks, 4) uint64.

    `state` has eight words: four of the key and four of the counter, the counter's least significant word
    first.
    """
    blocks = as_dim(size[0])

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        b = StmtBuilder()
        with b.loop("block", blocks, ForKind.PARALLEL, {GRAIN: grain_of(_COST_OF_BLOCK)}) as block:
            given: list[PrimExpr] = [b.let(f"given{k}", inputs[0][k]) for k in range(8)]
            parity: PrimExpr = constant(PARITY, "uint64")
            for word in given[:4]:
                parity = bitwise_xor(parity, word)
            key = [*given[:4], b.let("parity", parity)]
            counter = [given[4] + cast("uint64", block), *given[5:]]
            x: list[PrimExpr] = [
                b.let(f"x{k}", word + part) for k, (word, part) in enumerate(zip(counter, key, strict=False))
            ]
            for step in range(ROUNDS):
                _round(b, x, step)
                if step % 4 == 3:
                    turn = step // 4 + 1
                    x = [b.let(f"x{k}", word + key[(turn + k) % 5]) for k, word in enumerate(x)]
                    x[3] = b.let("x3", x[3] + constant(turn, "uint64"))
            for k, word in enumerate(x):
                b.store(outputs[0], (block, k), word)
        return b.func("threefry", ()).body

    result: te.Tensor = te.extern((blocks, 4), [state], body, name="threefry", dtype="uint64")
    return result


def _round(b: StmtBuilder, x: list[PrimExpr], step: int) -> None:
    """Two mixes; in every second round the words' partners are the others."""
    for first, turn in zip((0, 2), TURNS[step % 8], strict=True):
        second = first + 1 if step % 2 == 0 else 3 - first
        x[first] = b.let(f"x{first}", x[first] + x[second])
        left = shift_left(x[second], constant(turn, "uint64"))
        turned = bitwise_or(left, shift_right(x[second], constant(64 - turn, "uint64")))
        x[second] = b.let(f"x{second}", bitwise_xor(turned, x[first]))
