"""What moves elements and computes nothing: bit for bit, NaN and subnormal numbers included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.accuracy.forms import Dims, Form, call, exact
from tests.accuracy.values import BITS

_PAIRS: tuple[Mapping[str, int], ...] = tuple(
    {"m": m, "n": n} for m, n in ((1, 1), (0, 5), (7, 13), (16, 16), (33, 65), (1, 999), (517, 389))
)
_FOUR: tuple[Mapping[str, int], ...] = tuple(
    {"b": b, "m": m, "n": n, "k": k}
    for b, m, n, k in ((1, 1, 1, 1), (2, 3, 5, 7), (3, 17, 16, 33), (2, 64, 12, 64), (0, 2, 3, 4))
)


def _transpose(params: Dims, axes: tuple[int, ...], sizes: tuple[Mapping[str, int], ...]) -> Form:
    return Form(
        "transpose",
        f"{'×'.join(map(str, params))} axes {axes}",
        (params,),
        call("permute_dims", axes=list(axes)),
        exact(lambda x: np.ascontiguousarray(np.transpose(x, axes))),
        "exact",
        BITS,
        sizes,
        in_ci=axes in ((1, 0), (0, 2, 1, 3)),
    )


def _take(rows: int, width: int, indices: Dims, sizes: tuple[Mapping[str, int], ...], axis: int = 0) -> Form:
    def reference(x: Any, at: Any) -> Any:
        return np.take(x, at.astype(np.int64), axis)

    return Form(
        "embedding",
        f"take along {axis} of {rows}×{width}",
        ((rows, width), indices),
        call("take", axis=axis),
        exact(reference),
        "exact",
        BITS,
        sizes,
        index_below=(rows, width)[axis],
        in_ci=rows == 31,
    )


MOVES: tuple[Form, ...] = (
    _transpose(("m", "n"), (1, 0), _PAIRS),
    _transpose(("b", "m", "n", "k"), (0, 2, 1, 3), _FOUR),
    _transpose(("b", "m", "n", "k"), (0, 1, 3, 2), _FOUR),
    _transpose(("b", "m", "n", "k"), (0, 2, 3, 1), _FOUR),
    _transpose(("b", "m", "n", "k"), (3, 2, 1, 0), _FOUR),
    _transpose((64, 37), (1, 0), ({},)),
    _take(31, 17, ("m",), tuple({"m": m} for m in (1, 0, 7, 333))),
    _take(1000, 768, ("m", "n"), tuple({"m": m, "n": n} for m, n in ((1, 1), (3, 128)))),
    _take(40, 53, ("m",), tuple({"m": m} for m in (1, 0, 90)), axis=1),
)
