"""ONNX's own node tests, run through the importer, the verifier and the graph interpreter.

`python -m tests.e2e.onnx_conformance [words]` prints the figure and the failures; with words only the cases
whose names contain one of them.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from heddle.frontend.onnx import from_onnx
from heddle.frontend.onnx.proto import DTYPES, tensor_array
from heddle.ir.types import TupleType
from heddle.relax.interpreter import GraphInterpreter
from heddle.relax.verify import verify_graph_function
from heddle.support.diagnostics import HeddleError

SKIPPED_DOMAINS = ("ai.onnx.preview.training", "ai.onnx.ml")
NOT_DATA = {
    "Reshape": (1,),
    "Expand": (1,),
    "Slice": (1, 2, 3, 4),
    "Tile": (1,),
    "Pad": (1, 2, 3),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
    "Split": (1,),
    "TopK": (1,),
    "OneHot": (1,),
    "CumSum": (1,),
    "CumProd": (1,),
    "Range": (0, 1, 2),
    "ConstantOfShape": (0,),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "Trilu": (1,),
    "Dropout": (1, 2),
    "CenterCropPad": (1,),
    "NonMaxSuppression": (2, 3, 4),
    "SplitToSequence": (1,),
    "SequenceAt": (1,),
    "SequenceInsert": (2,),
    "SequenceErase": (1,),
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "HannWindow": (0,),
    "HammingWindow": (0,),
    "STFT": (1, 3),
    "DFT": (1, 2),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "Col2Im": (1, 2),
    "MaxUnpool": (2,),
    "Compress": (),
}
"""Inputs that models hold as constants: the cases give them as inputs of the graph, and they are made
initializers."""


UNSUPPORTED = {
    "INT2": "2-bit integers are no element type of ours",
    "FLOAT4E2M1": "4-bit floats are no element type of ours",
    "FLOAT8E8M0": "the scale type of block formats is no element type of ours",
    "String": "strings are no element type of ours",
    "TfIdfVectorizer": "text processing",
    "RegexFullMatch": "text processing",
    "ImageDecoder": "needs an image library",
    "is a sequence, not a tensor": "sequences exist while importing only, so none can be an input",
    "test_loop13_seq": "a sequence that grows while the model runs",
    "test_if_": "branches that give sequences or optionals",
    "an optional input that is left out": "an optional input counts as there",
    "raining mode": "training",
    "RandomUniformLike": "random numbers",
    "random": "random numbers",
    "DFT": "no Fourier transform yet",
    "STFT": "no Fourier transform yet",
    "MelWeightMatrix": "no Fourier transform yet",
    "NonMaxSuppression": "no operator of ours yet",
    "GridSample": "no operator of ours yet",
    "RoiAlign": "no operator of ours yet",
    "DeformConv": "no operator of ours yet",
    "Col2Im": "no operator of ours yet",
    "MaxUnpool": "no operator of ours yet",
    "indices of maxima": "no operator of ours yet",
    "Unique": "no converter yet",
    "Det ": "no operator of ours yet",
    "Resize: scale": "a scale that does not give a whole size maps positions by the scale, ours by the sizes",
    "antialiasing": "no operator of ours yet",
    "quantisation to float8": "no operator of ours yet",
    "the branches give 0 and 1 dimensions": "the rank of a value must be known",
    "BitCast": "no operator of ours yet",
    "einsum": "no operator of ours yet",
    "TensorScatter": "no operator of ours yet",
    "scales for blocks": "no converter yet",
    "Unique along an axis": "no operator of ours yet",
    "the order of first occurrence": "no operator of ours yet",
    "amounts of padding that are not constant": "our padding takes constant amounts",
    "a range of floats": "a range of floats must have constant bounds",
    "STRING": "strings are no element type of ours",
    "Scan of operator set 8": "the form of 2018 has another meaning, and no exporter writes it",
    "test_lstm_with_peepholes": "the lengths of sequences must be known, and are an input there",
    "test_loop11": "the rows to collect get their shape inside of the loop only",
}
"""Why cases are unsupported: words of their name or finding, and the reason."""

TOLERANCES = {"float16": 2e-3, "bfloat16": 1.6e-2}
"""Two units in the last place of the narrow floats, in which the references round after every operator."""


@dataclass(frozen=True)
class Outcome:
    """`status` is ok, unsupported (a coded finding), differs or crash."""

    name: str
    op: str
    status: str
    reason: str = ""


@cache
def cases() -> tuple[Any, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    kept = [
        case for case in found if all(item.domain not in SKIPPED_DOMAINS for item in case.model.opset_import)
    ]
    return tuple(kept)


def chosen(words: Iterable[str]) -> Iterator[Any]:
    words = list(words)
    yield from (case for case in cases() if not words or any(word in case.name for word in words))


def frozen(case: Any) -> tuple[onnx.ModelProto, list[Any], list[Any]]:
    """The model with constant-like inputs as initializers; the inputs that remain; the expected outputs."""
    inputs, outputs = ([_plain(item) for item in side] for side in case.data_sets[0])
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    fixed: set[str] = set()
    for node in graph.node:
        places = (1,) if node.op_type.startswith("Reduce") else NOT_DATA.get(node.op_type, ())
        fixed |= {node.input[i] for i in places if i < len(node.input)}
    rest: list[Any] = []
    for value, array in zip(list(graph.input), inputs, strict=False):
        if value.name in fixed and isinstance(array, np.ndarray):
            graph.initializer.append(numpy_helper.from_array(array, value.name))
            graph.input.remove(value)
        else:
            rest.append(array)
    return model, rest, outputs


def _plain(item: Any) -> Any:
    """Arrays, and sequences of them; rare element types come as messages."""
    if isinstance(item, onnx.TensorProto):
        return tensor_array(item) if item.data_type in DTYPES else item
    return (
        [_plain(part) for part in item]
        if isinstance(item, list)
        else item
        if item is None
        else np.asarray(item)
    )


def run(case: Any) -> Outcome:
    op = case.model.graph.node[0].op_type
    model, inputs, expected = frozen(case)
    if any(item is None for item in inputs):
        return Outcome(case.name, op, "unsupported", "an optional input that is left out")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            mod = from_onnx(model)
        except HeddleError as error:
            return Outcome(case.name, op, "unsupported", str(error).splitlines()[0])
        except Exception as error:
            return Outcome(case.name, op, "crash", f"import: {type(error).__name__}: {str(error)[:200]}")
        broken = [finding for func in mod.functions.values() for finding in verify_graph_function(func, mod)]
        if broken:
            return Outcome(case.name, op, "crash", f"verify: {broken[0].render()}")
        try:
            got = GraphInterpreter(mod)["main"](*inputs)
        except Exception as error:
            return Outcome(case.name, op, "crash", f"run: {type(error).__name__}: {str(error)[:200]}")
    results = (
        got if isinstance(mod["main"].ret_ty, TupleType) and len(case.model.graph.output) > 1 else (got,)
    )
    for index, (mine, theirs) in enumerate(zip(results, expected, strict=False)):
        problem = difference(mine, theirs, max(case.rtol, 1e-3), max(case.atol, 1e-5))
        if problem:
            return Outcome(case.name, op, "differs", f"output {index}: {problem}")
    return Outcome(case.name, op, "ok")


def difference(mine: Any, theirs: Any, rtol: float, atol: float) -> str:
    """What differs, or nothing. Shapes and element types count."""
    if isinstance(theirs, (list, tuple)):
        if not isinstance(mine, (list, tuple)) or len(mine) != len(theirs):
            return "sequences differ"
        return next(
            (text for a, b in zip(mine, theirs, strict=True) if (text := difference(a, b, rtol, atol))), ""
        )
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    if mine.shape != theirs.shape:
        return f"shape {mine.shape}, expected {theirs.shape}"
    if mine.dtype != theirs.dtype:
        return f"dtype {mine.dtype}, expected {theirs.dtype}"
    wide = np.float64 if mine.dtype.kind not in "iub" else mine.dtype
    if mine.dtype.kind in "iub":
        return "" if np.array_equal(mine, theirs) else "values differ"
    unit = TOLERANCES.get(mine.dtype.name, 0)
    close = np.allclose(
        mine.astype(wide), theirs.astype(wide), max(rtol, unit), max(atol, unit), equal_nan=True
    )
    return "" if close else f"off by {np.nanmax(np.abs(mine.astype(wide) - theirs.astype(wide))):.3g}"


def main(words: list[str]) -> None:
    outcomes = [run(case) for case in chosen(words)]
    for outcome in outcomes:
        if outcome.status != "ok":
            print(f"{outcome.status:12} {outcome.name}: {outcome.reason}")
    counts = Counter(outcome.status for outcome in outcomes)
    print(f"{counts['ok']} of {len(outcomes)} agree; {dict(counts)}")


if __name__ == "__main__":
    main(sys.argv[1:])
