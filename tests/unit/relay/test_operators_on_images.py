"""Relay's operators on images, losses and positions: values by numpy, types, text, and machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.ir.structural import assert_structural_equal
from heddle.relay import Any as AnyDim
from heddle.relay import Function, TensorType, Tuple, astext, const, create_executor, parse_expr, var
from heddle.relay.op import word
from heddle.relay.typed import infer_local
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import value

RNG = np.random.default_rng(7)
IMAGE = RNG.standard_normal((2, 8, 4, 6)).astype("float32")
ROWS_ = RNG.standard_normal((5, 4)).astype("float32")
LABELS = np.eye(4, dtype="float32")[[0, 3, 1, 1, 2]]
INDICES = np.array([[0, 2], [3, 9]], "int32")
LENGTHS = np.array([2, 0, 4, 1], "int32")


def _blocks(x: Any, b: int, depth_first: bool) -> Any:
    n, c, h, w = x.shape
    d = c // (b * b)
    parts = (
        x.reshape(n, d, b, b, h, w)
        if depth_first
        else x.reshape(n, b, b, d, h, w).transpose(0, 3, 1, 2, 4, 5)
    )
    return parts.transpose(0, 1, 4, 2, 5, 3).reshape(n, d, h * b, w * b)


def _to_depth(x: Any, b: int) -> Any:
    n, c, h, w = x.shape
    return (
        x.reshape(n, c, h // b, b, w // b, b)
        .transpose(0, 3, 5, 1, 2, 4)
        .reshape(n, c * b * b, h // b, w // b)
    )


def _hot(axis: int) -> Any:
    made = np.where(np.arange(4) == INDICES[..., None], np.float32(2), np.float32(-1))
    return np.moveaxis(made, -1, axis)


def _reversed_rows(x: Any) -> Any:
    made = x.copy()
    for column, size in enumerate(LENGTHS):
        made[:size, column] = x[:size, column][::-1]
    return made


CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("nn.depth_to_space", (IMAGE,), {"block_size": 2}, _blocks(IMAGE, 2, False)),
    ("nn.depth_to_space", (IMAGE,), {"block_size": 2, "mode": "CDR"}, _blocks(IMAGE, 2, True)),
    ("nn.space_to_depth", (IMAGE,), {"block_size": 2}, _to_depth(IMAGE, 2)),
    ("nn.upsampling", (IMAGE,), {"scale_h": 2.0, "scale_w": 3.0}, IMAGE.repeat(2, 2).repeat(3, 3)),
    (
        "nn.upsampling3d",
        (IMAGE[:, :, None],),
        {"scale_d": 2.0, "scale_h": 1.0, "scale_w": 2.0},
        IMAGE[:, :, None].repeat(2, 2).repeat(2, 4),
    ),
    (
        "image.resize2d",
        (IMAGE,),
        {"size": (8, 12), "method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"},
        IMAGE.repeat(2, 2).repeat(2, 3),
    ),
    (
        "image.resize1d",
        (IMAGE[:, :, 0],),
        {"size": (6,), "method": "linear"},
        IMAGE[:, :, 0],
    ),
    (
        "nn.mirror_pad",
        (ROWS_,),
        {"mode": "REFLECT", "pad_width": ((1, 2), (0, 3))},
        np.pad(ROWS_, ((1, 2), (0, 3)), mode="reflect"),
    ),
    (
        "nn.mirror_pad",
        (ROWS_,),
        {"pad_width": ((2, 0), (1, 1))},
        np.pad(ROWS_, ((2, 0), (1, 1)), mode="symmetric"),
    ),
    ("one_hot", (INDICES, np.float32(2), np.float32(-1)), {"depth": 4, "dtype": "float32"}, _hot(-1)),
    ("one_hot", (INDICES, np.float32(2), np.float32(-1)), {"depth": 4, "axis": 0}, _hot(0)),
    ("variance", (ROWS_,), {"axis": [1]}, ROWS_.var(1)),
    (
        "variance",
        (ROWS_,),
        {"axis": [0], "keepdims": True, "unbiased": True},
        ROWS_.var(0, keepdims=True, ddof=1),
    ),
    ("variance", (ROWS_,), {"axis": [0], "exclude": True}, ROWS_.var(1)),
    ("nn.cross_entropy_with_logits", (ROWS_, LABELS), {}, -(ROWS_ * LABELS).sum() / 5),
    (
        "nn.cross_entropy",
        (np.abs(ROWS_) + 0.1, LABELS),
        {},
        -(np.log(np.abs(ROWS_) + np.float32(0.1)) * LABELS).sum() / 5,
    ),
    (
        "nn.nll_loss",
        (ROWS_, np.array([0, 3, 1, 1, 2], "int32"), np.ones(4, "float32")),
        {"reduction": "mean", "ignore_index": -100},
        -(ROWS_ * LABELS).sum() / 5,
    ),
    (
        "sequence_mask",
        (ROWS_, LENGTHS),
        {"mask_value": -3.0},
        np.where(np.arange(5)[:, None] < LENGTHS, ROWS_, np.float32(-3)),
    ),
    (
        "sequence_mask",
        (ROWS_.T.copy(), LENGTHS),
        {"axis": 1},
        np.where(np.arange(5) < LENGTHS[:, None], ROWS_.T, np.float32(0)),
    ),
    ("reverse_sequence", (ROWS_, LENGTHS), {"seq_axis": 0, "batch_axis": 1}, _reversed_rows(ROWS_)),
    ("slice_like", (ROWS_, ROWS_[:3, :2].copy()), {}, ROWS_[:3, :2]),
    ("slice_like", (ROWS_, ROWS_[:3, :2].copy()), {"axes": [1]}, ROWS_[:, :2]),
    ("invert_permutation", (np.array([2, 0, 3, 1], "int32"),), {}, np.array([1, 3, 0, 2], "int32")),
    (
        "searchsorted",
        (np.array([1, 3, 5], "float32"), np.array([[0, 1], [5, 6]], "float32")),
        {},
        np.array([[0, 0], [2, 3]], "int32"),
    ),
    (
        "searchsorted",
        (np.array([1, 3, 5], "float32"), np.array([1, 4], "float32")),
        {"right": True, "dtype": "int64"},
        np.array([1, 2], "int64"),
    ),
    (
        "searchsorted",
        (np.array([[1, 3, 5], [0, 0, 9]], "float32"), np.array([[0, 4], [0, 8]], "float32")),
        {},
        np.array([[0, 2], [0, 2]], "int32"),
    ),
]


@pytest.mark.parametrize(
    ("name", "arrays", "attrs", "wanted"), CASES, ids=[f"{case[0]}-{k}" for k, case in enumerate(CASES)]
)
def test_value_type_text_and_code(name: str, arrays: Any, attrs: Any, wanted: Any) -> None:
    arrays = [np.asarray(array) for array in arrays]
    params = [var(f"x{k}", TensorType(array.shape, str(array.dtype))) for k, array in enumerate(arrays)]
    call = word(name, name)(*params, **attrs)
    func = Function(params, call)
    found = value(func(*map(const_of, arrays)))
    wanted = np.asarray(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    ty = infer_local(call)
    assert tuple(map(int, ty.dims)) == found.shape == wanted.shape and ty.dtype == str(found.dtype)
    assert_structural_equal(parse_expr(astext(func)), func)
    compiled = create_executor("vm").evaluate(func)(*arrays)
    np.testing.assert_allclose(compiled.numpy(), wanted, rtol=1e-5, atol=1e-5)


def const_of(array: Any) -> Any:
    return const(array, str(array.dtype))


def test_triangles_and_what_tensors_of_tuples_give() -> None:
    x = const_of(ROWS_)
    for upper in (True, False):
        for k in (-1, 0, 2):
            wanted = (np.triu if upper else np.tril)(ROWS_, k)
            np.testing.assert_array_equal(value(word("trilu", "")(x, const(k), upper=upper)), wanted)
    product = word("einsum", "")(Tuple([x, const_of(LABELS)]), "ij,kj->ik")
    np.testing.assert_allclose(value(product), ROWS_ @ LABELS.T, rtol=1e-5)
    i, j = np.array([0, 4, 2], "int64"), np.array([1, 0, 3], "int64")
    np.testing.assert_array_equal(
        value(word("adv_index", "")(Tuple([x, const_of(i), const_of(j)]))), ROWS_[i, j]
    )
    places = value(word("argwhere", "")(const_of(ROWS_ > 0)))
    np.testing.assert_array_equal(places, np.argwhere(ROWS_ > 0).astype("int32"))


def test_shapes_as_tensors() -> None:
    shape = var("shape", TensorType((2,), "int64"))
    size = np.array([2, 5], "int64")
    for name, wanted in (
        ("dyn.zeros", np.zeros((2, 5), "float32")),
        ("dyn.ones", np.ones((2, 5), "float32")),
    ):
        func = Function([shape], word(name, "")(shape, "float32"))
        np.testing.assert_array_equal(value(func(const_of(size))), wanted)
        assert all(isinstance(dim, AnyDim) for dim in infer_local(func.body).dims)
    data = var("data", TensorType((5,), "float32"))
    func = Function([data, shape], word("dyn.broadcast_to", "")(data, shape))
    row = ROWS_[:, 0].copy()
    np.testing.assert_array_equal(value(func(const_of(row), const_of(size))), np.broadcast_to(row, (2, 5)))
    func = Function([shape], word("dyn.full", "")(const(7.0), shape, "int32"))
    np.testing.assert_array_equal(value(func(const_of(size))), np.full((2, 5), 7, "int32"))


def test_regions_and_grids() -> None:
    flat = np.full((1, 2, 6, 6), 3, "float32")
    rois = np.array([[0, 0, 0, 4, 4], [0, 1, 1, 3, 5]], "float32")
    call = word("vision.roi_align", "")(const_of(flat), const_of(rois), (2, 3), 1.0)
    np.testing.assert_allclose(value(call), np.full((2, 2, 2, 3), 3, "float32"), rtol=1e-6)
    y, x = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 6), indexing="ij")
    grid = np.stack([x, y])[None].repeat(2, 0).astype("float32")
    sampled = value(word("image.grid_sample", "")(const_of(IMAGE), const_of(grid)))
    np.testing.assert_allclose(sampled, IMAGE, rtol=1e-4, atol=1e-4)
    matrices = np.tile(np.eye(2, 3, dtype="float32"), (2, 1, 1))
    even = value(word("image.affine_grid", "")(const_of(matrices), (4, 6)))
    np.testing.assert_allclose(even, grid, atol=1e-6)
    pooled = value(word("vision.roi_pool", "")(const_of(flat), const_of(rois), (2, 3), 1.0))
    np.testing.assert_array_equal(pooled, np.full((2, 2, 2, 3), 3, "float32"))


@pytest.mark.parametrize(
    ("name", "args", "attrs", "words"),
    [
        ("nn.depth_to_space", (IMAGE,), {"block_size": 2, "layout": "NCWX"}, "have other axes"),
        ("nn.depth_to_space", (IMAGE,), {"block_size": 2, "mode": "XYZ"}, "one of DCR, CDR"),
        ("sequence_mask", (ROWS_, LENGTHS), {"axis": 2}, "0 or 1"),
        ("searchsorted", (ROWS_, ROWS_[:2]), {}, "rows of boundaries and data differ"),
        ("variance", (ROWS_[:1],), {"axis": [0], "unbiased": True}, "at least 2"),
    ],
)
def test_what_is_refused(name: str, args: Any, attrs: Any, words: str) -> None:
    with pytest.raises(HeddleError, match=words):
        infer_local(word(name, name)(*map(const_of, args), **attrs))
