"""Classes of values that forms are run with, each made for a shape by a generator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Rng = np.random.Generator
Values = Callable[[Rng, tuple[int, ...]], np.ndarray]
LEAST_NORMAL, LEAST = 2.0**-126, 2.0**-149
_EDGES = (
    0.0,
    1.0,
    0.5,
    2.0,
    1e-3,
    88.5,
    88.8,
    87.4,
    90.0,
    100.0,
    103.9,
    104.5,
    1e10,
    3.4e38,
    1.2e-38,
    1.1e-38,
    1e-45,
)


def normal(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def subnormal(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers below the normal range, of either sign; none is zero."""
    bits = rng.integers(1, 1 << 23, shape, np.uint32) >> rng.integers(0, 12, shape, np.uint32)
    return (np.maximum(bits, 1) | rng.integers(0, 2, shape, np.uint32) << 31).view(np.float32)


def mixed(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values among zeros of either sign, subnormal numbers and the least normal ones."""
    kinds = rng.integers(0, 8, shape)
    few = [np.zeros(shape), np.full(shape, -0.0), subnormal(rng, shape), LEAST_NORMAL * normal(rng, shape)]
    return np.select([kinds == k for k in range(len(few))], few, normal(rng, shape)).astype(np.float32)


def every_float(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    """Bit patterns: every exponent, infinities and NaN among them; first the ends of functions."""
    words = rng.integers(0, 1 << 32, shape, np.uint32).view(np.float32).reshape(-1)
    edges = np.array([sign * x for x in (*_EDGES, np.inf, np.nan) for sign in (1, -1)], np.float32)
    count = min(len(edges), words.size // 2)
    words[:count] = edges[:count]
    return words.reshape(shape)


def with_some(*special: float) -> Values:
    """Normal values, one in nine of them replaced."""

    def values(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
        drawn = rng.choice(np.array(special, np.float32), shape)
        return np.where(rng.random(shape) < 1 / 9, drawn, normal(rng, shape)).astype(np.float32)

    return values


def scaled(factor: float) -> Values:
    return lambda rng, shape: (factor * rng.standard_normal(shape)).astype(np.float32)


CLASSES: dict[str, tuple[Values, Values]] = {
    "normal": (normal, normal),
    "positive": (
        lambda rng, shape: np.abs(normal(rng, shape)),
        lambda rng, shape: np.abs(normal(rng, shape)),
    ),
    "large": (scaled(1e15), scaled(1e15)),
    "small": (scaled(1e-15), scaled(1e-15)),
    "wide": (
        lambda rng, shape: (
            scaled(1.0)(rng, shape) * np.float32(10) ** rng.uniform(-25, 25, shape).astype(np.float32)
        ),
        normal,
    ),
    "far": (scaled(60.0), normal),
    "subnormal": (subnormal, normal),
    "mixed": (mixed, normal),
    "factors": (lambda rng, shape: np.exp(0.01 * normal(rng, shape)), normal),
    "ties": (lambda rng, shape: rng.integers(-2, 3, shape).astype(np.float32), normal),
    "every float": (every_float, every_float),
    "infinite": (with_some(np.inf, -np.inf), normal),
    "NaN": (with_some(np.nan), normal),
}
"""Class → values of the first argument and of the others."""

FINITE = ("normal", "positive", "large", "small", "wide", "subnormal", "mixed")
ALL = (*FINITE, "infinite", "NaN")
ROWS = ("normal", "large", "small", "far", "subnormal", "mixed", "NaN")
BITS = ("normal", "far", "subnormal", "mixed", "every float")
