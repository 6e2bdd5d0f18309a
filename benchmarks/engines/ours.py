"""Heddle, compiled."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import heddle
from benchmarks.engines.engine import Arrays, Engine, Model, Session, flat_arrays
from heddle import relax
from heddle.codegen.cache import kernel_cache
from heddle.driver.backend import as_argument, as_array
from heddle.frontend.onnx import from_onnx


class HeddleSession(Session):
    def __init__(self, executable: Any) -> None:
        self.executable = executable
        self._main = relax.VirtualMachine(executable, heddle.cpu())["main"]

    def prepare(self, arrays: Arrays) -> Any:
        """Numbers go in as they are; texts and sequences become values of ours."""
        return [item if _is_numeric(item) else as_argument(item) for item in arrays]

    def call(self, prepared: Any) -> Any:
        return self._main(*prepared)

    def arrays(self, result: Any) -> Arrays:
        return flat_arrays(as_array(result))


def _is_numeric(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype.kind not in "OUT"


class Heddle(Engine):
    """`cold_s` and `warm_s` are the seconds that the last `load` took with an empty and a filled cache."""

    cold_s = warm_s = 0.0
    precision: ClassVar[str] = "fp32"

    def version(self) -> str:
        return str(heddle.__version__)

    def load(self, model: Model) -> Session:
        if model.threads is not None:
            from heddle.runtime.native.library import set_num_threads

            set_num_threads(model.threads)
        with tempfile.TemporaryDirectory(prefix="heddle-bench-cache-") as folder:
            cache = kernel_cache()
            cache.folder, seconds = Path(folder), []
            for _ in range(2):
                cache.forget()
                start = time.perf_counter()
                module = from_onnx(str(model.path))
                executable = heddle.compile(module, target="llvm", precision=self.precision)
                seconds.append(time.perf_counter() - start)
        self.cold_s, self.warm_s = seconds
        return HeddleSession(executable)


class HeddleBf16(Heddle):
    """Products with weights take bfloat16 factors."""

    tolerance = 5e-2
    is_reduced = True
    precision = "bf16"
