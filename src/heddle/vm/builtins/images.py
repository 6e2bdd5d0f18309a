"""The builtin that decodes image files, with Pillow (an optional dependency)."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from heddle.runtime.tensor import Tensor, tensor
from heddle.support.diagnostics import MissingDependencyError, TrapValueError
from heddle.support.distribution import pip_install
from heddle.support.limits import current_limits, exceeded
from heddle.vm.builtins.kv_cache.state import check_tensor
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0403, V0412

FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""Pillow's names of the file formats that may be read. PPM means all portable pixmaps. Pillow itself knows
many more."""
CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}
_Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def _pillow() -> Any:
    try:
        from PIL import Image  # an extra: only images need it
    except ImportError as error:
        raise MissingDependencyError(
            V0412, "decoding images needs the package 'pillow'", help=pip_install("image")
        ) from error
    return Image


def _decoded(data: bytes, pixel_format: str) -> _Pixels | None:
    """Decode an image to (height, width, channels). Return None for bytes that are no image, and for pixels
    without a known value range. Raises: UsageError S0601."""
    pillow = _pillow()
    try:
        image = pillow.open(io.BytesIO(data), formats=FORMATS)
        if image.width * image.height <= current_limits().image_pixels:
            image.load()
            return None if image.mode == "F" else _in_format(image, pixel_format)
    except pillow.DecompressionBombError as error:
        raise exceeded("image_pixels", f"an image is larger than Pillow reads: {error}") from error
    except MemoryError:
        raise
    except Exception:  # each format fails on a damaged file with its own exceptions
        return None
    raise exceeded("image_pixels", f"an image has {image.width} x {image.height} pixels")


def _in_format(image: Any, pixel_format: str) -> _Pixels:
    if image.mode.startswith("I"):  # 16-bit gray, sometimes stored in 32 bits
        gray = (np.clip(np.asarray(image).astype(np.int64), 0, 65535) >> 8).astype(np.uint8)
        return np.repeat(gray[:, :, None], CHANNELS[pixel_format], axis=2)
    made = np.asarray(image.convert("L" if pixel_format == "Grayscale" else "RGB"))
    made = made if made.ndim == 3 else made[:, :, None]
    return made[:, :, ::-1] if pixel_format == "BGR" else made


@builtin("image_decode")
def image_decode(encoded: Any, pixel_format: str) -> Tensor:
    """Decode the first image of a file to uint8 (height, width, channels). If it cannot be decoded, the
    result has no pixels.

    Formats: BMP, JPEG, JPEG 2000, PNG, TIFF, WebP and portable pixmaps. Of 16-bit channels the upper 8 bits
    are used. Transparency is ignored.

    Raises: TrapValueError V0403 if `encoded` is not uint8 of one dimension, or for another pixel format;
    UsageError S0601 for more than `image_pixels` pixels; MissingDependencyError V0412 without Pillow.
    """
    channels = CHANNELS.get(pixel_format)
    if channels is None:
        raise TrapValueError(V0403, f"expected a pixel format of {', '.join(CHANNELS)}, got {pixel_format!r}")
    data = check_tensor("image_decode", encoded, (None,), "uint8").numpy().tobytes()
    pixels = _decoded(data, pixel_format)
    if pixels is None:
        pixels = np.empty((0, 0, channels), np.uint8)
    return tensor(np.ascontiguousarray(pixels))
