"""Results as exact as their type allows, where a shorter way loses digits; sizes up to the last one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.frontend.onnx.models import model, node
from tests.unit.frontend.onnx.runtime_oracle import Compared


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_softplus_of_large_numbers(dtype: str) -> None:
    """log(1 + exp(x)) is x from 20 on only in few digits."""
    x = np.array([-30, -1, 0, 3, 19, 20.5, 21.75, 30, 36, 39, 41, 700], dtype)
    compared = Compared(model([node("Softplus", ["x"], ["y"])], {"x": ((12,), dtype)}, ["y"]))
    exact = np.logaddexp(0, x.astype("float64"))
    assert compared.check({"x": x}, [exact.astype(dtype)], rtol=4 * float(np.finfo(dtype).eps)) == "equal"


@pytest.mark.parametrize("height", [64, "h"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_positions_between_pixels(mode: str, height: Any) -> None:
    """Beside pixel 120 a position of float32 errs by 4e-6, rounded once; n / m first doubled it."""
    n, m = 128, 384
    x = np.zeros((1, 1, 2, n), "float32")
    x[..., ::2] = 1
    inputs, sizes = {"x": ((1, 1, 2, n if height == 64 else height), "float32")}, np.array([2, m])
    resized = node("Resize", ["x", "", "", "s"], ["y"], mode=mode, axes=[2, 3])
    compared = Compared(model([resized], inputs, ["y"], {"s": sizes}))
    at = (np.arange(m) + 0.5) * n / m - 0.5
    base = np.floor(at).astype(int)
    exact = sum(
        _weight(mode, at - (base + k)) * x[0, 0, 0, np.clip(base + k, 0, n - 1)] for k in range(-1, 3)
    )
    wanted = np.broadcast_to(exact, (1, 1, 2, m)).astype("float32")
    slope = 1.0 if mode == "linear" else 1.5
    assert compared.check({"x": x}, [wanted], rtol=1e-6, atol=slope * 4e-6) == "equal"


def _weight(mode: str, distance: Any) -> Any:
    d, a = np.abs(distance), -0.75
    if mode == "linear":
        return np.maximum(0, 1 - d)
    near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


@pytest.mark.parametrize(("size", "fits"), [(130, True), (139, True), (140, False)])
def test_products_of_sizes_up_to_the_last(size: int, fits: bool) -> None:
    """64 * d ** 8 of 139 is 8.9e18, and of 140 9.4e18, which is beyond 2 ** 63."""
    nodes = [node("Shape", ["x"], ["a"]), node("Mul", ["a", "a"], ["b"]), node("Add", ["b", "b"], ["c"])]
    nodes += [node("Mul", ["c", "c"], ["d"]), node("Add", ["d", "d"], ["e"]), node("Mul", ["e", "e"], ["y"])]
    compared = Compared(model(nodes, {"x": (("n", "m"), "float32")}, ["y"]))
    feed = {"x": np.zeros((size, 2), "float32")}
    assert compared.check(feed, refuses=not fits) == ("equal" if fits else "U0404")


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("shape", [(0, 4, 2, 3), (1, 4, 0, 2), (2, 0, 1, 1)])
@pytest.mark.parametrize("op", ["DepthToSpace", "SpaceToDepth"])
def test_blocks_of_empty_constants(op: str, shape: tuple[int, ...], mode: str) -> None:
    """Constants are folded, also those without elements."""
    attrs = {"blocksize": 2, **({"mode": mode} if op == "DepthToSpace" else {})}
    if op == "SpaceToDepth":
        shape = (*shape[:2], 2 * shape[2], 2 * shape[3])
    nodes = [node("Identity", ["c"], ["d"]), node(op, ["d"], ["y"], **attrs), node("Neg", ["x"], ["z"])]
    made = model(nodes, {"x": ((1,), "float32")}, ["y", "z"], {"c": np.zeros(shape, "float32")})
    scale = -1 if op == "DepthToSpace" else 1
    n, c, h, w = shape
    wanted = np.zeros(
        (n, c * 4**scale if scale > 0 else c // 4, *(2 * s if scale < 0 else s // 2 for s in (h, w)))
    )
    x = np.ones(1, "float32")
    assert Compared(made).check({"x": x}, [wanted.astype("float32"), -x]) == "equal"
