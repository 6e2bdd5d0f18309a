"""Matrix products in all their forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heddle.ir.expr import Expr
from tests.accuracy.forms import Dims, Expected, Form, call, products
from tests.accuracy.values import ALL

_MNK = tuple(
    {"m": m, "n": n, "k": k}
    for m, n, k in (
        (17, 23, 5), (1, 1, 1), (0, 7, 3), (5, 0, 3), (5, 7, 0), (31, 33, 129), (64, 96, 32), (257, 131, 191),
    )
)  # fmt: skip
_BMNK = tuple({"b": b, **sizes} for b, sizes in zip((3, 1, 2, 2, 2, 5, 2, 1), _MNK, strict=True))
_ROWS = tuple({"m": m} for m in (1, 0, 2, 13, 65, 200))
_matmul = call("matmul")


def _turn(array: Any) -> Any:
    return np.swapaxes(array, -1, -2)


def _turned(value: Expr) -> Expr:
    ndim = len(value.ty.dims)  # type: ignore[union-attr]
    return call("permute_dims", axes=[*range(ndim - 2), ndim - 1, ndim - 2])(value)


def _plain(value: Any) -> Any:
    return value


def _product(
    name: str,
    params: tuple[Dims, ...],
    sizes: tuple[Mapping[str, int], ...],
    left: bool = False,
    right: bool = False,
    weights: tuple[tuple[int, ...], ...] = (),
    in_ci: bool = False,
) -> Form:
    first, second = (_turned if left else _plain), (_turned if right else _plain)
    one, two = (_turn if left else _plain), (_turn if right else _plain)
    return Form(
        "matmul",
        name,
        params,
        lambda a, b: _matmul(first(a), second(b)),
        products(lambda a, b: np.matmul(one(a), two(b))),
        "accumulated",
        ALL,
        sizes,
        weights,
        in_ci=in_ci,
    )


def _static(m: int, k: int, n: int) -> Form:
    return _product(f"x @ w, {m}×{k}×{n} static", ((m, k),), ({},), weights=((k, n),))


def _linear(inputs: int, outputs: int) -> Form:
    def reference(x: Any, w: Any, b: Any) -> Expected:
        want, scale, steps = products(lambda x, w: x @ w.T)(x, w)
        return Expected((want[0] + b,), (np.hypot(scale[0], b),), steps)

    return Form(
        "linear",
        f"x @ w.T + b, w {outputs}×{inputs} constant",
        (("m", inputs),),
        call("linear"),
        reference,
        "accumulated",
        ALL,
        _ROWS,
        ((outputs, inputs), (outputs,)),
        in_ci=inputs == 45,
    )


_FREE = (
    ("a @ b", (("m", "k"), ("k", "n")), _MNK, False, False),
    ("a.T @ b", (("k", "m"), ("k", "n")), _MNK, True, False),
    ("a @ b.T", (("m", "k"), ("n", "k")), _MNK, False, True),
    ("a.T @ b.T", (("k", "m"), ("n", "k")), _MNK, True, True),
    ("batched a @ b", (("b", "m", "k"), ("b", "k", "n")), _BMNK, False, False),
    ("batched a.T @ b", (("b", "k", "m"), ("b", "k", "n")), _BMNK, True, False),
    ("batched a @ b.T", (("b", "m", "k"), ("b", "n", "k")), _BMNK, False, True),
    ("batched a.T @ b.T", (("b", "k", "m"), ("b", "n", "k")), _BMNK, True, True),
)
_VECTORS = tuple({"k": k, "n": n} for k, n in ((7, 5), (1, 1), (0, 3), (3, 0), (1031, 517), (64, 4096)))
CONTRACTIONS: tuple[Form, ...] = (
    *(_product(name, params, sizes, left, right, in_ci=name in ("a @ b", "batched a @ b.T"))
      for name, params, sizes, left, right in _FREE),
    _product("row @ b", ((1, "k"), ("k", "n")), _VECTORS),
    _product("row @ b.T", ((1, "k"), ("n", "k")), _VECTORS, right=True),
    _product("a @ column", (("n", "k"), ("k", 1)), _VECTORS),
    _product("a.T @ column", (("k", "n"), ("k", 1)), _VECTORS, left=True),
    _product("vector @ b", (("k",), ("k", "n")), _VECTORS, in_ci=True),
    _product("a @ vector", (("n", "k"), ("k",)), _VECTORS),
    _product("vector @ vector", (("k",), ("k",)), tuple({"k": k} for k in (1, 0, 7, 1031, 65537))),
    _product("rows × heads", (("b", "h", "m", "k"), ("b", "h", "n", "k")),
             tuple({"h": 3, **sizes} for sizes in _BMNK), right=True),
    _product("shared second factor", (("b", "m", "k"), ("k", "n")), _BMNK),
    *(_product(f"x @ w, w {k}×{n} constant", (("m", k),), _ROWS, weights=((k, n),), in_ci=k == 67)
      for k, n in ((1, 1), (67, 29), (768, 31), (300, 768), (3000, 17))),
    *(_product(f"x @ w.T, w {n}×{k} constant", (("m", k),), _ROWS, right=True, weights=((n, k),))
      for k, n in ((67, 29), (515, 130))),
    *(_static(m, k, n) for m, k, n in
      ((1, 3, 1000), (3, 2050, 7), (6, 500, 33), (127, 63, 255), (14, 4096, 32))),
    _linear(45, 33),
    _linear(768, 256),
)  # fmt: skip
