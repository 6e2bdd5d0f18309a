"""Deploy a model: read an ONNX file, compile it once for every batch size, save one file, load it and run it.

    python examples/deploy_model.py

The model is two layers, made here so that nothing is downloaded. The saved file needs neither onnx nor the
compiler where it runs.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx

rng = np.random.default_rng(0)
WEIGHTS = {
    "w1": rng.standard_normal((16, 32), "float32"),
    "b1": rng.standard_normal((32,), "float32"),
    "w2": rng.standard_normal((32, 4), "float32"),
}


def write_model(path: Path) -> None:
    """x: (batch, 16) float32 → scores: (batch, 4) float32, for a batch that is free."""
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("MatMul", ["active", "w2"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(value, name) for name, value in WEIGHTS.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def expected(x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ WEIGHTS["w1"] + WEIGHTS["b1"], 0) @ WEIGHTS["w2"]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "classifier.onnx")
        mod = from_onnx(folder / "classifier.onnx")
        print("type of main:", mod["main"].ret_ty)

        heddle.compile(mod, target="llvm").export_library(folder / "classifier.heddle")

        program = heddle.runtime.load_module(folder / "classifier.heddle")
        machine = relax.VirtualMachine(program, heddle.cpu())
        for batch in (1, 3, 100):
            x = rng.standard_normal((batch, 16), "float32")
            scores = machine["main"](x).numpy()
            np.testing.assert_allclose(scores, expected(x), rtol=1e-4, atol=1e-4)
            print("batch", batch, "->", scores.shape)


if __name__ == "__main__":
    main()
