"""What is left of a fault: a minimal model, its inputs, and ten lines about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from tests.fuzz.graphs.judge import Case, Verdict
from tests.fuzz.graphs.oracle import known_differences


def ten_lines(case: Case, verdict: Verdict, path: Path | None = None) -> str:
    """Seed, operators, shapes, engines, the first difference, and how to see it again."""
    graph = case.model.graph
    ops = " ".join(f"{node.op_type}({', '.join(node.input)})->{','.join(node.output)}" for node in graph.node)
    shapes = "; ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in case.inputs[0].items())
    weights = "; ".join(f"{item.name}: {list(item.dims)}" for item in graph.initializer)
    lines = [
        f"seed {case.seed}: {verdict.kind}, {verdict.key}",
        f"operators: {ops[:600]}",
        f"inputs: {shapes[:400]}",
        f"constants: {weights[:300] or 'none'}",
        f"opset: {case.model.opset_import[0].version}; samples: {len(case.inputs)}",
        f"ways: {case.ways.target!r}, sanitize={case.ways.sanitize}, without={case.ways.without},"
        f" {case.ways.threads} threads",
        f"engines: heddle {' and '.join(case.ways.engines)};"
        f" onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__},"
        f" {len(known_differences())} known differences",
        f"found: {verdict.detail.strip()[:700]}",
        f"files: {path or 'not written'}",
        f"again: python -m tests.fuzz.graphs --seed {case.seed} --count 1",
    ]
    return "\n".join(lines)


def write(case: Case, verdict: Verdict, folder: Path) -> Path:
    """The model as `.onnx`, inputs as `.npz`, the report as `.txt`. Gives the model's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed_{case.seed}.onnx"
    onnx.save(case.model, path)
    wide = {
        name: array if array.dtype.isbuiltin == 1 else array.astype(np.float32)
        for name, array in case.inputs[0].items()
    }
    np.savez(path.with_suffix(".npz"), **wide)
    path.with_suffix(".txt").write_text(ten_lines(case, verdict, path) + "\n")
    return path
