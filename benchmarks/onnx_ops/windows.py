"""Rows of operators on windows and positions of images: convolutions, pools, resizing, sampling."""

from __future__ import annotations

import numpy as np

from benchmarks.onnx_ops.case import Case, Sizes, Weight, integers, on_images, uniform

_CHANNELS = "float[n,64,h,w] x"
_SMALL = {"n": 1, "h": 7, "w": 7}
_LARGE = {"n": 1, "h": 56, "w": 56}
_POOLED_SMALL = {"n": 1, "c": 16, "h": 14, "w": 14}
_POOLED_LARGE = {"n": 1, "c": 64, "h": 112, "w": 112}
_RESIZED_SMALL = {"n": 1, "c": 8, "h": 14, "w": 14}
_RESIZED_LARGE = {"n": 1, "c": 32, "h": 56, "w": 56}


def _conv(form: str, attributes: str, weight: tuple[int, ...], operator: str = "Conv") -> Case:
    return Case(
        operator,
        _CHANNELS,
        f"y = {operator}<{attributes}>(x, w, b)",
        _SMALL,
        _LARGE,
        form=form,
        weights={"w": Weight(weight), "b": Weight((64,))},
    )


def _resize(form: str, attributes: str, scale: float) -> Case:
    weights = {"scales": Weight((4,), fill=lambda *_: np.array([1, 1, scale, scale]))}
    return Case(
        "Resize",
        "float[n,c,h,w] x",
        f"y = Resize<{attributes}>(x, , scales)",
        _RESIZED_SMALL,
        _RESIZED_LARGE,
        form=form,
        weights=weights,
    )


def _rois(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    """Boxes (x1, y1, x2, y2) in the image."""
    low = rng.uniform(0, sizes["h"] / 2, (shape[0], 2))
    return np.concatenate([low, low + rng.uniform(2, sizes["h"] / 2, low.shape)], -1)


def _batch_and_rois(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    return np.concatenate([np.zeros((shape[0], 1)), np.round(_rois(rng, (shape[0], 4), sizes))], -1)


WINDOWS: tuple[Case, ...] = (
    _conv("3 × 3", "pads=[1,1,1,1]", (64, 64, 3, 3)),
    _conv("1 × 1", "kernel_shape=[1,1]", (64, 64, 1, 1)),
    _conv("depthwise", "pads=[1,1,1,1], group=64", (64, 1, 3, 3)),
    Case(
        "Conv",
        "float[n,64,l] x",
        "y = Conv<pads=[1,1]>(x, w)",
        {"n": 1, "l": 32},
        {"n": 1, "l": 4096},
        form="1-D",
        weights={"w": Weight((64, 64, 3))},
    ),
    _conv("", "strides=[2,2], pads=[1,1,1,1]", (64, 64, 4, 4), "ConvTranspose"),
    Case(
        "DeformConv",
        "float[n,64,h,w] x, float[n,18,h,w] o",
        "y = DeformConv<pads=[1,1,1,1]>(x, w, o)",
        _SMALL,
        {"n": 1, "h": 28, "w": 28},
        weights={"w": Weight((64, 64, 3, 3))},
    ),
    Case(
        "MaxPool",
        "float[n,c,h,w] x",
        "y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x)",
        _POOLED_SMALL,
        _POOLED_LARGE,
    ),
    Case(
        "MaxPool",
        "float[n,c,h,w] x",
        "y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)",
        _POOLED_SMALL,
        _POOLED_LARGE,
        form="with indices",
        outputs="y, i",
    ),
    on_images("AveragePool", "AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x)"),
    on_images("LpPool", "LpPool<kernel_shape=[2,2], strides=[2,2]>(x)"),
    Case(
        "MaxRoiPool",
        "float[n,c,h,w] x, float[k,5] rois",
        "y = MaxRoiPool<pooled_shape=[7,7]>(x, rois)",
        {"n": 1, "c": 8, "h": 14, "w": 14, "k": 4},
        {"n": 1, "c": 64, "h": 56, "w": 56, "k": 64},
        fills={"rois": _batch_and_rois},
        opset=21,
    ),
    Case(
        "RoiAlign",
        "float[n,c,h,w] x, float[k,4] rois, int64[k] i",
        "y = RoiAlign<output_height=7, output_width=7, sampling_ratio=2>(x, rois, i)",
        {"n": 1, "c": 8, "h": 14, "w": 14, "k": 4},
        {"n": 1, "c": 64, "h": 56, "w": 56, "k": 64},
        fills={"rois": _rois, "i": lambda rng, shape, sizes: np.zeros(shape)},
        opset=21,
    ),
    _resize(
        "nearest", 'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"', 2.0
    ),
    _resize("linear", 'mode="linear"', 2.0),
    _resize("linear, smaller", 'mode="linear"', 0.6),
    _resize("cubic", 'mode="cubic"', 2.0),
    Case(
        "GridSample",
        "float[n,c,h,w] x, float[n,p,q,2] g",
        'y = GridSample<mode="linear">(x, g)',
        {"n": 1, "c": 8, "h": 14, "w": 14, "p": 14, "q": 14},
        {"n": 1, "c": 32, "h": 56, "w": 56, "p": 56, "q": 56},
        fills={"g": uniform(-1, 1)},
    ),
    Case(
        "GridSample",
        "float[n,c,h,w] x, float[n,p,q,2] g",
        'y = GridSample<mode="cubic">(x, g)',
        {"n": 1, "c": 8, "h": 14, "w": 14, "p": 14, "q": 14},
        {"n": 1, "c": 32, "h": 56, "w": 56, "p": 56, "q": 56},
        form="cubic",
        fills={"g": uniform(-1, 1)},
    ),
    Case(
        "AffineGrid",
        "float[n,2,3] theta",
        "y = AffineGrid(theta, size)",
        {"n": 1, "side": 14},
        {"n": 4, "side": 224},
        weights={"size": integers("n", 3, "side", "side")},
    ),
)
