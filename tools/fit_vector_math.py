"""Fits and prints the polynomials of `heddle.tir.vector_math`: Chebyshev interpolation with mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 50


def fit(function: Callable[[Any], Any], low: float, high: float, degree: int) -> list[float]:
    """Coefficients, lowest first, of the polynomial through the Chebyshev nodes of [low, high]."""
    nodes = [
        (mp.mpf(low) + high) / 2 + (mp.mpf(high) - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * degree + 2))
        for i in range(degree + 1)
    ]
    matrix = mp.matrix([[node**power for power in range(degree + 1)] for node in nodes])
    values = mp.matrix([function(node) for node in nodes])
    return [float(value) for value in mp.lu_solve(matrix, values)]


def series(function: Callable[[Any], Any], at_zero: float) -> Callable[[Any], Any]:
    return lambda x: mp.mpf(at_zero) if x == 0 else function(x)


QUARTER_PI, LN2_HALF = float(mp.pi / 4), float(mp.log(2) / 2)
FITS: dict[str, tuple[Callable[[Any], Any], float, float, int]] = {
    "EXP": (series(lambda x: (mp.exp(x) - 1 - x) / x**2, 0.5), -LN2_HALF * 1.01, LN2_HALF * 1.01, 5),
    "LOG": (
        series(lambda x: (mp.log1p(x) - x + x * x / 2) / x**3, 1 / 3),
        float(mp.sqrt(0.5) - 1),
        float(mp.sqrt(2) - 1),
        8,
    ),
    "SIN": (lambda s: (mp.sin(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, 1e-12, (QUARTER_PI * 1.01) ** 2, 3),
    "COS": (lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2, 1e-12, (QUARTER_PI * 1.01) ** 2, 2),
    "TANH": (lambda s: (mp.tanh(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, 1e-12, 0.625**2, 5),
    # Then moved by some units in the last place each, at random, until no float32 gave a result above 1.
    "ERF": (lambda t: mp.erf(3.875 * mp.sqrt((t + 1) / 2)) / (3.875 * mp.sqrt((t + 1) / 2)), -1, 1, 15),
    "ASIN": (lambda s: (mp.asin(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, 1e-12, 0.25, 5),
    "ATAN": (
        lambda s: (mp.atan(mp.sqrt(s)) / mp.sqrt(s) - 1) / s,
        1e-12,
        float(mp.tan(mp.pi / 8)) ** 2 * 1.01,
        4,
    ),
    "SINH": (lambda s: (mp.sinh(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, 1e-12, 1.0, 3),
}

if __name__ == "__main__":
    for name, description in FITS.items():
        print(f"_{name} = ({', '.join(repr(value) for value in fit(*description))})")
