"""Whole networks: random weights, sizes that users meet.

GPT-2's decoding steps take prefabricated keys and values, so that every engine gets the same contexts; a step
every 16 tokens stands for all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.e2e.model_zoo import LIGHT, exported, light_model, sample_inputs
from tests.e2e.torch_modules import BASE, GPT2, Sizes

from benchmarks.workloads.workload import Requests, Workload
from heddle.support.settings import settings

RAGGED_REQUESTS, RAGGED_LOW, RAGGED_HIGH = 64, 8, 128
DECODE_LOW, DECODE_HIGH, DECODE_STEP = 64, 192, 16
LSTM_INPUT, LSTM_HIDDEN, LSTM_STEPS = 300, 512, 64


def _folder() -> Path:
    folder = settings().cache_dir / "bench-models"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _light(name: str) -> Workload:
    import onnx

    def path() -> Path:
        found = _folder() / f"light-{name}.onnx"
        if not found.exists():
            onnx.save(light_model(name), str(found))
        return found

    def requests() -> Requests:
        (image,) = onnx.load(str(path()), load_external_data=False).graph.input
        shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
        return [[np.random.default_rng(0).standard_normal(shape).astype(np.float32)]]

    return Workload(f"light-{name}", path, requests)


def _zoo(
    name: str, kind: str, lengths: Callable[[], list[tuple[int, int]]], varies: bool = False
) -> Workload:
    """A network of the zoo; `lengths` are the sequence and the context of each request."""
    sizes: Sizes = GPT2 if kind == "gpt2" else BASE

    def requests() -> Requests:
        return [sample_inputs(kind, sizes, 1, seq, past) for seq, past in lengths()]

    return Workload(name, lambda: exported(kind, sizes), requests, f"net:{kind}", varies)


def _ragged() -> list[tuple[int, int]]:
    rng = np.random.default_rng(5)
    return [(int(seq), 0) for seq in rng.integers(RAGGED_LOW, RAGGED_HIGH + 1, RAGGED_REQUESTS)]


def lstm_module(layers: int) -> Any:
    import torch

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.LSTM(LSTM_INPUT, LSTM_HIDDEN, layers)

        def forward(self, x: Any) -> Any:
            return self.inner(x)[0]

    torch.manual_seed(0)
    return First().eval()


def _lstm(layers: int) -> Workload:
    def path() -> Path:
        import torch

        found = _folder() / f"lstm-{layers}-{LSTM_INPUT}-{LSTM_HIDDEN}-{LSTM_STEPS}.onnx"
        if not found.exists():
            x = torch.zeros(LSTM_STEPS, 1, LSTM_INPUT)
            with torch.no_grad():
                torch.onnx.export(
                    lstm_module(layers),
                    (x,),
                    str(found),
                    input_names=["x"],
                    output_names=["y"],
                    opset_version=17,
                    dynamo=False,
                )
        return found

    def requests() -> Requests:
        x = np.random.default_rng(0).standard_normal((LSTM_STEPS, 1, LSTM_INPUT))
        return [[x.astype(np.float32)]]

    return Workload(f"lstm-{layers}", path, requests, f"net:lstm-{layers}")


NETWORKS: tuple[Workload, ...] = (
    _zoo("bert-128", "bert", lambda: [(128, 0)]),
    _zoo("bert-32", "bert", lambda: [(32, 0)]),
    _zoo("bert-ragged", "bert", _ragged, varies=True),
    _zoo("resnet50", "resnet", lambda: [(0, 0)]),
    _zoo("mobilenetv2", "mobilenet", lambda: [(0, 0)]),
    *(_light(name) for name in LIGHT),
    _zoo("gpt2-prefill-64", "gpt2", lambda: [(64, 0)]),
    _zoo(
        "gpt2-decode",
        "gpt2",
        lambda: [(1, past) for past in range(DECODE_LOW, DECODE_HIGH, DECODE_STEP)],
        varies=True,
    ),
    _lstm(1),
    _lstm(2),
)
