"""An index out of range is one error, with the index in it, in every evaluator and in the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heddle.support.diagnostics import TrapIndexError
from tests.ops.agreement import EVALUATORS
from tests.ops.cases import Case, records
from tests.ops.programs import Program, module_of, typed_program

INDEXING = {
    "take": (0, 3),
    "gather_elements": (0, 1),
    "gather_nd": (0, 2),
    "scatter_elements": (0, 1),
    "scatter_nd": (0, 1),
    "index_put": (0, 1),
    "index_tensor": (0, 1),
    "nn.nll_loss": (0, 1, 2),
}
"""Operators, and the samples whose indices must be valid."""
WRONG = (1000, -1000, -(2**63), 2**63 - 1)


def made(name: str, dynamic: bool) -> list[Program]:
    record = next(record for record in records() if record.name == name)
    assert isinstance(record.samples, tuple)
    cases = [Case(record, record.samples[k], record.samples[k].dtypes[0], k) for k in INDEXING[name]]
    return [program for case in cases if (program := typed_program(case, dynamic)) is not None]


def spoilt(arrays: Any, wrong: int) -> list[np.ndarray]:
    """The last index of the first tensor of integers replaced."""
    copies = [array.copy() for array in arrays]
    found = next(array for array in copies if array.dtype.kind == "i")
    wide = found.dtype if abs(wrong) <= 1000 else np.dtype("int64")
    if found.dtype == wide:
        found[(-1,) * found.ndim] = wrong
    else:
        found[(-1,) * found.ndim] = np.sign(wrong) * 1000
    return copies


@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.parametrize("name", INDEXING)
def test_every_evaluator_names_the_index(name: str, evaluator: str) -> None:
    for dynamic in (False, True):
        found = made(name, dynamic)
        functions = EVALUATORS[evaluator](module_of(found))
        for program in found:
            for wrong in WRONG:
                arrays = spoilt(program.runs[0].arrays, wrong)
                with pytest.raises(TrapIndexError, match=r"index -?\d+ is out of range") as caught:
                    functions(program.name)(*arrays)
                assert caught.value.code == "U1001"


def test_a_take_that_clips_or_wraps_has_no_wrong_index() -> None:
    record = next(record for record in records() if record.name == "take")
    x = np.arange(5.0, dtype="float32")
    index = np.array([-7, 9, 2])
    for mode, want in (("clip", [0, 4, 2]), ("wrap", [3, 4, 2])):
        attrs = type("Attrs", (), {"axis": 0, "mode": mode})()
        assert record.reference(attrs, x, index).tolist() == want
