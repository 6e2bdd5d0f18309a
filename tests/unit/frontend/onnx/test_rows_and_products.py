"""Unique rows, Einsums that are products of matrices, and images that grow by whole factors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import helper, parser

from heddle.frontend.onnx import from_onnx
from tests.unit.frontend.onnx.runtime_oracle import Compared

FORMS = pytest.mark.parametrize("is_free", [True, False], ids=["free", "fixed"])


def row_of(text: str, opset: int = 21):
    graph = parser.parse_graph(f"row {text}")
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def dims(shape, is_free, prefix="d"):
    return ",".join(f"{prefix}{axis}" if is_free else str(size) for axis, size in enumerate(shape))


@FORMS
@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis"), [((9, 3), 0), ((9, 3), 1), ((4, 5, 2), 1), ((50, 1), 0), ((1, 4), 0), ((6, 2, 2), -1)]
)
def test_unique_rows(shape, axis, is_sorted, is_free):
    compared = Compared(
        row_of(
            f"(float[{dims(shape, is_free)}] x) => (y, a, b, c) "
            f"{{ y, a, b, c = Unique<axis={axis}, sorted={is_sorted}>(x) }}"
        )
    )
    for high in (1, 2, 5):
        x = np.random.default_rng().integers(0, high, shape).astype("float32")
        assert compared.check({"x": x}) == "equal"


PRODUCTS = (
    "bhse,bhte->bhst",
    "bshe,bthe->bhst",
    "ij,jk->ki",
    "abc,cd->abd",
    "abij,abjk->baik",
    "abc,bcd->ad",
)
OWN_SUMS = ("abk,bc->ac", "ab,bck->ac", "akb,kcbd->ac", "ab,bck->c")
"""Letters that one tensor alone has."""
OTHERS = ("ab,ab->ab", "bij,bj->bi", "ab,cd->abcd", "iab,jab->ji", "ab,bc->", "ab,bc->a", "aa,ab->b")


@FORMS
@pytest.mark.parametrize("equation", PRODUCTS + OWN_SUMS + OTHERS)
def test_einsums(equation, is_free):
    parts = equation.partition("->")[0].split(",")
    letters = sorted(set("".join(parts)))
    known = [{letter: 2 + k for k, letter in enumerate(letters)}, dict.fromkeys(letters, 1)]
    for size in (*known, *([{**known[0], letters[-1]: 0}] if is_free else [])):
        shapes = [tuple(size[letter] for letter in part) for part in parts]
        texts = [
            ",".join(f"n{letter}" if is_free else str(size[letter]) for letter in part) for part in parts
        ]
        text = f"(float[{texts[0]}] x, float[{texts[1]}] z) => (y) "
        model = row_of(text + f'{{ y = Einsum<equation="{equation}">(x, z) }}')
        x, z = (np.random.default_rng().standard_normal(shape).astype("float32") for shape in shapes)
        wanted = np.einsum(equation, x.astype("float64"), z.astype("float64")).astype("float32")
        assert Compared(model).check({"x": x, "z": z}, [wanted], rtol=1e-4) == "equal"


@pytest.mark.parametrize("equation", PRODUCTS)
def test_products_of_matrices_are_found(equation):
    left, right = equation.partition("->")[0].split(",")
    texts = [",".join(f"n{letter}" for letter in part) for part in (left, right)]
    text = f"(float[{texts[0]}] x, float[{texts[1]}] z) => (y) "
    script = from_onnx(row_of(text + f'{{ y = Einsum<equation="{equation}">(x, z) }}')).script()
    assert "R.matmul" in script and "R.einsum" not in script


@pytest.mark.parametrize("equation", OWN_SUMS)
def test_what_one_tensor_alone_has_is_summed_before_the_products(equation):
    left, right = equation.partition("->")[0].split(",")
    texts = [",".join("2" for _ in part) for part in (left, right)]
    script = from_onnx(
        row_of(
            f'(float[{texts[0]}] x, float[{texts[1]}] z) => (y) {{ y = Einsum<equation="{equation}">(x, z) }}'
        )
    ).script()
    assert "R.sum" in script


@FORMS
@pytest.mark.parametrize("rounding", ["floor", "round_prefer_floor", "round_prefer_ceil", "ceil"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "pytorch_half_pixel"])
def test_images_that_grow_by_whole_factors(coordinates, rounding, is_free):
    for (h, w), (rows, columns) in itertools.product(
        ((3, 5), (1, 1), (7, 4)), ((2, 2), (3, 1), (1, 4), (2, 1.5), (0.5, 2))
    ):
        if int(h * rows) == 0:
            continue
        text = f"(float[{'n, c, h, w' if is_free else f'1, 2, {h}, {w}'}] x) => (y) "
        model = row_of(
            text + f"{{ s = Constant<value=float[4] {{1, 1, {rows}, {columns}}}>() "
            f'y = Resize<mode="nearest", coordinate_transformation_mode="{coordinates}", '
            f'nearest_mode="{rounding}">(x, , s) }}'
        )
        x = np.random.default_rng().standard_normal((1, 2, h, w)).astype("float32")
        assert Compared(model).check({"x": x}) == "equal"


@FORMS
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_sums_of_rows(axis, is_free):
    for shape, exclusive, reverse in itertools.product(((3, 5, 7), (1, 4, 1), (2, 0, 3)), (0, 1), (0, 1)):
        model = row_of(
            f"(float[{dims(shape, is_free)}] x) => (y) {{ a = Constant<value=int64 {{{axis}}}>() "
            f"y = CumSum<exclusive={exclusive}, reverse={reverse}>(x, a) }}"
        )
        x = np.random.default_rng().integers(-9, 9, shape).astype("float32")
        assert Compared(model).check({"x": x}) == "equal"


def test_the_limits_of_a_non_max_suppression_may_be_constants():
    nodes = (
        "{ count = Constant<value=int64[1] {3}>() iou = Constant<value=float[1] {0.5}>() "
        "score = Constant<value=float[1] {0.1}>() y = NonMaxSuppression(boxes, scores, count, iou, score) }"
    )
    compared = Compared(row_of(f"(float[b,n,4] boxes, float[b,k,n] scores) => (y) {nodes}"))
    rng = np.random.default_rng()
    low = rng.uniform(0, 40, (2, 30, 2))
    boxes = np.concatenate([low, low + rng.uniform(5, 20, low.shape)], -1).astype("float32")
    scores = rng.uniform(0, 1, (2, 3, 30)).astype("float32")
    assert compared.check({"boxes": boxes, "scores": scores}) == "equal"


@FORMS
@pytest.mark.parametrize("diagonal", [-2, 0, 3])
def test_identity_matrices(diagonal, is_free):
    for shape in ((3, 5), (1, 1), (7, 2), (4, 0)):
        text = f"(float[{dims(shape, is_free)}] x) => (y) {{ y = EyeLike<k={diagonal}>(x) }}"
        x = np.ones(shape, "float32")
        wanted = np.eye(*shape, diagonal, dtype="float32")
        assert Compared(row_of(text)).check({"x": x}, [wanted]) == "equal"
