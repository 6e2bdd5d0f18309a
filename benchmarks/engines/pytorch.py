"""PyTorch, eager and through torch.compile, on the modules that the ONNX files were made from."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.engines.engine import Arrays, Engine, Model, Session, Unavailable
from benchmarks.workloads.torch_forms import torch_form


class TorchSession(Session):
    def __init__(self, call: Any) -> None:
        self._call = call

    def prepare(self, arrays: Arrays) -> Any:
        return [torch.from_numpy(array) for array in arrays]

    def call(self, prepared: Any) -> Any:
        with torch.inference_mode():
            return self._call(*prepared)

    def arrays(self, result: Any) -> Arrays:
        items = result if isinstance(result, (tuple, list)) else (result,)
        return [item.numpy() for item in items]


class Eager(Engine):
    def version(self) -> str:
        return str(torch.__version__)

    def load(self, model: Model) -> Session:
        if not model.torch_key:
            raise Unavailable("the model exists as an ONNX file only")
        if model.threads is not None:
            torch.set_num_threads(model.threads)
        return TorchSession(self.wrapped(torch_form(model.torch_key), model))

    def wrapped(self, form: Any, model: Model) -> Any:
        return form


class Compiled(Eager):
    def wrapped(self, form: Any, model: Model) -> Any:
        torch._dynamo.reset()
        return torch.compile(form, dynamic=True if model.varies else None)
