"""ONNX Runtime on its CPU provider."""

from __future__ import annotations

from typing import Any

import onnxruntime

from benchmarks.engines.engine import Arrays, Engine, Model, Session, flat_arrays


class OnnxSession(Session):
    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._names = [item.name for item in inner.get_inputs()]

    def prepare(self, arrays: Arrays) -> Any:
        return dict(zip(self._names, arrays, strict=True))

    def call(self, prepared: Any) -> Any:
        return self._inner.run(None, prepared)

    def arrays(self, result: Any) -> Arrays:
        return flat_arrays(result)


class OnnxRuntime(Engine):
    def version(self) -> str:
        return str(onnxruntime.__version__)

    def load(self, model: Model) -> Session:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if model.threads is not None:
            options.intra_op_num_threads = model.threads
        return OnnxSession(
            onnxruntime.InferenceSession(str(model.path), options, providers=["CPUExecutionProvider"])
        )
