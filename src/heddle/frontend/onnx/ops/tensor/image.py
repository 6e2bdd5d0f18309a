"""ImageDecoder: the pixels of an image file."""

from __future__ import annotations

from heddle.frontend.onnx.context import NodeContext, Result
from heddle.frontend.onnx.ops.control.run_time_sequence import packed
from heddle.frontend.onnx.registry import converts
from heddle.graph.types import TensorType
from heddle.ir.expr import StringImm
from heddle.runtime.dtype import DataType
from heddle.vm.builtins.images import CHANNELS


@converts("ImageDecoder", since=20)
def image_decoder(ctx: NodeContext) -> Result:
    """Height and width are known when the file is; the number of channels by the pixel format."""
    pixel_format = ctx.attr("pixel_format", "RGB")
    if pixel_format not in CHANNELS:
        ctx.malformed(f"pixel_format must be one of {', '.join(CHANNELS)}, got {pixel_format!r}")
    if ctx.dtype(0) != "uint8" or ctx.ndim(0) != 1:
        ctx.malformed(f"expected bytes of one dimension, got {ctx.ndim(0)} of {ctx.dtype(0)}")
    ty = TensorType(None, DataType("uint8"), None, 3)
    made = ctx.known_dims(packed(ctx, "image_decode", [ctx.tensor(0), StringImm(pixel_format)], ty))
    return ctx.cast_shape(made, (*ctx.dims_of(made)[:2], CHANNELS[pixel_format]))
