"""Heddle, compiled."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import heddle
from benchmarks.engines.engine import Arrays, Engine, Model, Session, flat_arrays
from heddle import relax
from heddle.codegen.cache import kernel_cache
from heddle.driver.program_cache import program_cache
from heddle.driver.values import as_argument, as_array
from heddle.frontend.onnx import from_onnx
from heddle.support.private_cache import PrivateCache


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


@contextmanager
def empty_caches() -> Iterator[None]:
    """Kernels and programs that were compiled before, by whomever, are not found inside."""
    kernels, programs = kernel_cache(), program_cache()
    kernel_folder, program_folder = kernels.folder, programs.folder
    with tempfile.TemporaryDirectory(prefix="heddle-bench-cache-") as folder:
        kernels.move(Path(folder))
        if program_folder is not None:
            programs.folder = PrivateCache(Path(folder), program_folder.limit_bytes)
        try:
            yield
        finally:
            kernels.move(kernel_folder)
            programs.folder = program_folder


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
        seconds = []
        with empty_caches():
            for _ in range(2):
                kernel_cache().forget()
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
