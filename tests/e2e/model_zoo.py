"""Models that tests and benchmarks share: onnx's light CNNs with real weights, transformers from a config,
control flow.

Exports are slow and are kept in the cache folder under a key of their configuration.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle.support.settings import settings
from tests.e2e.torch_modules import SMALL, Sizes, torch_module

LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
LIGHT_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


# ---- onnx's light models


def light_model(name: str, seed: int = 0) -> onnx.ModelProto:
    """A light CNN whose constant-filled weights are replaced by random ones, scaled so that values stay in
    range."""
    model = onnx.load(str(LIGHT_FOLDER / f"light_{name}.onnx"))
    graph, rng = model.graph, np.random.default_rng(seed)
    shapes = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    kept = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            shape = tuple(int(size) for size in shapes[node.input[0]])
            graph.initializer.append(
                numpy_helper.from_array(_weights(rng, node, shape, graph), node.output[0])
            )
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    inputs = [value for value in graph.input if value.name not in shapes]
    del graph.input[:]
    graph.input.extend(inputs)
    used = {name for node in kept for name in node.input}
    stored = [item for item in graph.initializer if item.name in used]
    del graph.initializer[:]
    graph.initializer.extend(stored)
    return model


def stored_light_model(name: str) -> tuple[onnx.ModelProto, np.ndarray]:
    """A light CNN as onnx stores it, constant weights, and the output stored for `ramp_input`."""
    stored = onnx.load_tensor(str(LIGHT_FOLDER / f"light_{name}_output_0.pb"))
    return onnx.load(str(LIGHT_FOLDER / f"light_{name}.onnx")), numpy_helper.to_array(stored)


def ramp_input(model: onnx.ModelProto) -> np.ndarray:
    """The image that onnx's own runner feeds a light CNN: 0 to 1 in equal steps."""
    stored = {item.name for item in model.graph.initializer}
    (image,) = (value for value in model.graph.input if value.name not in stored)
    shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
    size = np.prod(shape)
    return (np.arange(size).reshape(shape) / size).astype(np.float32)


def with_logits(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with the input of its last softmax as one more output."""
    softmax = next((node for node in reversed(model.graph.node) if node.op_type == "Softmax"), None)
    if softmax is not None:
        info = onnx.ValueInfoProto()
        info.CopyFrom(model.graph.output[0])
        info.name = softmax.input[0]
        model.graph.output.append(info)
    return model


def _weights(rng: Any, node: Any, shape: tuple[int, ...], graph: Any) -> np.ndarray:
    """He-scaled for matrices and kernels; small for biases; around 1 for scales and variances of a
    normalisation."""
    name = node.output[0]
    user = next((item for item in graph.node if name in item.input), None)
    place = list(user.input).index(name) if user is not None else 0
    if user is not None and user.op_type == "BatchNormalization" and place in (1, 4):
        return (1 + 0.1 * rng.random(shape)).astype(np.float32)
    if len(shape) > 1:
        return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)
    return (0.01 * rng.standard_normal(shape)).astype(np.float32)


# ---- transformers


def exported(kind: str, sizes: Sizes = SMALL) -> Path:
    """The path of an exported model: "bert", "gpt2" (with past keys and values), "vit", "resnet" or
    "mobilenet"; batch and sequence are dynamic."""
    key = hashlib.sha256(json.dumps([kind, vars(sizes), 3], sort_keys=True).encode()).hexdigest()[:16]
    path = settings().cache_dir / "test-models" / f"{kind}-{key}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        _EXPORTS[kind](sizes, partial)
        partial.rename(path)
    return path


def _export(
    module: Any, args: tuple[Any, ...], path: Path, inputs: list[str], outputs: list[str], axes: Any
) -> None:
    import torch

    with torch.no_grad():
        torch.onnx.export(
            module.eval(),
            args,
            str(path),
            input_names=inputs,
            output_names=outputs,
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
            do_constant_folding=True,
        )


def _bert(sizes: Sizes, path: Path) -> None:
    import torch

    ids = torch.ones(2, 7, dtype=torch.long)
    args = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    both = {0: "batch", 1: "seq"}
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {**dict.fromkeys(names, both), "hidden": both, "pooled": {0: "batch"}}
    _export(torch_module("bert", sizes), args, path, names, ["hidden", "pooled"], axes)


def _gpt2(sizes: Sizes, path: Path) -> None:
    import torch

    module = torch_module("gpt2", sizes)
    batch, past, length = 2, 5, 3
    ids = torch.ones(batch, length, dtype=torch.long)
    mask = torch.ones(batch, past + length, dtype=torch.long)
    positions = torch.arange(past, past + length).repeat(batch, 1)
    shape = (batch, sizes.heads, past, sizes.hidden // sizes.heads)
    keys = tuple(torch.randn(shape) for _ in range(2 * sizes.layers))
    names = [f"past_{index // 2}_{'kv'[index % 2]}" for index in range(2 * sizes.layers)]
    outputs = [name.replace("past", "present") for name in names]
    axes = {
        "input_ids": {0: "batch", 1: "seq"},
        "attention_mask": {0: "batch", 1: "total"},
        "position_ids": {0: "batch", 1: "seq"},
        "logits": {0: "batch", 1: "seq"},
        **{name: {0: "batch", 2: "past"} for name in names},
        **{name: {0: "batch", 2: "total"} for name in outputs},
    }
    inputs = ["input_ids", "attention_mask", "position_ids", *names]
    _export(module, (ids, mask, positions, *keys), path, inputs, ["logits", *outputs], axes)


def _vit(sizes: Sizes, path: Path) -> None:
    import torch

    module = torch_module("vit", sizes)
    pixels = torch.randn(2, 3, sizes.image, sizes.image)
    axes = {"pixels": {0: "batch"}, "hidden": {0: "batch"}, "pooled": {0: "batch"}}
    _export(module, (pixels,), path, ["pixels"], ["hidden", "pooled"], axes)


def _image_classifier(kind: str) -> Callable[[Sizes, Path], None]:
    def export(sizes: Sizes, path: Path) -> None:
        import torch

        pixels = torch.randn(2, 3, sizes.image, sizes.image)
        axes = {"pixels": {0: "batch"}, "logits": {0: "batch"}}
        _export(torch_module(kind, sizes), (pixels,), path, ["pixels"], ["logits"], axes)

    return export


_EXPORTS: dict[str, Callable[[Sizes, Path], None]] = {
    "bert": _bert,
    "gpt2": _gpt2,
    "vit": _vit,
    "resnet": _image_classifier("resnet"),
    "mobilenet": _image_classifier("mobilenet"),
}


def sample_inputs(
    kind: str, sizes: Sizes = SMALL, batch: int = 3, seq: int = 4, past: int = 2
) -> list[np.ndarray]:
    """Inputs of an exported transformer, in its order."""
    rng = np.random.default_rng(7)
    if kind in ("vit", "resnet", "mobilenet"):
        return [rng.standard_normal((batch, 3, sizes.image, sizes.image)).astype(np.float32)]
    ids = rng.integers(0, sizes.vocabulary, (batch, seq))
    if kind == "bert":
        mask = np.ones((batch, seq), np.int64)
        mask[0, -1] = 0
        return [ids, mask, rng.integers(0, 2, (batch, seq))]
    shape = (batch, sizes.heads, past, sizes.hidden // sizes.heads)
    keys = [rng.standard_normal(shape).astype(np.float32) for _ in range(2 * sizes.layers)]
    positions = np.tile(np.arange(past, past + seq), (batch, 1))
    return [ids, np.ones((batch, past + seq), np.int64), positions, *keys]


# ---- control flow


def loop_model(condition: str = "") -> onnx.ModelProto:
    """Double x until its sum exceeds a limit, at most n times; scan output: the sums. Then a branch on the
    result.

    `condition` names the first condition, which is true; onnx's evaluator does not run a loop without one.

    main(x: float32[k], n: int64[], limit: float32[]) → (y: float32[k], sums: float32[steps], z: float32[k])
    """
    one = helper.make_node
    body = helper.make_graph(
        [
            one("Add", ["v", "v"], ["twice"], "double"),
            one("ReduceSum", ["twice"], ["total"], "sum", keepdims=0),
            one("Less", ["total", "limit"], ["go_on"], "test"),
            one("Identity", ["total"], ["seen"], "keep"),
        ],
        "body",
        [_info("i", "int64", []), _info("cond_in", "bool", []), _info("v", "float32", ["k"])],
        [_info("go_on", "bool", []), _info("twice", "float32", ["k"]), _info("seen", "float32", [])],
    )
    then = helper.make_graph(
        [one("Neg", ["y"], ["negated"], "negate")], "then", [], [_info("negated", "float32", ["k"])]
    )
    other = helper.make_graph(
        [one("Sqrt", ["y"], ["root"], "root")], "else", [], [_info("root", "float32", ["k"])]
    )
    nodes = [
        one("Loop", ["n", condition, "x"], ["y", "sums"], "loop", body=body),
        one("ReduceMax", ["y"], ["top"], "top", keepdims=0),
        one("Greater", ["top", "limit"], ["large"], "is_large"),
        one("If", ["large"], ["z"], "choose", then_branch=then, else_branch=other),
    ]
    graph = helper.make_graph(
        nodes,
        "loop_and_branch",
        [_info("x", "float32", ["k"]), _info("n", "int64", []), _info("limit", "float32", [])],
        [_info("y", "float32", ["k"]), _info("sums", "float32", ["steps"]), _info("z", "float32", ["k"])],
    )
    if condition:
        graph.initializer.append(numpy_helper.from_array(np.asarray(True), condition))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _info(name: str, dtype: str, shape: list[Any]) -> Any:
    number = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}[dtype]
    return helper.make_tensor_value_info(name, number, shape)
