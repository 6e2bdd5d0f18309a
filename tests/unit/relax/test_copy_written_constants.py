"""What a call writes over is no constant: constants are every machine's, in every call."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle import relax
from heddle.ir.module import IRModule
from heddle.relax.transform.copy_written_constants import CopyWrittenConstants
from heddle.script import from_source

OPERANDS = {
    "constant": 'w = R.const([1.0, 2.0, 3.0, 4.0], "float32")',
    "folded": 'w = R.add(R.const([0.0, 1.0, 2.0, 3.0], "float32"), R.const(1.0, "float32"))',
    "view": """v = R.const([[1.0, 2.0], [3.0, 4.0]], "float32")
        w = R.reshape(v, (4,))""",
    "tuple": """v = R.const([1.0, 2.0, 3.0, 4.0], "float32")
        t = (x, v)
        w = t[1]""",
    "branch": """c = R.less(R.max(x), R.const(1.0, "float32"))
        if c:
            w = R.const([1.0, 2.0, 3.0, 4.0], "float32")
        else:
            w = x""",
}
TEXT = """
@I.ir_module
class Module:
    @T.prim_func
    def bump(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("bump"):
                vi = T.axis.spatial(4, i)
                A[vi] = A[vi] + B[vi]
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        {operand}
        r = R.call_tir_inplace(cls.bump, (w, x), inplace_indices=[0], out_ty=R.Tensor((4,), "float32"))
        return r
"""


def program(kind: str) -> IRModule:
    return from_source(TEXT.format(operand=OPERANDS[kind]))


@pytest.mark.parametrize("kind", OPERANDS)
@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_a_constant_is_the_same_in_each_call_and_machine(mode: str, kind: str) -> None:
    executable = heddle.compile(program(kind), exec_mode=mode)
    for _ in range(2):
        main = relax.VirtualMachine(executable, heddle.cpu())["main"]
        for number in (0.0, 0.25, -3.0):
            x = np.full(4, number, "float32")
            np.testing.assert_array_equal(main(x.copy()).numpy(), np.float32([1, 2, 3, 4]) + x)


def test_an_operand_that_the_program_made_is_written_over_as_it_is() -> None:
    text = TEXT.format(operand="w = R.exp(x)")
    mod = from_source(text)
    assert CopyWrittenConstants()(mod) is mod
    x = np.zeros(4, "float32")
    np.testing.assert_array_equal(
        relax.VirtualMachine(heddle.compile(mod), heddle.cpu())["main"](x).numpy(), np.ones(4)
    )


def test_the_copy_is_a_call_of_a_loop_function() -> None:
    made = CopyWrittenConstants()(program("view"))
    assert "copied" in {var.name_hint for var in made.functions}
    heddle.ir.assert_structural_equal(from_source(made.script(show_meta=True)), made)
    assert CopyWrittenConstants()(made) is made


FUNCTIONS = """
    @R.function(private=True)
    def given(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        v = R.const([1.0, 2.0, 3.0, 4.0], "float32")
        return v

    @R.function(private=True)
    def same(v: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return v

    @R.function(private=True)
    def bumped(v: R.Tensor((4,), "float32"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        r = R.call_tir_inplace(cls.bump, (v, x), inplace_indices=[0], out_ty=R.Tensor((4,), "float32"))
        return r

    @R.function(private=True)
    def passed(v: R.Tensor((4,), "float32"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        r = cls.bumped(v, x)
        return r
"""
CALLS = {
    "a function's constant": "w = cls.given(x)",
    "a function's argument": 'w = cls.same(R.const([1.0, 2.0, 3.0, 4.0], "float32"))',
    "by another name": "f = cls.given\n        w = f(x)",
}
GIVEN = {
    "to one that writes": 'r = cls.bumped(R.const([1.0, 2.0, 3.0, 4.0], "float32"), x)',
    "by way of another": 'r = cls.passed(R.const([1.0, 2.0, 3.0, 4.0], "float32"), x)',
}


@pytest.mark.parametrize("kind", [*CALLS, *GIVEN])
@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_constants_that_pass_through_functions(mode: str, kind: str) -> None:
    text = TEXT.format(operand=CALLS.get(kind, "w = R.exp(x)"))
    if kind in GIVEN:
        begin = text.index("        w = R.exp(x)")
        text = text[:begin] + f"        {GIVEN[kind]}\n        return r\n"
    executable = heddle.compile(from_source(text + FUNCTIONS), exec_mode=mode)
    for _ in range(2):
        main = relax.VirtualMachine(executable, heddle.cpu())["main"]
        for number in (0.0, 0.25, -3.0):
            x = np.full(4, number, "float32")
            np.testing.assert_array_equal(main(x.copy()).numpy(), np.float32([1, 2, 3, 4]) + x)
