"""The engines by name. A module is imported when its engine is wanted: each needs a package of its own."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from benchmarks.engines.engine import Engine, Session, Unavailable

__all__ = ["ENGINES", "Engine", "Session", "Unavailable", "engine"]

ENGINES: dict[str, tuple[str, str]] = {
    "heddle": ("ours", "Heddle"),
    "onnxruntime": ("onnx_runtime", "OnnxRuntime"),
    "openvino-f32": ("open_vino", "OpenVino"),
    "openvino": ("open_vino", "OpenVinoDefault"),
    "torch": ("pytorch", "Eager"),
    "torch.compile": ("pytorch", "Compiled"),
    "tvm": ("apache_tvm", "ApacheTvm"),
    "iree": ("iree_runtime", "Iree"),
    "heddle-bf16": ("ours", "HeddleBf16"),
}
"""Name → module and class."""


def engine(name: str) -> Engine:
    """Raises: Unavailable where its package is not installed."""
    module, kind = ENGINES[name]
    try:
        return cast(Engine, getattr(import_module(f"benchmarks.engines.{module}"), kind)())
    except ImportError as error:
        raise Unavailable(f"not installed: {error}") from error
