"""Networks on rows, graphs and trees, and models of few bits."""

from __future__ import annotations

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from benchmarks.zoo.network import SEED, Input, Network
from benchmarks.zoo.sequences import TEXTS, TOKENS, bert
from benchmarks.zoo.vision import CLASSIFIED, IMAGE, mobilenet_v3, resnet18

ROWS = tuple({"batch": n} for n in (1, 128, 17))


class Recommender(nn.Module):
    """Bags of categories and numbers, and how they go together."""

    def __init__(self, fields=8, width=32):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(5000, width) for _ in range(fields))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        pairs = (fields + 1) * fields // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 128), nn.ReLU(), nn.Linear(128, 1), nn.Sigmoid())
        self.register_buffer("below", torch.tril_indices(fields + 1, fields + 1, -1))

    def forward(self, numbers, categories):
        dense = self.bottom(numbers)
        rows = [table(categories[:, k]).sum(1) for k, table in enumerate(self.tables)]
        all_rows = torch.stack([dense, *rows], 1)
        products = all_rows @ all_rows.transpose(1, 2)
        return self.top(torch.cat([dense, products[:, self.below[0], self.below[1]]], 1))


class TabularNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm1d(40),
            nn.Linear(40, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, 3),
            nn.Softmax(-1),
        )

    def forward(self, x):
        return self.body(x)


class GraphNet(nn.Module):
    """Messages along edges, added up where they end."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(32, 64), nn.Linear(64, 64), nn.Linear(64, 7)

    def forward(self, x, edges):
        begin, end = edges[0], edges[1]
        degree = torch.zeros(x.shape[0]).scatter_add(0, end, torch.ones_like(end, dtype=torch.float32)) + 1
        for layer in (self.first, self.second):
            y = layer(x)
            total = torch.zeros_like(y).index_add(0, end, y[begin])
            x = torch.relu((total + y) / degree.unsqueeze(-1))
        return self.out(x)


def scan_model() -> onnx.ModelProto:
    """A state-space model: a Scan over time of `h = a * h + b * x`, with gates."""
    rng = np.random.default_rng(SEED)
    width, state = 64, 16

    def weight(name, *shape):
        return numpy_helper.from_array(
            (rng.standard_normal(shape) / np.sqrt(shape[0])).astype("float32"), name
        )

    step = helper.make_graph(
        [
            helper.make_node("Mul", ["decay", "h"], ["kept"]),
            helper.make_node("Mul", ["u", "b"], ["new"]),
            helper.make_node("Add", ["kept", "new"], ["h_out"]),
            helper.make_node("ReduceSum", ["h_out", "last"], ["y_step"], keepdims=0),
        ],
        "step",
        [
            helper.make_tensor_value_info("h", TensorProto.FLOAT, ["batch", width, state]),
            helper.make_tensor_value_info("u", TensorProto.FLOAT, ["batch", width, 1]),
        ],
        [
            helper.make_tensor_value_info("h_out", TensorProto.FLOAT, ["batch", width, state]),
            helper.make_tensor_value_info("y_step", TensorProto.FLOAT, ["batch", width]),
        ],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w_in"], ["inner"]),
        helper.make_node("Unsqueeze", ["inner", "last"], ["steps"]),
        helper.make_node(
            "Scan",
            ["h0", "steps"],
            ["h_end", "scanned"],
            body=step,
            num_scan_inputs=1,
            scan_input_axes=[1],
            scan_output_axes=[1],
        ),
        helper.make_node("MatMul", ["x", "w_gate"], ["gate"]),
        helper.make_node("Sigmoid", ["gate"], ["open"]),
        helper.make_node("Mul", ["scanned", "open"], ["gated"]),
        helper.make_node("MatMul", ["gated", "w_out"], ["y"]),
    ]
    decay = numpy_helper.from_array(rng.uniform(0.5, 0.99, (1, width, state)).astype("float32"), "decay")
    initial = [
        weight("w_in", 32, width),
        weight("w_gate", 32, width),
        weight("w_out", width, 32),
        weight("b", 1, width, state),
        decay,
        numpy_helper.from_array(np.array([-1]), "last"),
    ]
    graph = helper.make_graph(
        nodes,
        "states",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", 32]),
            helper.make_tensor_value_info("h0", TensorProto.FLOAT, ["batch", width, state]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "length", 32]),
            helper.make_tensor_value_info("h_end", TensorProto.FLOAT, ["batch", width, state]),
        ],
        initial,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def forest(trees: int, depth: int, features: int = 20) -> onnx.ModelProto:
    """Trees of random splits, as the converters of tree libraries write them."""
    rng = np.random.default_rng(SEED)
    table: dict[str, list] = {
        key: [] for key in ("tree", "node", "feature", "value", "mode", "true", "false")
    }
    leaves: dict[str, list] = {key: [] for key in ("tree", "node", "weight")}
    inner = 2**depth - 1
    for tree in range(trees):
        for node in range(2 * inner + 1):
            is_leaf = node >= inner
            row = (
                tree,
                node,
                0 if is_leaf else int(rng.integers(features)),
                0.0 if is_leaf else float(rng.standard_normal()),
                "LEAF" if is_leaf else "BRANCH_LEQ",
                0 if is_leaf else 2 * node + 1,
                0 if is_leaf else 2 * node + 2,
            )
            for key, value in zip(table, row, strict=True):
                table[key].append(value)
            if is_leaf:
                for key, value in zip(
                    leaves, (tree, node, float(rng.standard_normal()) / trees), strict=True
                ):
                    leaves[key].append(value)
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=table["tree"],
        nodes_nodeids=table["node"],
        nodes_featureids=table["feature"],
        nodes_values=table["value"],
        nodes_modes=table["mode"],
        nodes_truenodeids=table["true"],
        nodes_falsenodeids=table["false"],
        target_treeids=leaves["tree"],
        target_nodeids=leaves["node"],
        target_ids=[0] * len(leaves["tree"]),
        target_weights=leaves["weight"],
    )
    graph = helper.make_graph(
        [node],
        "forest",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", features])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8
    )


def quantized(base: Network) -> onnx.ModelProto:
    """A network with 8-bit activations and weights, as ONNX Runtime's quantiser writes it."""
    import tempfile
    from pathlib import Path

    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = [dict(zip(base.inputs, base.arrays(base.sizes[0]), strict=True))]

        def get_next(self):
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "quantized.onnx"
        quantize_static(
            str(base.path()),
            str(made),
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(str(made))


def dynamic_quantized(base: Network) -> onnx.ModelProto:
    import tempfile
    from pathlib import Path

    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "quantized.onnx"
        quantize_dynamic(str(base.path()), str(made), weight_type=QuantType.QInt8)
        return onnx.load(str(made))


def halved(base: Network) -> onnx.ModelProto:
    """A network with 16-bit weights and values, its inputs and outputs in 32 bits."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return convert_float_to_float16(onnx.load(str(base.path())), keep_io_types=True)


_RESNET = Network("resnet18", "classification", IMAGE, CLASSIFIED, resnet18)
_MOBILENET = Network("mobilenet-v3", "classification", IMAGE, CLASSIFIED, mobilenet_v3)
_BERT = Network("bert", "text encoder", TOKENS, TEXTS, bert, outputs=("states", "pooled"))

TABLES: tuple[Network, ...] = (
    Network(
        "recommender",
        "recommender",
        {"numbers": Input(("batch", 13)), "categories": Input(("batch", 8, 4), "int64", 5000)},
        ROWS,
        Recommender,
    ),
    Network("tabular", "recommender", {"x": Input(("batch", 40))}, ROWS, TabularNet),
    Network(
        "graph-net",
        "graph",
        {"x": Input(("nodes", 32)), "edges": Input((2, "edges"), "int64", 100)},
        ({"nodes": 100, "edges": 600}, {"nodes": 1000, "edges": 3000}),
        GraphNet,
    ),
    Network(
        "state-space",
        "state space",
        {"x": Input(("batch", "length", 32)), "h0": Input(("batch", 64, 16))},
        tuple({"batch": n, "length": k} for n, k in ((1, 64), (4, 100))),
        model=scan_model,
    ),
    Network("forest", "trees", {"x": Input(("batch", 20))}, ROWS, model=lambda: forest(100, 8)),
    Network("boosted-trees", "trees", {"x": Input(("batch", 20))}, ROWS, model=lambda: forest(300, 5)),
    Network("resnet18-int8", "int8", IMAGE, CLASSIFIED, model=lambda: quantized(_RESNET), tolerance=5e-2),
    Network(
        "mobilenet-v3-int8", "int8", IMAGE, CLASSIFIED, model=lambda: quantized(_MOBILENET), tolerance=2e-1
    ),
    Network("bert-int8", "int8", TOKENS, TEXTS, model=lambda: dynamic_quantized(_BERT), tolerance=5e-2),
    Network("resnet18-fp16", "fp16", IMAGE, CLASSIFIED, model=lambda: halved(_RESNET), tolerance=2e-2),
    Network("bert-fp16", "fp16", TOKENS, TEXTS, model=lambda: halved(_BERT), tolerance=2e-2),
)
