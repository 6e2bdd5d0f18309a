"""Apache TVM, not tuned: its ONNX importer and its default pipeline for the host."""

from __future__ import annotations

import os
from typing import Any

import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from benchmarks.engines.engine import Arrays, Engine, Model, Session


class TvmSession(Session):
    def __init__(self, machine: Any) -> None:
        self._main = machine["main"]

    def prepare(self, arrays: Arrays) -> Any:
        return [tvm.runtime.tensor(array) for array in arrays]

    def call(self, prepared: Any) -> Any:
        return self._main(*prepared)

    def arrays(self, result: Any) -> Arrays:
        items = [result] if hasattr(result, "numpy") else list(result)
        return [item.numpy() for item in items]


class ApacheTvm(Engine):
    def version(self) -> str:
        return str(tvm.__version__)

    def load(self, model: Model) -> Session:
        if model.threads is not None:
            os.environ["TVM_NUM_THREADS"] = str(model.threads)
            tvm.get_global_func("runtime.config_threadpool")(1, model.threads)
        cpu = tvm.get_global_func("target.llvm_get_system_cpu")()
        target = tvm.target.Target({"kind": "llvm", "mcpu": str(cpu)})
        mod = from_onnx(onnx.load(str(model.path)))
        return TvmSession(relax.VirtualMachine(tvm.compile(mod, target), tvm.cpu()))
