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
from tests.accuracy.values import CLASSES, LEAST
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
    wide = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]
    expected = form.reference(*wide, *(array.astype(np.float64) for array in form.constants()))
    error, ulp, relative = difference(got, expected, form.kind)
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


def difference(got: Sequence[np.ndarray], expected: Expected, kind: str) -> tuple[float, float, float]:
    """The worst of all results, in units of the tolerance, in ulp, and relative to elements and scales."""
    scales = [*expected.scale, *[expected.scale[-1]] * len(expected.want)]
    worst = [0.0, 0.0, 0.0]
    for mine, want, scale in zip(got, expected.want, scales, strict=False):
        found = _difference(mine, np.asarray(want), np.asarray(scale, np.float64), expected.steps, kind)
        worst = [max(pair) for pair in zip(worst, found, strict=True)]
    return (worst[0] if len(got) == len(expected.want) else np.inf), worst[1], worst[2]


def _difference(
    got: np.ndarray, want: np.ndarray, scale: np.ndarray, steps: int, kind: str
) -> tuple[float, float, float]:
    wrong = (np.inf, np.inf, np.inf)
    if got.shape != want.shape or (want.dtype.kind == "f" and got.dtype != np.float32):
        return wrong
    if kind == "exact":
        same = got.tobytes() == want.astype(got.dtype).tobytes() if want.dtype.kind == "f" else (got == want).all()
        return (0.0, 0.0, 0.0) if same else wrong
    if not got.size:
        return 0.0, 0.0, 0.0
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return wrong
    rtol, atol = TOLERANCES[(kind, "float32")]
    mine, theirs = (np.clip(np.nan_to_num(a.astype(np.float64), nan=0.0, posinf=_OVERFLOW, neginf=-_OVERFLOW), -_OVERFLOW, _OVERFLOW) for a in (got, want))  # fmt: skip
    scale = np.where(np.isfinite(scale), scale, 0.0)
    off, size = np.abs(mine - theirs), np.abs(theirs)
    allowed = rtol * size + atol * scale + steps * LEAST
    with np.errstate(all="ignore"):
        in_ulp = off / np.maximum(2.0 ** (np.floor(np.log2(np.maximum(size, LEAST))) - 23), LEAST)
        error, relative = off / np.maximum(allowed, LEAST), off / np.maximum(size + scale, LEAST)
    return float(error.max()), float(in_ulp.max()), float(np.where(size + scale < 2.0**-126, 0.0, relative).max())


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)) or not hasattr(value, "numpy"):
        return [array for item in value for array in _arrays(item)]
    return [value.numpy().copy()]


def _bits(arrays: Sequence[np.ndarray]) -> list[bytes]:
    return [array.tobytes() for array in arrays]
