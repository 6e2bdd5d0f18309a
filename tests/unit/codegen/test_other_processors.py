"""Networks are compiled for processors that have few vectors or none."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from heddle.driver.compile import build
from heddle.frontend.onnx import from_onnx
from heddle.runtime.kernel_module import KernelModule
from heddle.target import Target

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
small (float[n, 8, h, w] x) => (float[n, 4] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, dense)
    b = Relu (a)
    c = Conv <pads = [1, 1, 1, 1], group = 16> (b, depthwise)
    d = Concat <axis = 1> (b, c)
    e = Conv (d, pixelwise)
    f = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (e)
    g = Transpose <perm = [0, 2, 3, 1]> (f)
    h1 = ReduceMean <axes = [1, 2], keepdims = 0> (g)
    i = MatMul (h1, matrix)
    y = Softmax <axis = 1> (i)
}
"""
WEIGHTS = {"dense": (16, 8, 3, 3), "depthwise": (16, 1, 3, 3), "pixelwise": (8, 32, 1, 1), "matrix": (8, 4)}


@pytest.mark.parametrize("is_free", [True, False])
@pytest.mark.parametrize(
    "target",
    ["riscv64-linux-gnu", "riscv64-linux-gnu -mattr=+v", "powerpc64le-linux-gnu", "armv7-linux-gnueabihf"],
)
def test_a_network(target: str, is_free: bool) -> None:
    model = onnx.parser.parse_model(TEXT)
    weights = {name: np.zeros(shape, np.float32) for name, shape in WEIGHTS.items()}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    mod = from_onnx(model, None if is_free else {"x": (1, 8, 14, 14)})
    (kernels,) = build(mod, Target(f"llvm -mtriple={target}")).imports
    assert isinstance(kernels, KernelModule)
    assert len(kernels.names) > 3
    assert all(code.startswith(b"\x7fELF") for code in kernels.objects)
