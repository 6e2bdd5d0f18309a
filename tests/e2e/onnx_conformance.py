"""ONNX's own node tests with what models hold as constants made constant, through the importer, the verifier
and the graph interpreter. The same cases with all inputs as inputs run in `onnx_board`.

`python -m tests.e2e.onnx_conformance [words]` prints the figure and the failures; with words only the cases
whose names contain one of them.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from heddle.frontend.onnx import from_onnx
from heddle.relax.verify import verify_graph_function
from heddle.support.diagnostics import HeddleError
from tests.e2e.onnx_board import Outcome, cases, data_sets, difference_of_all, interpreted

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
}
"""Inputs that models hold as constants: the cases give them as inputs of the graph, and they are made
initializers."""


def chosen(words: Iterable[str] = ()) -> Iterator[Any]:
    words = list(words)
    for name, case in cases().items():
        if name.startswith("node/") and (not words or any(word in name for word in words)):
            yield case


def frozen(case: Any) -> tuple[onnx.ModelProto, list[Any], list[Any]]:
    """The model with constant-like inputs as initializers; the inputs that remain; the expected outputs."""
    inputs, outputs = next(data_sets(case, case.model))
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


def run(case: Any) -> Outcome:
    """Refused where the importer says so, wrong where anything else differs."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        status, reason = _verdict(case)
    return Outcome(case.name, "node", case.model.graph.node[0].op_type, status, reason)


def _verdict(case: Any) -> tuple[str, str]:
    model, inputs, expected = frozen(case)
    try:
        mod = from_onnx(model)
    except HeddleError as error:
        return "refused", str(error).splitlines()[0]
    except Exception as error:
        return "wrong", f"import: {type(error).__name__}: {str(error)[:200]}"
    broken = [finding for func in mod.functions.values() for finding in verify_graph_function(func, mod)]
    if broken:
        return "wrong", f"verify: {broken[0].render()}"
    try:
        got = interpreted(mod, inputs, len(model.graph.output))
    except Exception as error:
        return "wrong", f"run: {type(error).__name__}: {str(error)[:200]}"
    problem = difference_of_all(case, model, got, expected)
    return ("wrong", problem) if problem else ("pass", "")


def main(words: list[str]) -> None:
    outcomes = [run(case) for case in chosen(words)]
    for outcome in outcomes:
        if outcome.status != "pass":
            print(f"{outcome.status:12} {outcome.name}: {outcome.reason}")
    counts = Counter(outcome.status for outcome in outcomes)
    print(f"{counts['pass']} of {len(outcomes)} agree; {dict(counts)}")


if __name__ == "__main__":
    main(sys.argv[1:])
