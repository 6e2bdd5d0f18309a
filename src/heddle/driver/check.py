"""The report of `heddle check` on an ONNX model."""

from __future__ import annotations

from typing import Any

from heddle.driver.codes import D0301
from heddle.driver.models import ModelFile, find_model
from heddle.driver.pipeline import default_pipeline
from heddle.driver.targets import as_target
from heddle.lower.estimate_peak_memory import PEAK_MEMORY
from heddle.support.diagnostics import Diagnostic, UsageError
from heddle.support.span import ModelSpan


def check(text: str, memory: bool = False) -> dict[str, Any]:
    """Return the findings, free sizes and types of a model as plain values. With `memory`, also the formula
    of the memory of a call; this runs the compiler up to machine code generation.

    Raises: UsageError D0301 for another kind of model; FormatError N01.. for a damaged file.
    """
    from heddle.frontend.onnx.survey import survey  # the report is read without the importer

    model = find_model(text)
    if model.suffix != ".onnx":
        raise UsageError(D0301, f"check is for ONNX models, and {text} is none")
    found = survey(model.path)
    opsets = {domain or "ai.onnx": version for domain, version in found.opsets.items()}
    return {
        "model": model.name,
        "num_nodes": found.num_nodes,
        "opsets": opsets,
        "inputs": dict(found.inputs),
        "free_dims": found.free_dims,
        "types": dict(found.types),
        "findings": [_finding(item) for item in found.findings],
        "passed_over": found.passed_over,
        "memory": _memory(model) if memory and not found.findings else None,
    }


def _finding(item: Diagnostic) -> dict[str, Any]:
    span = item.span if isinstance(item.span, ModelSpan) else None
    return {
        "code": item.code.name,
        "message": item.message,
        "node": span.node if span is not None else None,
        "operator": span.op if span is not None else None,
        "notes": list(item.notes),
        "help": item.help,
        "text": item.render(),
    }


def _memory(model: ModelFile) -> str | None:
    """The formula that the pipeline finds."""
    from heddle.frontend.onnx import from_onnx  # the report is read without the importer

    mod = default_pipeline(as_target(None))(from_onnx(model.path))
    found = mod["main"].attrs.get(PEAK_MEMORY)
    return None if found is None else str(found)
