"""Relay's operators on images, and regions of them."""

from __future__ import annotations

from typing import Any

from heddle.graph.codes import R0205
from heddle.graph.op_builder import call_op
from heddle.ir.op_def import Input
from heddle.ops.relay_names.pixels import laid_out
from heddle.ops.relay_names.rules import DATA, Given, Rows, alias, attr, dims_of, fixed, rank, whole
from heddle.support.diagnostics import IRTypeError

RESIZED = (
    attr("method", "str", "linear"),
    attr("coordinate_transformation_mode", "str", "half_pixel"),
    attr("rounding_method", "str", "round"),
    attr("cubic_alpha", "float", -0.5),
    attr("cubic_exclude", "int", 0),
    attr("extrapolation_value", "float", 0.0),
    attr("out_dtype", "dtype", None),
)
"""What images are resized by, behind their layout."""
_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_PADS = {"SYMMETRIC": "symmetric", "REFLECT": "reflect"}


def _named(given: Given, what: str, names: dict[str, str]) -> str:
    value = str(given[what])
    if value not in names:
        raise IRTypeError(R0205, f"{what} is one of {', '.join(names)}, got {value!r}")
    return names[value]


def _channels_first(record: str, *names: str, **made: Any) -> Any:
    """An operator on channels that lie first, in any layout: `names` are its further arguments, `made` those
    that are made of all. The result is in the layout of the data."""

    def call(given: Given) -> Any:
        layout = str(given["layout"])
        plain = _LAYOUTS[rank(given["data"]) - 2] if 3 <= rank(given["data"]) <= 5 else layout
        data = laid_out(given["data"], layout, plain)
        own = {name: given[name] for name in names} | {name: make(given) for name, make in made.items()}
        found = call_op(record, data, **own)
        return laid_out(found, plain, layout)

    return call


def _scaled(given: Given) -> list[Any]:
    """The sizes of the spatial axes times their scales, rounded where they are known."""
    layout = str(given["layout"])
    dims, sizes = dims_of(given["data"]), []
    for letter in (letter for letter in "DHW" if f"scale_{letter.lower()}" in given):
        dim, scale = dims[layout.index(letter)], float(given[f"scale_{letter.lower()}"])
        size = whole(dim)
        if size is None and scale != int(scale):
            raise IRTypeError(R0205, f"a size that is not known is scaled by whole numbers, got {scale}")
        sizes.append(dim * int(scale) if size is None else round(size * scale))
    return sizes


_METHODS = {
    "nearest_neighbor": "nearest_neighbor",
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
}


def _method(given: Given) -> str:
    return _named(given, "method", _METHODS)


def _places(given: Given) -> str:
    return "align_corners" if given["align_corners"] else "asymmetric"


def _rounding(given: Given) -> str:
    return "floor" if _places(given) == "asymmetric" else "round"


def _grid_size(given: Given) -> list[int]:
    if given["target_shape"] is None:
        raise IRTypeError(R0205, "image.affine_grid needs target_shape, the height and width of the grid")
    return [int(size) for size in given["target_shape"]]


def _column(given: Given, first: int, last: int) -> Any:
    """Columns of the regions."""
    return call_op("strided_slice", given["rois"], axes=[1], begin=[first], end=[last])


def _block_size(given: Given) -> int:
    return int(given["block_size"])


def _coordinates_last(given: Given) -> Any:
    """The grid, whose coordinates Relay has along axis 1."""
    grid = given["grid"]
    return call_op("permute_dims", grid, axes=[0, *range(2, rank(grid)), 1])


def _resizing() -> Rows:
    for ndim in (1, 2, 3):
        yield (
            f"image.resize{ndim}d",
            alias(
                f"image.resize{ndim}d",
                DATA,
                (
                    attr("size", "list"),
                    attr("roi", "floats", None),
                    attr("layout", "str", _LAYOUTS[ndim]),
                    *RESIZED,
                ),
                defaults={"rounding_method": ""},
                size=lambda given: list(given["size"]),
                roi=lambda given: list(given["roi"]) if given["roi"] else None,
            ),
        )
    scale = {letter: attr(f"scale_{letter}", "float", 1.0) for letter in "dhw"}
    yield (
        "image.resize2d",
        alias(
            "nn.upsampling",
            DATA,
            (
                scale["h"],
                scale["w"],
                attr("layout", "str", "NCHW"),
                attr("method", "str", "nearest_neighbor"),
                attr("align_corners", "bool", False),
            ),
            size=_scaled,
            method=_method,
            coordinate_transformation_mode=_places,
            rounding_method=_rounding,
        ),
    )
    yield (
        "image.resize3d",
        alias(
            "nn.upsampling3d",
            DATA,
            (
                scale["d"],
                scale["h"],
                scale["w"],
                attr("layout", "str", "NCDHW"),
                attr("method", "str", "nearest_neighbor"),
                attr("coordinate_transformation_mode", "str", "half_pixel"),
            ),
            size=_scaled,
            method=_method,
        ),
    )


def aliases() -> Rows:
    """The names of this file."""
    yield from _resizing()
    yield (
        "nn.pixel_shuffle",
        alias(
            "nn.depth_to_space",
            DATA,
            (attr("block_size", "int", 1), attr("layout", "str", "NCHW"), attr("mode", "str", "DCR")),
            expression=_channels_first(
                "nn.pixel_shuffle",
                upscale_factor=_block_size,
                blocks_first=lambda given: _named(given, "mode", {"DCR": "1", "CDR": ""}) == "1",
            ),
        ),
    )
    yield (
        "nn.pixel_unshuffle",
        alias(
            "nn.space_to_depth",
            DATA,
            (attr("block_size", "int", 1), attr("layout", "str", "NCHW")),
            expression=_channels_first(
                "nn.pixel_unshuffle", downscale_factor=_block_size, blocks_first=fixed(True)
            ),
        ),
    )
    yield (
        "nn.pad",
        alias(
            "nn.mirror_pad",
            DATA,
            (attr("mode", "str", "SYMMETRIC"), attr("pad_width", "pairs")),
            pad_width=lambda given: [int(size) for pair in given["pad_width"] for size in pair],
            pad_mode=lambda given: _named(given, "mode", _PADS),
            function=lambda data, pad_width, mode="SYMMETRIC": {
                "data": data,
                "pad_width": pad_width,
                "mode": mode,
            },
        ),
    )
    yield from _regions()


def _regions() -> Rows:
    """Positions and regions that a tensor gives."""
    yield (
        "image.grid_sample",
        alias(
            "image.grid_sample",
            (Input("data"), Input("grid")),
            (
                attr("method", "str", "bilinear"),
                attr("layout", "str", "NCHW"),
                attr("padding_mode", "str", "zeros"),
                attr("align_corners", "bool", True),
            ),
            expression=_channels_first(
                "image.grid_sample",
                "padding_mode",
                "align_corners",
                grid=_coordinates_last,
                method=lambda given: _named(
                    given, "method", {"bilinear": "linear", "nearest": "nearest_neighbor", "bicubic": "cubic"}
                ),
            ),
        ),
    )
    yield (
        "vision.roi_align",
        alias(
            "vision.roi_align",
            (Input("data"), Input("rois")),
            (
                attr("pooled_size", "list"),
                attr("spatial_scale", "float"),
                attr("sample_ratio", "int", -1),
                attr("layout", "str", "NCHW"),
                attr("mode", "str", "avg"),
            ),
            expression=_channels_first(
                "vision.roi_align",
                "pooled_size",
                "spatial_scale",
                "mode",
                rois=lambda given: _column(given, 1, 5),
                batch_indices=lambda given: call_op(
                    "astype", call_op("squeeze", _column(given, 0, 1), axis=[1]), dtype="int64"
                ),
                sample_ratio=lambda given: max(0, int(given["sample_ratio"])),
            ),
        ),
    )
    yield (
        "vision.roi_pool",
        alias(
            "vision.roi_pool",
            (Input("data"), Input("rois")),
            (attr("pooled_size", "list"), attr("spatial_scale", "float"), attr("layout", "str", "NCHW")),
            expression=_channels_first(
                "vision.roi_pool", "pooled_size", "spatial_scale", rois=lambda given: given["rois"]
            ),
        ),
    )
    yield (
        "image.affine_grid",
        alias(
            "image.affine_grid",
            DATA,
            (attr("target_shape", "list", None),),
            size=_grid_size,
            align_corners=lambda given: True,
        ),
    )
