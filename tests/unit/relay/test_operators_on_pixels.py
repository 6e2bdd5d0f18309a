"""Correlation, crops, gradients of weights, bits and anchors, against loops and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from tests.unit.relay.test_operators_on_boxes import overlap
from tests.unit.relay.test_operators_that_compute_sizes import floats, run

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("is_multiply", [True, False])
@pytest.mark.parametrize("options", [(1, 2, 1, 1, 2), (3, 4, 2, 2, 4), (1, 1, 1, 1, 0)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_correlation(is_multiply: bool, options: tuple[int, ...], layout: str) -> None:
    kernel, reach, step, move, padding = options
    one, two = floats(1, 3, 8, 7), floats(1, 3, 8, 7)
    found = run(
        lambda a, b: relay.nn.correlation(
            a, b, kernel, reach, step, move, (padding, padding), is_multiply, layout
        ),
        *(image if layout == "NCHW" else image.transpose(0, 2, 3, 1).copy() for image in (one, two)),
    )
    found = found if layout == "NCHW" else found.transpose(0, 3, 1, 2)
    pads = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    a, b = np.pad(one, pads), np.pad(two, pads)
    radius = reach // move
    shifts = [(y * move, x * move) for y in range(-radius, radius + 1) for x in range(-radius, radius + 1)]
    assert found.shape[1] == len(shifts)
    for k, i, j in np.ndindex(*found.shape[1:]):
        y, x = i * step + reach, j * step + reach
        p = a[0, :, y : y + kernel, x : x + kernel]
        y, x = y + shifts[k][0], x + shifts[k][1]
        q = b[0, :, y : y + kernel, x : x + kernel]
        wanted = (p * q if is_multiply else np.abs(p - q)).mean()
        np.testing.assert_allclose(found[0, k, i, j], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("options", [(1, 1, 1), (2, 0, 1), (2, 1, 2)])
def test_gradient_of_a_convolutions_weight(groups: int, options: tuple[int, int, int]) -> None:
    stride, padding, dilation = options
    data, outputs, kernel = floats(2, 4, 8, 7), 6, (3, 2)
    pads = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded, own = np.pad(data, pads), 4 // groups
    counts = [
        (n - (k - 1) * dilation - 1) // stride + 1 for n, k in zip(padded.shape[2:], kernel, strict=True)
    ]
    grad = floats(2, outputs, *counts)
    wanted = np.zeros((outputs, own, *kernel), "float64")
    for o, c, i, j in np.ndindex(wanted.shape):
        channel = o // (outputs // groups) * own + c
        rows = slice(i * dilation, i * dilation + (counts[0] - 1) * stride + 1, stride)
        columns = slice(j * dilation, j * dilation + (counts[1] - 1) * stride + 1, stride)
        wanted[o, c, i, j] = (padded[:, channel, rows, columns].astype("float64") * grad[:, o]).sum()
    found = run(
        lambda g, x: relay.nn.conv2d_backward_weight(
            g, x, (stride, stride), (padding, padding), (dilation, dilation), groups, kernel_size=kernel
        ),
        grad,
        data,
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["uint8", "uint32"])
def test_bitpack(kind: str) -> None:
    width = int(kind[4:])
    data = RNG.integers(0, 4, (2, 2 * width, 3)).astype("int32")
    found = run(lambda x: relay.nn.bitpack(x, 2, 1, 2, kind), data)
    assert found.shape == (2, 2, 2, 3) and str(found.dtype) == kind
    for bit in range(2):
        planes = (data >> bit & 1).reshape(2, 2, width, 3).astype("uint64")
        factors = np.array([1 << (width - 1 - k) for k in range(width)], "uint64").reshape(1, 1, -1, 1)
        np.testing.assert_array_equal(found[:, :, bit], (planes * factors).sum(2).astype(kind))


@pytest.mark.parametrize("unipolar", [True, False])
@pytest.mark.parametrize("bits", [(1, 1), (2, 3)])
def test_products_of_bits(unipolar: bool, bits: tuple[int, int]) -> None:
    data = RNG.integers(0, 1 << bits[0], (3, 8)).astype("int16")
    weight = RNG.integers(0, 1 << bits[1], (5, 8)).astype("int16")
    signed = 2 * weight - ((1 << bits[1]) - 1) if unipolar else weight
    found = run(lambda x, w: relay.nn.bitserial_dense(x, w, 5, *bits, unipolar=unipolar), data, weight)
    np.testing.assert_array_equal(found, (data @ signed.T).astype("int16"))
    image, kernel = data[:, :4].reshape(1, 3, 2, 2), weight[:3, :3].reshape(1, 3, 1, 3)[..., :1]
    found = run(
        lambda x, w: relay.nn.bitserial_conv2d(
            x, w, kernel_size=(1, 1), activation_bits=bits[0], weight_bits=bits[1], unipolar=unipolar
        ),
        image,
        kernel,
    )
    own = 2 * kernel - ((1 << bits[1]) - 1) if unipolar else kernel
    np.testing.assert_array_equal(found, np.einsum("nchw,ocij->nohw", image, own).astype("int16"))


def _crop(image: Any, box: Any, size: tuple[int, int], is_nearest: bool, beyond: float) -> Any:
    found = np.zeros((image.shape[0], *size), "float32")
    height, width = image.shape[1:]
    for i, j in np.ndindex(*size):
        y = (box[0] + (i / (size[0] - 1)) * (box[2] - box[0]) if size[0] > 1 else (box[0] + box[2]) / 2) * (
            height - 1
        )
        x = (box[1] + (j / (size[1] - 1)) * (box[3] - box[1]) if size[1] > 1 else (box[1] + box[3]) / 2) * (
            width - 1
        )
        if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
            found[:, i, j] = beyond
        elif is_nearest:
            found[:, i, j] = image[:, int(np.floor(y + 0.5)), int(np.floor(x + 0.5))]
        else:
            top, left = int(np.floor(y)), int(np.floor(x))
            down, right = min(top + 1, height - 1), min(left + 1, width - 1)
            v, u = y - top, x - left
            upper = image[:, top, left] * (1 - u) + image[:, top, right] * u
            lower = image[:, down, left] * (1 - u) + image[:, down, right] * u
            found[:, i, j] = upper * (1 - v) + lower * v
    return found


@pytest.mark.parametrize("method", ["bilinear", "nearest_neighbor"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1)])
def test_crop_and_resize(method: str, layout: str, size: tuple[int, int]) -> None:
    data = floats(2, 3, 6, 5)
    boxes = np.array([[0.11, 0.21, 0.83, 0.72], [0.93, 0.31, 0.22, 1.4], [-0.2, 0.01, 0.52, 0.97]], "float32")
    images = np.array([1, 0, 1], "int32")
    given = data if layout == "NCHW" else data.transpose(0, 2, 3, 1).copy()
    found = run(
        lambda x, b, i: relay.image.crop_and_resize(x, b, i, size, layout, method, 2.5), given, boxes, images
    )
    found = found if layout == "NCHW" else found.transpose(0, 3, 1, 2)
    for k, box in enumerate(boxes):
        wanted = _crop(data[images[k]], box.astype("float64"), size, method != "bilinear", 2.5)
        np.testing.assert_allclose(found[k], wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2])
def test_yolo_reorg(stride: int) -> None:
    """Darknet's layer: the blocks of each channel come one after another."""
    data = np.arange(2 * 8 * 4 * 6, dtype="float32").reshape(2, 8, 4, 6)
    found = run(lambda x: relay.vision.yolo_reorg(x, stride), data)
    wanted = np.zeros_like(data).reshape(2, -1)
    channels, height, width = data.shape[1:]
    own = channels // stride**2
    flat = data.reshape(2, -1)
    for k, j, i in np.ndindex(channels, height, width):
        row, column = j * stride + k // own // stride, i * stride + k // own % stride
        source = column + width * stride * (row + height * stride * (k % own))
        wanted[:, i + width * (j + height * k)] = flat[:, source]
    np.testing.assert_array_equal(found, wanted.reshape(found.shape))


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("keeps", [False, True])
def test_multibox_transform_loc(clip: bool, keeps: bool) -> None:
    scores, moves = RNG.random((2, 3, 5)).astype("float32"), floats(2, 20)
    anchors = np.sort(RNG.random((1, 5, 2, 2)), 2).reshape(1, 5, 4).astype("float32")
    rows, counts = run(
        lambda p, m, a: relay.vision.multibox_transform_loc(p, m, a, clip, 0.6, keep_background=keeps),
        scores,
        moves,
        anchors,
    )
    for image in range(2):
        place = 0
        own = scores[image] if keeps else scores[image, 1:]
        for k in range(5):
            if own[:, k].max() < np.float32(0.6):
                continue
            left, top, right, bottom = anchors[0, k]
            w, h, x, y = right - left, bottom - top, (left + right) / 2, (top + bottom) / 2
            dx, dy, dw, dh = moves[image, 4 * k : 4 * k + 4] * np.array([0.1, 0.1, 0.2, 0.2])
            x, y, w, h = dx * w + x, dy * h + y, np.exp(dw) * w / 2, np.exp(dh) * h / 2
            corners = np.array([x - w, y - h, x + w, y + h])
            corners = np.clip(corners, 0, 1) if clip else corners
            wanted = [own[:, k].argmax(), own[:, k].max(), *corners]
            np.testing.assert_allclose(rows[image, place], wanted, rtol=1e-4, atol=1e-5)
            place += 1
        assert counts[image] == place and (rows[image, place:] == -1).all()


@pytest.mark.parametrize("is_iou", [False, True])
def test_proposal(is_iou: bool) -> None:
    """Boxes that overlap less than the threshold, by falling score, inside of the image."""
    scales, ratios, stride, most = (1.0, 2.0), (0.5, 1.0), 8, 12
    scores = RNG.permuted(np.linspace(0.01, 1, 2 * 8 * 12, dtype="float32")).reshape(2, 8, 3, 4)
    moves = (RNG.standard_normal((2, 16, 3, 4)) * 0.2).astype("float32")
    info = np.array([[24, 32, 1.0], [20, 30, 1.0]], "float32")
    found = run(
        lambda p, m, i: relay.vision.proposal(p, m, i, scales, ratios, stride, 0.5, 40, most, 4, is_iou),
        scores,
        moves,
        info,
    ).reshape(2, most, 5)
    for image in range(2):
        assert (found[image, :, 0] == image).all()
        boxes = found[image, :, 1:]
        height, width, _ = info[image]
        assert (boxes >= 0).all() and (boxes[:, [0, 2]] < width).all() and (boxes[:, [1, 3]] < height).all()
        distinct = np.unique(boxes, axis=0)
        wide = distinct + np.array([0, 0, 1, 1])
        for one, other in zip(*np.triu_indices(len(wide), 1), strict=True):
            assert overlap(wide[one], wide[other]) <= 0.5 + 1e-6
        np.testing.assert_array_equal(boxes[len(distinct) :], boxes[: most - len(distinct)][:most])


def test_grid_sample_reads_the_nearest_pixel() -> None:
    data = floats(1, 2, 3, 4)
    y, x = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 4), indexing="ij")
    found = run(lambda d, g: relay.image.grid_sample(d, g, "nearest"), data, np.float32([[x, y]]))
    np.testing.assert_array_equal(found, data)
