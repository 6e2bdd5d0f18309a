"""Relay's rarer operators: values of numpy and PyTorch, in the interpreter and on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle import relay
from heddle.ir.module import IRModule
from heddle.support.diagnostics import HeddleError
from tests.unit.relay.programs import plain

RNG = np.random.default_rng(5)


def run(build: Any, *values: Any) -> Any:
    params = [relay.var(f"x{k}", shape=v.shape, dtype=str(v.dtype)) for k, v in enumerate(values)]
    mod = relay.transform.InferType()(IRModule.from_expr(relay.Function(params, build(*params))))
    mod = relay.parse(mod.astext())
    found = [plain(relay.create_executor(kind, mod).evaluate()(*values)) for kind in ("debug", "vm")]
    assert found[0].dtype == found[1].dtype and found[0].shape == found[1].shape
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-5)
    assert str(mod["main"].body.ty.dtype) == str(found[0].dtype)
    assert tuple(dim.value for dim in mod["main"].body.ty.dims) == found[0].shape
    return found[0]


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize(("new", "old"), [(1, 4), (4, 4), (6, 4)])
def test_fifo_buffer(new: int, old: int) -> None:
    data, buffer = floats(2, new, 3), floats(2, old, 3)
    found = run(lambda x, b: relay.nn.fifo_buffer(x, b, axis=1), data, buffer)
    np.testing.assert_array_equal(found, np.concatenate([buffer, data], 1)[:, -old:])


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 2)])
@pytest.mark.parametrize("k", [(0, 0), (-1, 1), (1, 1), (-2, -1), (0, 1)])
@pytest.mark.parametrize("align", [(True, False), (False, False), (True, True), (False, True)])
def test_matrix_set_diag(shape: tuple[int, int], k: tuple[int, int], align: tuple[bool, bool]) -> None:
    rows, columns = shape
    lengths = {d: min(rows + min(d, 0), columns - max(d, 0)) for d in range(k[0], k[1] + 1)}
    longest = max(lengths.values())
    data, diagonal = floats(2, rows, columns), floats(2, len(lengths), longest)
    given = diagonal if len(lengths) > 1 else diagonal[:, 0]
    wanted = data.copy()
    for d, length in lengths.items():
        is_right = align[0] if d >= 0 else align[1]
        for step in range(length):
            row, column = step - min(d, 0), step + max(d, 0)
            source = step + (longest - length if is_right else 0)
            wanted[:, row, column] = diagonal[:, k[1] - d, source]
    words = "_".join("RIGHT" if is_right else "LEFT" for is_right in align)
    found = run(lambda x, d: relay.matrix_set_diag(x, d, k, words), data, given)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("clip", [False, True])
def test_multibox_prior(clip: bool) -> None:
    sizes, ratios = (0.5, 0.25), (1.0, 2.0, 0.5)
    found = run(
        lambda x: relay.vision.multibox_prior(x, sizes=sizes, ratios=ratios, clip=clip), floats(1, 3, 2, 4)
    )
    assert found.shape == (1, 2 * 4 * 4, 4)
    shapes = [(0.5, 1.0), (0.25, 1.0), (0.5, 2.0), (0.5, 0.5)]
    for i, j, n in np.ndindex(2, 4, 4):
        size, ratio = shapes[n]
        x, y = (j + 0.5) / 4, (i + 0.5) / 2
        w, h = size * 2 / 4 * ratio**0.5 / 2, size / ratio**0.5 / 2
        wanted = np.array([x - w, y - h, x + w, y + h])
        wanted = np.clip(wanted, 0, 1) if clip else wanted
        np.testing.assert_allclose(found[0, (i * 4 + j) * 4 + n], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_dilation2d(layout: str) -> None:
    data, weight = floats(2, 3, 7, 6), floats(3, 2, 3)
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    wanted = np.full((2, 3, 4, 2), -np.inf, "float32")
    for n, c, i, j in np.ndindex(wanted.shape):
        window = padded[n, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 5 : 2]
        wanted[n, c, i, j] = (window + weight[c]).max()
    kernel = "IHW"
    if layout == "NHWC":
        data, weight, kernel = data.transpose(0, 2, 3, 1).copy(), weight.transpose(1, 2, 0).copy(), "HWI"
    found = run(
        lambda x, w: relay.image.dilation2d(
            x, w, strides=(2, 2), padding=(1, 1), dilations=(1, 2), data_layout=layout, kernel_layout=kernel
        ),
        data,
        weight,
    )
    found = found.transpose(0, 3, 1, 2) if layout == "NHWC" else found
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_products_of_packed_factors() -> None:
    data, weight = floats(3, 5), floats(16, 5)
    packed = weight.reshape(2, 8, 5).transpose(0, 2, 1).copy()
    found = run(lambda x, w: relay.nn.contrib_dense_pack(x, w, "NC8n", units=16), data, packed)
    np.testing.assert_allclose(found, data @ weight.T, rtol=1e-4, atol=1e-5)
    torch = pytest.importorskip("torch")
    for groups, name in ((1, "contrib_conv2d_NCHWc"), (8, "contrib_depthwise_conv2d_NCHWc")):
        image, kernel = floats(1, 8, 6, 6), floats(8, 8 // groups, 3, 3)
        blocks = image.reshape(1, 2, 4, 6, 6).transpose(0, 1, 3, 4, 2).copy()
        call = getattr(relay.nn, name)
        found = run(
            lambda x, w, call=call, groups=groups: call(
                x, w, padding=(1, 1), groups=groups, channels=8, kernel_size=(3, 3), data_layout="NCHW4c"
            ),
            blocks,
            kernel,
        )
        wanted = torch.nn.functional.conv2d(*map(torch.from_numpy, (image, kernel)), padding=1, groups=groups)
        plainly = found.transpose(0, 1, 4, 2, 3).reshape(1, 8, 6, 6)
        np.testing.assert_allclose(plainly, wanted.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 6])
def test_sparse(rows: int) -> None:
    matrix = floats(rows, 5) * (RNG.random((rows, 5)) < 0.4)
    ends = np.concatenate([[0], (matrix != 0).sum(1).cumsum()]).astype("int32")
    columns, values = np.nonzero(matrix)[1].astype("int32"), matrix[matrix != 0]
    data = floats(3, 5)
    given = values, columns, ends
    for is_left in (False, True):
        found = run(lambda x, *s, f=is_left: relay.nn.sparse_dense(x, s, sparse_lhs=f), data, *given)
        wanted = matrix @ data.T if is_left else data @ matrix.T
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    data = floats(rows, 5)
    np.testing.assert_allclose(
        run(lambda x, *s: relay.nn.sparse_add(x, s), data, *given), data + matrix, rtol=1e-5
    )


def test_fixed_point_multiply_per_axis() -> None:
    data = RNG.integers(-1000, 1000, (2, 3)).astype("int32")
    multipliers, left, right = (np.array(v, "int32") for v in ([1 << 30, 3 << 28, 5], [0, 1, 2], [0, 1, 3]))
    found = run(
        lambda x, m, l, r: relay.op.relay_call(
            "fixed_point_multiply_per_axis",
            (x, m, l, r),
            {"is_lshift_required": True, "is_rshift_required": True, "axes": [1]},
        ),
        data, multipliers, left, right,
    )  # fmt: skip
    for i, j in np.ndindex(2, 3):
        shift = 31 + int(right[j])
        product = (int(data[i, j]) << int(left[j])) * int(multipliers[j])
        assert found[i, j] == (product + (1 << (shift - 1))) >> shift


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_stft(onesided: bool, normalized: bool) -> None:
    torch = pytest.importorskip("torch")
    data, window = floats(2, 30), np.hanning(6).astype("float32")
    attrs = {"n_fft": 8, "hop_length": 3, "win_length": 6, "normalized": normalized, "onesided": onesided}
    found = run(lambda x, w: relay.stft(x, window=w, **attrs), data, window)
    wanted = torch.stft(
        torch.from_numpy(data), window=torch.from_numpy(window), center=False, return_complex=True, **attrs
    )
    np.testing.assert_allclose(found, torch.view_as_real(wanted).numpy(), rtol=1e-3, atol=1e-4)
    assert run(lambda x: relay.stft(x, 8), data).shape == (2, 5, 12, 2)


def test_shapes_of_the_machine() -> None:
    assert run(lambda x: relay.op.relay_call("vm.shape_of", (x,), {}), floats(2, 3)).tolist() == [2, 3]
    data = floats(2, 3)
    found = run(
        lambda x: relay.op.relay_call("vm.reshape_tensor", (x, relay.const([3, 2])), {"newshape": [3, 2]}),
        data,
    )
    np.testing.assert_array_equal(found, data.reshape(3, 2))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda x: relay.matrix_set_diag(x, x, (2, 1)), "no diagonals 2 to 1"),
        (lambda x: relay.stft(x, 8, hop_length=0), "n_fft 8"),
        (lambda x: relay.nn.sparse_add(x, (x, x, x)), "compressed rows"),
    ],
)
def test_wrong_calls(build: Any, words: str) -> None:
    with pytest.raises(HeddleError, match=words):
        run(build, floats(2, 3))


@pytest.mark.parametrize("shape", [(5,), (2, 8), (3, 2, 6), (1, 1)])
@pytest.mark.parametrize("inverse", [False, True])
def test_dft(shape: tuple[int, ...], inverse: bool) -> None:
    real, imaginary = floats(*shape), floats(*shape)
    wanted = (np.fft.ifft if inverse else np.fft.fft)(real + 1j * imaginary)
    for part, name in enumerate(("real", "imag")):
        found = run(lambda x, y, part=part: relay.dft(x, y, inverse)[part], real, imaginary)
        np.testing.assert_allclose(found, getattr(wanted, name), rtol=1e-4, atol=1e-5)
