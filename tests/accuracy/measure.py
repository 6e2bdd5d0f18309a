"""How far compiled forms are from float64, and whether the number of threads shows in their bits."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import heddle
from heddle import relax
from heddle.runtime.native.library import native_library, set_num_threads
from tests.accuracy.forms import Expected, Form
from tests.accuracy.values import CLASSES, LEAST, LEAST_NORMAL
from tests.ops.tolerances import TOLERANCES

THREADS = (1, 2)
_OVERFLOW = 2.0**128


@dataclass(frozen=True)
class Outcome:
    """One run: the worst error in units of the tolerance, in units in the last place, and relative to the
    element and its scale; the error is infinite where shape, dtype, NaN or a zero's sign is wrong.
    """

    form: Form
    sizes: Mapping[str, int]
    values: str
    error: float
    ulp: float
    relative: float
    same_bits: bool

    @property
    def is_ok(self) -> bool:
        return self.error <= 1.0 and self.same_bits and (self.form.ulp is None or self.ulp <= self.form.ulp)

    @property
    def badness(self) -> float:
        """By what cases are ranked: the error, in parts of what the form is allowed."""
        return max(self.error, 0.0 if self.form.ulp is None else self.ulp / self.form.ulp)

    @property
    def where(self) -> str:
        shapes = " ".join("×".join(map(str, shape)) or "()" for shape in self.form.shapes(self.sizes))
        return f"{self.form.name} [{shapes}] {self.values}"


def outcomes(form: Form) -> Iterator[Outcome]:
    """Compile a form for this machine and run it at all sizes with all classes of values."""
    machine = relax.VirtualMachine(heddle.compile(form.module()), heddle.cpu())
    before = native_library().num_threads
    try:
        for sizes in form.sizes:
            for values in form.values:
                yield _outcome(form, machine["main"], sizes, values)
    finally:
        set_num_threads(before)


def _outcome(form: Form, function: Any, sizes: Mapping[str, int], values: str) -> Outcome:
    arrays = arguments(form, sizes, values)
    results = []
    for threads in THREADS:
        set_num_threads(threads)
        results.append(_arrays(function(*(array.copy() for array in arrays))))
    got = results[0]
    same = all(_bits(other) == _bits(got) for other in results[1:])
    given = [*arrays, *form.constants()]
    expected = form.reference(*(given if form.kind == "exact" else map(_wide, given)))
    error, ulp, relative = difference(got, expected, form.kind, form.ulp is not None)
    return Outcome(form, sizes, values, error, ulp, relative, same)


def arguments(form: Form, sizes: Mapping[str, int], values: str) -> list[np.ndarray]:
    """The same in every run."""
    rng = np.random.default_rng(zlib.crc32(f"{form.name} {sizes} {values}".encode()))
    first, other = CLASSES[values]
    shapes = form.shapes(sizes)
    arrays = [(other if k else first)(rng, shape) for k, shape in enumerate(shapes)]
    if form.index_below:
        arrays[-1] = rng.integers(0, form.index_below, shapes[-1])
    return arrays


def difference(
    got: Sequence[np.ndarray], expected: Expected, kind: str, with_signs: bool = False
) -> tuple[float, float, float]:
    """The worst of all results, in units of the tolerance, in ulp, and relative to elements and scales.
    `with_signs`: zeros have the sign of what they stand for.
    """
    if len(got) != len(expected.want):
        return _WRONG
    scales = [*expected.scale, *[expected.scale[-1]] * len(got)]
    worst = (0.0, 0.0, 0.0)
    for mine, want, scale in zip(got, expected.want, scales, strict=False):
        found = _WRONG
        if _is_comparable(mine, np.asarray(want), kind, with_signs):
            found = _errors(_bounded(mine), _bounded(want), np.asarray(scale), expected.steps, kind)
        worst = max(worst[0], found[0]), max(worst[1], found[1]), max(worst[2], found[2])
    return worst


_WRONG = (np.inf, np.inf, np.inf)


def _is_comparable(got: np.ndarray, want: np.ndarray, kind: str, with_signs: bool) -> bool:
    """Whether shape, dtype, NaN and signs of zeros are right; for exact forms, all bits."""
    if got.shape != want.shape or (want.dtype.kind == "f" and got.dtype != np.float32):
        return False
    if kind == "exact":
        return bool(
            (got == want).all() if want.dtype.kind in "ib" else got.tobytes() == _narrow(want).tobytes()
        )
    signs = got == 0.0 if with_signs else np.zeros(got.shape, bool)
    same_signs = np.signbit(got[signs]) == np.signbit(want[signs])
    return np.array_equal(np.isnan(got), np.isnan(want)) and bool(same_signs.all())


def _errors(
    got: np.ndarray, want: np.ndarray, scale: np.ndarray, steps: int, kind: str
) -> tuple[float, float, float]:
    if kind == "exact" or not got.size:
        return 0.0, 0.0, 0.0
    rtol, atol = TOLERANCES[(kind, "float32")]
    scale = np.where(np.isfinite(scale), scale, 0.0)
    off, size = np.abs(got - want), np.abs(want)
    allowed = rtol * size + atol * scale + steps * LEAST
    spacing = np.maximum(2.0 ** (np.floor(np.log2(np.maximum(size, LEAST))) - 23), LEAST)
    whole = size + scale
    relative = np.where(whole < LEAST_NORMAL, 0.0, off / np.maximum(whole, LEAST_NORMAL))
    error = off / np.maximum(allowed, LEAST)
    return float(error.max()), float((off / spacing).max()), float(relative.max())


def _bounded(array: np.ndarray) -> np.ndarray:
    """As float64 without NaN; what is beyond float32 is infinite, and as great as 2 ** 128."""
    wide = np.nan_to_num(_wide(array), nan=0.0, posinf=_OVERFLOW, neginf=-_OVERFLOW)
    return np.clip(wide, -_OVERFLOW, _OVERFLOW)


def _wide(array: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # signalling NaN
        return array.astype(np.float64) if array.dtype.kind == "f" else array


def _narrow(array: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return array.astype(np.float32)


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)) or not hasattr(value, "numpy"):
        return [array for item in value for array in _arrays(item)]
    return [value.numpy().copy()]


def _bits(arrays: Sequence[np.ndarray]) -> list[bytes]:
    return [array.tobytes() for array in arrays]
