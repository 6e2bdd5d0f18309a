"""Operators whose loops are written by hand run their rows on threads, with the same bits on any number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.ir.visitor import walk
from heddle.runtime.native.library import native_library, set_num_threads
from heddle.script.parser import DEFAULT_NAMES, parse_source
from heddle.support.span import Source
from heddle.tir.nodes import For, ForKind

MODEL = """
@I.ir_module
class Module:
    @R.function
    def main({params}):
        with R.dataflow():
            y = R.{call}
            R.output(y)
        return y
"""
ROWS, LENGTH = 96, 700
F32, F64 = np.float32, np.float64


def rows(rng: np.random.Generator, *shape: int) -> Any:
    return rng.integers(-50, 50, shape).astype(F32)


def regions(rng: np.random.Generator) -> Any:
    corner = rng.random((ROWS, 2), F32) * 20
    return np.concatenate([corner, corner + 1 + rng.random((ROWS, 2), F32) * 9], 1)


def _top(x: Any, count: int) -> Any:
    return np.take_along_axis(x, np.argsort(-x, -1, kind="stable"), -1)[..., :count]


def _chosen(prob: Any, drawn: Any, row: Any) -> Any:
    places = (np.cumsum(prob[row[:, 0]], 1, dtype=prob.dtype) <= drawn).sum(1, keepdims=True)
    return np.minimum(places, prob.shape[1] - 1)


MATRIX = 'x: R.Tensor(("n", "m"), "float32")'
CUBE = 'x: R.Tensor(("a", "b", "m"), "float32")'
CASES: dict[str, tuple[str, str, Callable[[Any], tuple[Any, ...]], Callable[..., Any] | None]] = {
    "argsort": (
        MATRIX,
        'argsort(x, axis=-1, dtype="int64")',
        lambda rng: (rows(rng, ROWS, LENGTH),),
        lambda x: np.argsort(x, -1, kind="stable"),
    ),
    "argsort of two outer axes": (
        CUBE,
        'argsort(x, axis=1, dtype="int64")',
        lambda rng: (rows(rng, 7, LENGTH, 11),),
        lambda x: np.argsort(x, 1, kind="stable"),
    ),
    "topk": (
        CUBE,
        'topk(x, k=9, axis=-1, ret_type="values")',
        lambda rng: (rows(rng, 12, 8, LENGTH),),
        lambda x: _top(x, 9),
    ),
    "bucketize": (
        f'{MATRIX}, edges: R.Tensor(("k",), "float32")',
        "bucketize(x, edges)",
        lambda rng: (rows(rng, ROWS, LENGTH), np.unique(rows(rng, 40))),
        lambda x, edges: np.searchsorted(edges, x),
    ),
    "cumsum": (
        MATRIX,
        "cumsum(x, axis=1)",
        lambda rng: (rows(rng, ROWS, LENGTH),),
        lambda x: np.cumsum(x, 1, dtype=F32),
    ),
    "cumsum along an axis before the last": (
        CUBE,
        "cumsum(x, axis=1)",
        lambda rng: (rows(rng, ROWS, 30, 20),),
        lambda x: np.cumsum(x, 1, dtype=F32),
    ),
    "multinomial": (
        'p: R.Tensor(("b", "v"), "float32"), u: R.Tensor(("n", 1), "float32"), '
        'r: R.Tensor(("n", 1), "int64")',
        "multinomial_from_uniform(p, u, r)",
        lambda rng: (
            rng.integers(1, 9, (5, LENGTH)).astype(F32) / 8192,
            rng.integers(0, 4096, (ROWS * 9, 1)).astype(F32) / 8192,
            rng.integers(0, 5, (ROWS * 9, 1)),
        ),
        _chosen,
    ),
    "det": (
        'x: R.Tensor(("n", 9, 9), "float64")',
        "linalg.det(x)",
        lambda rng: (rng.standard_normal((ROWS, 9, 9)),),
        np.linalg.det,
    ),
    "roi_align": (
        'x: R.Tensor(("n", "c", "h", "w"), "float32"), rois: R.Tensor(("k", 4), "float32"), '
        'i: R.Tensor(("k",), "int64")',
        "vision.roi_align(x, rois, i, pooled_size=(7, 7), spatial_scale=1.0, sample_ratio=2)",
        lambda rng: (rows(rng, 2, 8, 32, 32), regions(rng), rng.integers(0, 2, ROWS)),
        None,
    ),
    "threefry": (
        'state: R.Tensor((8,), "uint64")',
        "random.threefry(state, R.shape([4096]))",
        lambda rng: (rng.integers(0, 2**64, 8, "uint64"),),
        None,
    ),
}


def parsed(name: str) -> Any:
    params, call, *_ = CASES[name]
    return parse_source(Source("model.py", MODEL.format(params=params, call=call)), DEFAULT_NAMES)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = native_library().num_threads
    yield set_num_threads
    set_num_threads(before)


@pytest.mark.parametrize("name", CASES)
def test_rows_are_a_parallel_loop(name: str) -> None:
    mod = relax.transform.LegalizeOps()(parsed(name))
    loops = [node for func in mod.functions.values() for node in walk(func) if isinstance(node, For)]
    assert any(loop.kind is ForKind.PARALLEL for loop in loops)


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_threads_gives_the_same_bits(name: str, threads: Callable[[int], None]) -> None:
    *_, make, reference = CASES[name]
    arrays = make(np.random.default_rng())
    main = relax.VirtualMachine(heddle.compile(parsed(name)), heddle.cpu())["main"]
    found = []
    for count in (1, 2, 5):
        threads(count)
        found.append(main(*arrays).numpy())
    assert all(each.tobytes() == found[0].tobytes() for each in found[1:])
    if reference is not None:
        np.testing.assert_allclose(found[0], reference(*arrays), rtol=1e-9 if name == "det" else 0)


@pytest.mark.parametrize("shape", [(0, 5, 3), (4, 0, 3), (3, 5, 0), (1, 1, 1)])
def test_axes_of_nothing(shape: tuple[int, ...]) -> None:
    for name in ("argsort of two outer axes", "cumsum along an axis before the last"):
        main = relax.VirtualMachine(heddle.compile(parsed(name)), heddle.cpu())["main"]
        x = np.random.default_rng().standard_normal(shape).astype(F32)
        reference = CASES[name][3]
        assert reference is not None
        np.testing.assert_allclose(main(x).numpy(), reference(x), rtol=1e-6)


SIZES = {"a": 3, "b": 2, "m": 5}


@pytest.mark.parametrize("nothing", SIZES)
@pytest.mark.parametrize(
    "call",
    [
        *(f'argsort(x, axis={axis}, dtype="int64")' for axis in range(3)),
        *(f"sort(x, axis={axis})" for axis in range(3)),
        *(f"cumsum(x, axis={axis})" for axis in range(3)),
        *(f"cumprod(x, axis={axis})" for axis in range(3)),
        *(f"topk(x, k=1, axis={axis})" for axis in range(3)),
        "bucketize(x, R.const([0.0, 1.0]))",
        "linalg.det(R.zeros(R.shape([{a}, {b}, {m}, {m}]), 'float32'))",
    ],
)
def test_stated_axes_of_nothing(call: str, nothing: str) -> None:
    sizes = SIZES | {nothing: 0}
    shape = tuple(sizes.values())
    if "k=1" in call and 0 in shape and shape.index(0) == int(call[-2]):
        pytest.skip("there is no greatest of none")
    text = MODEL.format(params=f'x: R.Tensor({shape}, "float32")', call=call.format(**sizes))
    mod = parse_source(Source("model.py", text), DEFAULT_NAMES)
    found = relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main"](np.zeros(shape, F32))
    for each in found if call.startswith("topk") else [found]:
        assert each.numpy().size == 0 or "det" in call
