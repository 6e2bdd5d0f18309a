"""The evaluators agree on every sample × dtype of every operator, static and with symbolic dimensions.

Programs are compiled an operator at a time: all its samples are functions of one module, so that passes meet
several functions at once. CI runs everything but for the loop interpreter, which is slow: it leaves out the
runs on grown sizes, and runs default schedules with each sample's first dtype and static sizes alone. C has
no grown sizes either. All of it: `python -m tests.ops.agreement`.
"""

from __future__ import annotations

import pytest

from heddle.ir.op_def import OpDef
from heddle.support.diagnostics import Trap
from tests.e2e.c_file import COMPILERS
from tests.ops.agreement import (
    EVALUATORS,
    disagreements,
    of_first_dtypes,
    on_loop_interpreter,
    without_growth,
)
from tests.ops.cases import Case, records
from tests.ops.programs import module_of, programs, typed_program
from tests.ops.sizes import mismatched

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


@EACH_OPERATOR
def test_sizes_that_do_not_fit_are_found_before_memory_is_touched(record: OpDef) -> None:
    """Every dimension is a symbol of its own, and each in turn is one less than it should be: the program may
    find fault with it or give a result, but it reads and writes inside its tensors.
    """
    assert isinstance(record.samples, tuple)
    made = [
        typed_program(Case(record, sample, sample.dtypes[0], index), True, is_apart=True)
        for index, sample in enumerate(record.samples)
    ]
    found = [program for program in made if program is not None]
    functions = on_loop_interpreter(module_of(found))
    wrong = []
    for program in found:
        for arrays in mismatched(program.typed):
            try:
                functions(program.name)(*arrays)
            except Trap as error:
                if error.code == "T0601":
                    shapes = ", ".join(str(array.shape) for array in arrays)
                    wrong.append(f"{record.name} {program.name} on {shapes}: {error}")
    assert not wrong, "\n".join(wrong)
