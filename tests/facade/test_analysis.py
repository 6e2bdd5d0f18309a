"""Well-formedness at TVM's names."""

from __future__ import annotations

import pytest

from heddle import ir, relax, tirx
from heddle.script import from_source
from heddle.support.diagnostics import VerifyError

GOOD = """
@R.function
def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
    y = R.exp(x)
    return y
"""


def test_a_good_function() -> None:
    func = from_source(GOOD)
    relax.analysis.check_well_formed(func)
    assert relax.analysis.well_formed(ir.IRModule.from_expr(func))


def test_a_variable_from_nowhere_is_found() -> None:
    func = from_source(GOOD)
    stranger = relax.Function([], func.body, func.ret_ty)
    assert not relax.analysis.well_formed(stranger)
    with pytest.raises(VerifyError, match="R03"):
        relax.analysis.check_well_formed(stranger)


def test_loop_functions() -> None:
    mod = relax.transform.LegalizeOps()(ir.IRModule.from_expr(from_source(GOOD)))
    assert tirx.analysis.verify_well_formed(mod["exp"])
