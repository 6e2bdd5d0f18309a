"""The check that the `onnx` package is there, made before any module that imports it."""

from __future__ import annotations

from heddle.frontend.codes import N0001
from heddle.support.diagnostics import MissingDependencyError
from heddle.support.distribution import pip_install

try:
    import onnx  # noqa: F401  (only whether it is there)
except ImportError as error:
    raise MissingDependencyError(
        N0001, "importing ONNX models needs the package 'onnx'", help=pip_install("onnx")
    ) from error
