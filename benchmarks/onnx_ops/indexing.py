"""Rows of operators that choose elements by indices, by values or by conditions."""

from __future__ import annotations

import numpy as np

from benchmarks.onnx_ops.case import (
    SMALL_IMAGE,
    Case,
    Sizes,
    Weight,
    below,
    between,
    integer,
    integers,
    scalar,
)


def _boxes(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    """Corners (y1, x1, y2, x2) in an image of 100 rows and columns."""
    low = rng.uniform(0, 80, (*shape[:-1], 2))
    return np.concatenate([low, low + rng.uniform(5, 20, low.shape)], -1)


def _cells(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    """Distinct places (row, column) of a table of `n` rows and `m` columns."""
    flat = rng.permutation(sizes["n"] * sizes["m"])[: shape[0]]
    return np.stack([flat // sizes["m"], flat % sizes["m"]], -1)


def _rows(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    """Distinct rows of a table of `n`."""
    return rng.permutation(sizes["n"])[: shape[0]].reshape(shape)


def _sorted_columns(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    """For each row, distinct columns of a table of `m`."""
    return np.argsort(rng.random((shape[0], sizes["m"])), -1)[:, : shape[1]]


def _pooled_places(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    """The first place of each 2 × 2 window of images that are twice as high and wide."""
    n, c, h, w = shape
    planes = np.arange(n * c).reshape(n, c, 1, 1) * (4 * h * w)
    return planes + np.arange(h).reshape(h, 1) * (4 * w) + np.arange(w) * 2


_DETECTIONS = "float[b,n,4] boxes, float[b,k,n] scores"
_TABLE = "float[n,m] x"

INDEXING: tuple[Case, ...] = (
    Case(
        "Gather",
        "int64[b,s] i",
        "y = Gather(table, i)",
        {"b": 1, "s": 16},
        {"b": 4, "s": 512},
        form="embedding",
        fills={"i": below(5000)},
        weights={"table": Weight((5000, 256))},
    ),
    Case(
        "Gather",
        "float[n,m] x, int64[k] i",
        "y = Gather<axis=1>(x, i)",
        {"n": 16, "m": 64, "k": 32},
        {"n": 2048, "m": 512, "k": 256},
        form="columns",
        fills={"i": below("m")},
    ),
    Case(
        "GatherElements",
        "float[n,m] x, int64[n,k] i",
        "y = GatherElements<axis=1>(x, i)",
        {"n": 16, "m": 64, "k": 32},
        {"n": 2048, "m": 512, "k": 256},
        fills={"i": below("m")},
    ),
    Case(
        "GatherND",
        "float[n,m,d] x, int64[k,2] i",
        "y = GatherND(x, i)",
        {"n": 8, "m": 8, "d": 32, "k": 16},
        {"n": 64, "m": 64, "d": 256, "k": 2048},
        fills={"i": below(8)},
        form="rows",
    ),
    Case(
        "GatherND",
        "float[n,m] x, int64[k,2] i",
        "y = GatherND(x, i)",
        {"n": 64, "m": 64, "k": 256},
        {"n": 1024, "m": 1024, "k": 200_000},
        fills={"i": below(64)},
        form="elements",
    ),
    Case(
        "ScatterElements",
        "float[n,m] x, int64[n,k] i, float[n,k] u",
        "y = ScatterElements<axis=1>(x, i, u)",
        {"n": 16, "m": 64, "k": 32},
        {"n": 2048, "m": 512, "k": 256},
        fills={"i": _sorted_columns},
    ),
    Case(
        "ScatterElements",
        "float[n,m] x, int64[k,m] i, float[k,m] u",
        'y = ScatterElements<axis=0, reduction="add">(x, i, u)',
        {"n": 32, "m": 64, "k": 32},
        {"n": 1024, "m": 256, "k": 4096},
        form="add",
        fills={"i": below("n")},
    ),
    Case(
        "ScatterND",
        "float[n,m] x, int64[k,1] i, float[k,m] u",
        "y = ScatterND(x, i, u)",
        {"n": 64, "m": 64, "k": 16},
        {"n": 4096, "m": 256, "k": 1024},
        form="rows",
        fills={"i": _rows},
    ),
    Case(
        "ScatterND",
        "float[n,m] x, int64[k,2] i, float[k] u",
        "y = ScatterND(x, i, u)",
        {"n": 64, "m": 64, "k": 256},
        {"n": 1024, "m": 1024, "k": 100_000},
        form="elements",
        fills={"i": _cells},
    ),
    Case(
        "TensorScatter",
        "float[b,h,s,d] x, float[b,h,k,d] u, int64[b] i",
        "y = TensorScatter(x, u, i)",
        {"b": 1, "h": 4, "s": 64, "d": 32, "k": 1},
        {"b": 4, "h": 8, "s": 1024, "d": 64, "k": 16},
        fills={"i": between(0, 32)},
    ),
    Case(
        "OneHot",
        "int64[b,s] i",
        "y = OneHot(i, depth, values)",
        {"b": 1, "s": 16},
        {"b": 8, "s": 512},
        fills={"i": below(128)},
        weights={"depth": integer(128), "values": Weight((2,))},
        opset=27,
    ),
    Case(
        "Compress",
        "float[n,m] x, bool[n] m0",
        "y = Compress<axis=0>(x, m0)",
        {"n": 64, "m": 32},
        {"n": 4096, "m": 256},
        form="rows",
        opset=27,
    ),
    Case(
        "Compress",
        "float[n,m] x, bool[k] m0",
        "y = Compress(x, m0)",
        {"n": 32, "m": 32, "k": 1024},
        {"n": 1024, "m": 1024, "k": 1 << 20},
        form="elements",
        opset=27,
    ),
    Case("NonZero", "float[n,m] x", "p = Relu(x) y = NonZero(p)", {"n": 32, "m": 32}, {"n": 1024, "m": 1024}),
    Case("NonZero", "bool[n,m] x", "y = NonZero(x)", {"n": 32, "m": 32}, {"n": 1024, "m": 1024}, form="bool"),
    Case(
        "TopK",
        _TABLE,
        "y, i = TopK(x, k)",
        {"n": 1, "m": 1000},
        {"n": 64, "m": 8192},
        form="5 of a row",
        outputs="y, i",
        weights={"k": integers(5)},
    ),
    Case(
        "TopK",
        _TABLE,
        "y, i = TopK(x, k)",
        {"n": 1, "m": 1000},
        {"n": 8, "m": 50_000},
        form="300 of a row",
        outputs="y, i",
        weights={"k": integers(300)},
    ),
    Case(
        "TopK",
        _TABLE,
        "y, i = TopK<axis=0, largest=0>(x, k)",
        {"n": 64, "m": 16},
        {"n": 1024, "m": 512},
        form="8 of a column",
        outputs="y, i",
        weights={"k": integers(8)},
    ),
    Case(
        "Unique",
        "int64[n] x",
        "y, first, back, count = Unique(x)",
        {"n": 256},
        {"n": 100_000},
        outputs="y, first, back, count",
        fills={"x": below("n")},
        opset=27,
    ),
    Case(
        "Unique",
        "float[n,m] x",
        "y, first, back, count = Unique<axis=0>(x)",
        {"n": 64, "m": 4},
        {"n": 10_000, "m": 4},
        form="rows",
        outputs="y, first, back, count",
        fills={"x": below(8)},
        opset=27,
    ),
    Case(
        "NonMaxSuppression",
        _DETECTIONS,
        "y = NonMaxSuppression(boxes, scores, count, iou, score)",
        {"b": 1, "k": 1, "n": 100},
        {"b": 1, "k": 4, "n": 2000},
        fills={"boxes": _boxes},
        weights={"count": integers(100), "iou": scalar(0.5), "score": scalar(0.0)},
    ),
    Case(
        "MaxUnpool",
        "float[n,c,h,w] x, int64[n,c,h,w] i",
        "y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(x, i)",
        SMALL_IMAGE,
        {"n": 1, "c": 64, "h": 56, "w": 56},
        fills={"i": _pooled_places},
    ),
    Case(
        "TfIdfVectorizer",
        "int32[n,m] x",
        'y = TfIdfVectorizer<mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0, '
        "ngram_counts=[0,8], ngram_indexes=[0,1,2,3,4,5,6,7,8,9,10,11], "
        "pool_int64s=[1,2,3,4,5,6,7,8, 1,2, 3,4, 5,6, 7,8]>(x)",
        {"n": 4, "m": 32},
        {"n": 256, "m": 512},
        fills={"x": below(20)},
    ),
    Case("EyeLike", "float[n,m] x", "y = EyeLike(x)", {"n": 32, "m": 32}, {"n": 1024, "m": 1024}),
)
