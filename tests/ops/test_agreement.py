"""The evaluators agree on every sample × dtype of every operator, static and with symbolic dimensions.

Programs are compiled an operator at a time: all its samples are functions of one module, so that passes meet
several functions at once. CI runs everything but for the loop interpreter, which is slow: it leaves out the
runs on grown sizes, and runs default schedules with each sample's first dtype and static sizes alone. C has
no grown sizes either. All of it: `python -m tests.ops.agreement`.
"""

from __future__ import annotations

import pytest

from heddle.ir.op_def import OpDef
from tests.e2e.c_file import COMPILERS
from tests.ops.agreement import (
    EVALUATORS,
    disagreements,
    of_first_dtypes,
    without_growth,
)
from tests.ops.cases import records
from tests.ops.programs import programs

IN_CI = {"loops": without_growth, "scheduled": of_first_dtypes, "c": without_growth}
EACH_OPERATOR = pytest.mark.parametrize("record", records(), ids=lambda record: record.name)


@EACH_OPERATOR
@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_agrees_with_the_reference(record: OpDef, evaluator: str) -> None:
    if record.opaque is not None and evaluator != "graph":
        pytest.skip(record.opaque.reason)
    if evaluator == "c" and not COMPILERS:
        pytest.skip("no gcc and no clang on this machine")
    made = programs(record)
    chosen = IN_CI[evaluator](made) if evaluator in IN_CI else made
    wrong = disagreements(record, chosen, evaluator)
    assert not wrong, "\n".join(wrong)
