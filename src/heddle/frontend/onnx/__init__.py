"""The importer of ONNX models."""

from __future__ import annotations

from heddle.frontend.onnx import dependency  # noqa: F401  (first: it says what to install)
from heddle.frontend.onnx.load import from_onnx

__all__ = ["from_onnx"]
