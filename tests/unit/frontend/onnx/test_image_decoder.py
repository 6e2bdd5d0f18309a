"""ImageDecoder: files of every kind and mode, damaged ones, limits, a machine without Pillow."""

from __future__ import annotations

import builtins
import io
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import heddle
from heddle.driver.backend import HeddleBackend
from heddle.frontend.onnx import from_onnx
from heddle.runtime import tensor
from heddle.support.diagnostics import HeddleError, MissingDependencyError, TrapValueError, UsageError
from heddle.vm.builtins.images import image_decode

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
KINDS = {
    "BMP": "bmp",
    "PNG": "png",
    "PPM": "ppm",
    "TIFF": "tiff",
    "WEBP": "webp",
    "JPEG2000": "jp2",
    "JPEG": "jpg",
}
LOSSLESS = {"WEBP": {"lossless": True}}


def model(pixel_format: Any = "RGB", dtype: int = TensorProto.UINT8) -> Any:
    graph = helper.make_graph(
        [helper.make_node("ImageDecoder", ["x"], ["y"], pixel_format=pixel_format)],
        "g",
        [helper.make_tensor_value_info("x", dtype, ["n"])],
        [helper.make_tensor_value_info("y", dtype, ["h", "w", "c"])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def stored(
    array: np.ndarray[Any, Any], kind: str, mode: str | None = None, **options: Any
) -> np.ndarray[Any, Any]:
    file, image = io.BytesIO(), Image.fromarray(array)
    (image.convert(mode) if mode else image).save(file, kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def pixels(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_files_in_all_pixel_formats(kind: str, mode: str) -> None:
    colours = pixels(7, 13, 3)
    data = stored(colours, kind, **LOSSLESS.get(kind, {}))
    machines = {
        name: HeddleBackend.prepare(model(name), exec_mode=mode) for name in ("RGB", "BGR", "Grayscale")
    }
    (rgb,), (bgr,), (gray,) = (machine.run([data]) for machine in machines.values())
    if kind != "JPEG":
        np.testing.assert_array_equal(rgb, colours)
    else:
        np.testing.assert_array_equal(rgb, np.asarray(Image.open(io.BytesIO(data.tobytes()))))
    np.testing.assert_array_equal(bgr, rgb[:, :, ::-1])
    weights = rgb.astype(np.float64) @ [0.299, 0.587, 0.114]
    assert gray.shape == (7, 13, 1)
    assert np.abs(gray[:, :, 0] - weights).max() <= 1


@pytest.mark.parametrize(
    ("array", "kind", "mode", "want"),
    [
        (pixels(3, 5), "PNG", None, lambda a: np.repeat(a[:, :, None], 3, 2)),
        (pixels(3, 5), "TIFF", None, lambda a: np.repeat(a[:, :, None], 3, 2)),
        (pixels(3, 5, 4), "PNG", None, lambda a: a[:, :, :3]),
        (pixels(3, 5, 2), "PNG", None, lambda a: np.repeat(a[:, :, :1], 3, 2)),
        (pixels(3, 5).astype(np.uint16) * 257, "PNG", None, lambda a: np.repeat((a >> 8)[:, :, None], 3, 2)),
        (pixels(3, 5).astype(np.uint16) * 255, "TIFF", None, lambda a: np.repeat((a >> 8)[:, :, None], 3, 2)),
        (pixels(3, 5) // 128 * 255, "PNG", "1", lambda a: np.repeat(a[:, :, None], 3, 2)),
        (pixels(3, 5) // 128 * 255, "PPM", "1", lambda a: np.repeat(a[:, :, None], 3, 2)),
        (np.zeros((1, 1, 3), np.uint8), "BMP", "P", lambda a: a),
    ],
)
def test_gray_transparent_and_wide_pixels(array: Any, kind: str, mode: str | None, want: Any) -> None:
    got = image_decode(tensor(stored(array, kind, mode)), "RGB").numpy()
    np.testing.assert_array_equal(got, want(array))


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("kind", [*KINDS, None])
def test_damaged_files_give_no_pixels_or_some(kind: str | None) -> None:
    """Cut, changed and random bytes: never an error, always three dimensions and the channels asked for."""
    rng = np.random.default_rng(11)
    data = pixels(200) if kind is None else stored(pixels(9, 9, 3), kind)
    tries = [data[:size] for size in range(0, len(data), max(1, len(data) // 12))]
    for _ in range(40):
        changed = data.copy()
        changed[rng.integers(0, min(len(data), 120), 3)] = rng.integers(0, 256, 3)
        tries.append(changed)
    empty, codes = 0, set()
    with heddle.config.limits(image_pixels=10_000):
        for each in tries:
            try:
                got = image_decode(tensor(each), "RGB").numpy()
            except UsageError as error:  # a size that is beyond the limit
                codes.add(str(error.code))
                continue
            assert got.dtype == np.uint8 and got.ndim == 3 and got.shape[2] == 3
            empty += got.size == 0
    assert empty and codes <= {"S0601"}


def test_kinds_of_files_that_the_standard_does_not_name_are_not_read() -> None:
    for kind in ("GIF", "TGA", "ICO"):
        assert image_decode(tensor(stored(pixels(4, 4, 3), kind)), "Grayscale").numpy().shape == (0, 0, 1)


def test_images_larger_than_the_limit_are_refused_before_they_are_decoded() -> None:
    data = tensor(stored(pixels(10, 11, 3), "PNG"))
    with heddle.config.limits(image_pixels=109), pytest.raises(UsageError, match=r"S0601.*11 x 10 pixels"):
        image_decode(data, "RGB")
    with heddle.config.limits(image_pixels=110):
        assert image_decode(data, "RGB").numpy().shape == (10, 11, 3)
    bomb = stored(np.zeros((1, 1, 3), np.uint8), "BMP").copy()
    bomb[18:26] = np.array([60000, 60000], "<i4").view(np.uint8)
    with pytest.raises(UsageError, match="S0601"):
        image_decode(tensor(bomb), "RGB")


@pytest.mark.parametrize(
    ("proto", "message"),
    [(model("HSV"), "pixel_format must be one of RGB, BGR, Grayscale"), (model(dtype=1), "expected bytes")],
)
def test_other_formats_and_types_are_refused(proto: Any, message: str) -> None:
    with pytest.raises(HeddleError, match=rf"N0106.*{message}"):
        from_onnx(proto)
    with pytest.raises(TrapValueError, match=r"V0403.*pixel format"):
        image_decode(tensor(pixels(3)), "HSV")


def test_without_pillow_a_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "PIL":
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=r"V0412(.|\n)*pip install 'heddle-compiler\[image\]'"):
        image_decode(tensor(pixels(3)), "RGB")
