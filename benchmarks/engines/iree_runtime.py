"""IREE: its ONNX importer and its compiler for the host's CPU."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import iree.compiler
import iree.runtime
import numpy as np

from benchmarks.engines.engine import Arrays, Engine, Model, Session, Unavailable

_COMPILE_LIMIT_S = 600


class IreeSession(Session):
    def __init__(self, image: bytes, threads: int | None) -> None:
        if threads is not None and threads > 1:
            iree.runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        config = iree.runtime.Config("local-sync" if threads == 1 else "local-task")
        self._device = config.device
        module = iree.runtime.VmModule.copy_buffer(config.vm_instance, image)
        loaded = iree.runtime.load_vm_module(module, config)
        (name,) = (n for n in module.function_names if not n.startswith("__") and "$async" not in n)
        self._main = loaded[name]

    def prepare(self, arrays: Arrays) -> Any:
        return [iree.runtime.asdevicearray(self._device, array) for array in arrays]

    def call(self, prepared: Any) -> Any:
        return self._main(*prepared)

    def arrays(self, result: Any) -> Arrays:
        items = result if isinstance(result, (tuple, list)) else (result,)
        return [np.asarray(item.to_host()) for item in items]


class Iree(Engine):
    def version(self) -> str:
        return version("iree-base-compiler")

    def load(self, model: Model) -> Session:
        with tempfile.TemporaryDirectory(prefix="heddle-bench-iree-") as folder:
            text = Path(folder) / "model.mlir"
            command = [
                sys.executable,
                "-m",
                "iree.compiler.tools.import_onnx",
                str(model.path),
                "-o",
                str(text),
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_LIMIT_S)
            if done.returncode:
                raise Unavailable(f"import: {done.stderr.strip().splitlines()[-1][:200]}")
            try:
                image = iree.compiler.compile_file(
                    str(text),
                    input_type="onnx",
                    target_backends=["llvm-cpu"],
                    extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"],
                )
            except iree.compiler.CompilerToolError as error:
                raise Unavailable(f"compile: {str(error).splitlines()[0][:200]}") from error
        return IreeSession(image, model.threads)
