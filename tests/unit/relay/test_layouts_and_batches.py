"""Operators in the layouts and with the batch axes that TVM has, against the plain ones and numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.runtime import tensor
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import plain, program

RNG = np.random.default_rng(12)
IMAGE = RNG.standard_normal((2, 4, 6, 8)).astype("float32")
LAYOUTS = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1)}
ROIS = np.array([[0, 1, 1, 5, 4], [1, 0, 0, 3, 3]], "float32")


def _values(text: str, *arrays: Any) -> list[Any]:
    """What the interpreter and the machine give, which agree."""
    mod = program(text)
    found = [
        plain(relay.create_executor(kind, mod).evaluate()(*map(tensor, arrays))) for kind in ("debug", "vm")
    ]
    for value in found:
        np.testing.assert_allclose(value, found[0], rtol=1e-5, atol=1e-6)
    return found


def _typed(array: Any, is_free: bool) -> str:
    dims = ["?"] * array.ndim if is_free else [str(size) for size in array.shape]
    return f"Tensor[({', '.join(dims)}), {array.dtype}]"


POOLS = {
    "nn.max_pool2d": "pool_size=[2, 2], strides=[2, 2], ",
    "nn.avg_pool2d": "pool_size=[3, 3], padding=[1, 1], ",
    "nn.global_max_pool2d": "",
    "nn.global_avg_pool2d": "",
    "nn.adaptive_max_pool2d": "output_size=[2, 3], ",
    "nn.adaptive_avg_pool2d": "output_size=[2], ",
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("is_free", [True, False])
def test_results_of_pools_are_in_their_own_layout(name: str, is_free: bool) -> None:
    def value(array: Any, layouts: str) -> Any:
        call = f"{name}(%x, {POOLS[name]}{layouts})"
        return _values(f"def @main(%x: {_typed(array, is_free)}) {{ {call} }}", array)[1]

    plain_result = value(IMAGE, 'layout="NCHW"')
    for layout, axes in LAYOUTS.items():
        for out, order in LAYOUTS.items():
            image = np.ascontiguousarray(IMAGE.transpose(axes))
            found = value(image, f'layout="{layout}", out_layout="{out}"')
            np.testing.assert_allclose(found, plain_result.transpose(order), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "is_free"),
    [
        ('nn.depth_to_space(%x, block_size=2, mode="CDR", layout="{}")', False),
        ('nn.depth_to_space(%x, block_size=2, layout="{}")', False),
        ('nn.space_to_depth(%x, block_size=2, layout="{}")', False),
        ('vision.roi_align(%x, %r, pooled_size=[2, 3], spatial_scale=1f, sample_ratio=2, layout="{}")', True),
        ('vision.roi_pool(%x, %r, pooled_size=[2, 3], spatial_scale=1f, layout="{}")', True),
    ],
)
def test_channels_may_lie_last(call: str, is_free: bool) -> None:
    def value(layout: str) -> Any:
        image = np.ascontiguousarray(IMAGE.transpose(LAYOUTS[layout]))
        params = f"%x: {_typed(image, is_free)}, %r: {_typed(ROIS, False)}"
        return _values(f"def @main({params}) {{ {call.format(layout)} }}", image, ROIS)[1]

    np.testing.assert_allclose(value("NHWC"), value("NCHW").transpose(LAYOUTS["NHWC"]), rtol=1e-5, atol=1e-6)


def test_grids_of_volumes() -> None:
    volume = RNG.standard_normal((1, 2, 3, 4, 5)).astype("float32")
    axes = [np.linspace(-1, 1, size) for size in volume.shape[2:]]
    z, y, x = np.meshgrid(*axes, indexing="ij")
    grid = np.stack([x, y, z])[None].astype("float32")
    params = f"%x: {_typed(volume, False)}, %g: {_typed(grid, False)}"
    call = 'image.grid_sample(%x, %g, layout="NCDHW")'
    found = _values(f"def @main({params}) {{ {call} }}", volume, grid)[1]
    np.testing.assert_allclose(found, volume, rtol=1e-4, atol=1e-5)


def _taken(data: Any, indices: Any, axis: int, batch: int, mode: str) -> Any:
    size = data.shape[axis]
    indices = np.clip(indices, 0, size - 1) if mode == "clip" else indices % size
    found = np.empty((*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :]), data.dtype)
    for at in np.ndindex(*data.shape[:batch]):
        found[at] = np.take(data[at], indices[at], axis=axis - batch)
    return found


@pytest.mark.parametrize("mode", ["clip", "wrap", "fast"])
@pytest.mark.parametrize("is_free", [True, False])
@pytest.mark.parametrize(
    ("shape", "of_indices", "axis", "batch"),
    [
        ((2, 5, 3), (2, 4), 1, 1),
        ((2, 3, 5, 4), (2, 6), 2, 1),
        ((2, 3, 5, 4), (2, 3, 2, 2), 3, 2),
        ((2, 3, 5), (2,), 2, 1),
        ((2, 5, 3), (2, 4), 1, -1),
        ((2, 5, 3), (2, 0), 1, 1),
        ((5, 3), (2, 4), 0, 0),
    ],
)
def test_take_by_batches(
    shape: Any, of_indices: Any, axis: int, batch: int, mode: str, is_free: bool
) -> None:
    size = shape[axis]
    low, high = (0, size) if mode == "fast" else (-2 * size, 2 * size)
    data = RNG.standard_normal(shape).astype("float32")
    indices = RNG.integers(low, high, of_indices).astype("int32")
    params = f"%x: {_typed(data, is_free)}, %i: {_typed(indices, is_free)}"
    call = f'take(%x, %i, axis={axis}, batch_dims={batch}, mode="{mode}")'
    found = _values(f"def @main({params}) {{ {call} }}", data, indices)[1]
    wanted = _taken(data, indices, axis, batch if batch >= 0 else batch + len(of_indices), mode)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ("axis=1, batch_dims=2", "up to the axis 1"),
        ("batch_dims=1", "goes with an axis"),
        ("axis=1, batch_dims=3", "out of range"),
        ('axis=1, mode="nan"', "mode is one of clip, wrap, fast"),
    ],
)
def test_take_is_refused(attrs: str, words: str) -> None:
    params = "%x: Tensor[(2, 5, 3), float32], %i: Tensor[(2, 5), int32]"
    with pytest.raises(HeddleError, match=f"R0205.*{words}"):
        program(f"def @main({params}) {{ take(%x, %i, {attrs}) }}")


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("is_free", [True, False])
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_the_last_of_equal_elements(name: str, is_free: bool, keepdims: bool, axis: int | None) -> None:
    data = RNG.integers(0, 3, (4, 5)).astype("int32")
    attrs = f"{f'axis=[{axis}], ' if axis is not None else ''}keepdims={keepdims}, select_last_index=True"
    found = _values(f"def @main(%x: {_typed(data, is_free)}) {{ {name}(%x, {attrs}) }}", data)[1]
    best = np.argmax if name == "argmax" else np.argmin
    turned = np.flip(data.reshape(-1) if axis is None else data, 0 if axis is None else axis)
    size = data.size if axis is None else data.shape[axis]
    wanted = size - 1 - best(turned, 0 if axis is None else axis)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
    assert found.dtype == np.int32 and found.ndim == (
        2 if keepdims else data.ndim - 1 if axis is not None else 0
    )


def test_a_mean_between_two_integers_is_rounded_away_from_zero() -> None:
    """In every engine, also where the number of elements is no power of two."""
    data = RNG.integers(-40, 40, (1, 6, 6, 50)).astype("int8")
    params = f"%x: {_typed(data, False)}"
    call = "qnn.avg_pool2d(%x, 1f, 0, 1f, 0, pool_size=[3, 2], strides=[3, 2], padding=[0, 0])"
    found = _values(f"def @main({params}) {{ {call} }}", data)
    sums = data.astype("int64").reshape(1, 2, 3, 3, 2, 50).sum((2, 4))
    wanted = np.sign(sums) * ((2 * np.abs(sums) + 6) // 12)
    assert (np.abs(sums) % 6 == 3).any()
    for value in found:
        np.testing.assert_array_equal(value, wanted)
