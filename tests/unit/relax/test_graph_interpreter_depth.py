"""Functions that call each other without an end, under the graph interpreter."""

import numpy as np
import pytest

from heddle.relax import GraphInterpreter
from heddle.script import from_source
from heddle.support.diagnostics import Trap

ENDLESS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Module
        y: R.Tensor((3,), "float32") = cls.{callee}(R.add(x, x))
        return y

    @R.function
    def other(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Module
        y: R.Tensor((3,), "float32") = cls.main(x)
        z: R.Tensor((3,), "float32") = R.add(x, y)
        return z
"""


@pytest.mark.parametrize("callee", ["main", "other"])
def test_calls_without_an_end_are_a_trap(callee):
    with pytest.raises(Trap, match="R0603"):
        GraphInterpreter(from_source(ENDLESS.format(callee=callee)))["main"](np.ones(3, "float32"))
