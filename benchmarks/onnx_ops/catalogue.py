"""All rows, and the operators without one."""

from __future__ import annotations

from onnx import defs

from benchmarks.onnx_ops.case import Case
from benchmarks.onnx_ops.control import CONTROL
from benchmarks.onnx_ops.generators import GENERATORS
from benchmarks.onnx_ops.indexing import INDEXING
from benchmarks.onnx_ops.layout import LAYOUT
from benchmarks.onnx_ops.pointwise import POINTWISE
from benchmarks.onnx_ops.products import PRODUCTS
from benchmarks.onnx_ops.quantised import QUANTISED
from benchmarks.onnx_ops.recurrent import RECURRENT
from benchmarks.onnx_ops.reductions import REDUCTIONS
from benchmarks.onnx_ops.signals import SIGNALS
from benchmarks.onnx_ops.text import TEXT
from benchmarks.onnx_ops.windows import WINDOWS

CASES: tuple[Case, ...] = (
    *POINTWISE,
    *REDUCTIONS,
    *LAYOUT,
    *INDEXING,
    *PRODUCTS,
    *WINDOWS,
    *SIGNALS,
    *GENERATORS,
    *QUANTISED,
    *RECURRENT,
    *CONTROL,
    *TEXT,
)
WITHOUT_ROW = {
    "Constant": "nothing runs: both sides keep the value with the model",
    "ImageDecoder": "neither side has it",
    "SwiGLU": "ONNX Runtime has no kernel, and none for Swish of that version, which its body calls",
    "RegexFullMatch": "refused: a regular expression of a model could match for ever",
}
"""Operator → why it has no row."""


def operators() -> list[str]:
    """The default domain of the installed package: all that are not deprecated."""
    return sorted(
        {schema.name for schema in defs.get_all_schemas() if not schema.domain and not schema.deprecated}
    )


def row(name: str) -> Case:
    """The row of this very name."""
    return next(case for case in CASES if case.name == name)


def chosen(names: list[str]) -> list[Case]:
    """The rows of these names or operators, else all."""
    return [case for case in CASES if not names or case.name in names or case.operator in names]
