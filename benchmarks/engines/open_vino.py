"""OpenVINO's CPU plug-in: in float32, and in the precision that it chooses by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino

from benchmarks.engines.engine import Arrays, Engine, Model, Session


class OpenVinoSession(Session):
    def __init__(self, compiled: Any) -> None:
        self._request = compiled.create_infer_request()
        self._count = len(compiled.outputs)

    def call(self, prepared: Arrays) -> Any:
        return self._request.infer(prepared, share_inputs=True, share_outputs=True)

    def arrays(self, result: Any) -> Arrays:
        return [np.array(result[index]) for index in range(self._count)]


class OpenVino(Engine):
    precision: str | None = "f32"

    def version(self) -> str:
        return str(openvino.__version__)

    def load(self, model: Model) -> Session:
        settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
        if self.precision is not None:
            settings["INFERENCE_PRECISION_HINT"] = self.precision
        if model.threads is not None:
            settings["INFERENCE_NUM_THREADS"] = model.threads
        return OpenVinoSession(openvino.Core().compile_model(str(model.path), "CPU", settings))


class OpenVinoDefault(OpenVino):
    tolerance = 5e-2
    is_reduced = True
    precision = None
