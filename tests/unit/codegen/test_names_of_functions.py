"""Any name of a function works, or is refused with a code where the target has no such name."""

from __future__ import annotations

import numpy as np
import pytest

import heddle
from heddle.relax import VirtualMachine
from heddle.script import from_source
from heddle.support.diagnostics import UsageError
from tests.e2e.c_file import needs_compiler

PROGRAM = """
@I.ir_module
class Program:
    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({{"global_symbol": {kernel!r}}})
        for i in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] * T.float32(2)
    @R.function
    def {main}(x: R.Tensor((4,), "float32")):
        cls = Program
        return R.call_tir(cls.kernel, (x,), out_ty=R.Tensor((4,), "float32"))
"""
PLAIN = ["int", "exit", "malloc", "a" * 3000]
ODD = ["a b", "1x", "für", "a-b", 'x"y', "x\\y", "a.b", "@a", "\N{SNOWMAN}"]


def _run(kernel: str, target: str, exec_mode: str, main: str = "main") -> None:
    mod = from_source(PROGRAM.format(kernel=kernel, main=main))
    machine = VirtualMachine(heddle.compile(mod, target, exec_mode=exec_mode), heddle.cpu())
    result = machine[main](heddle.tensor(np.ones(4, "float32"))).numpy()
    assert result.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("name", [*PLAIN, *ODD])
def test_machine_code(name: str, exec_mode: str) -> None:
    _run(name, "llvm", exec_mode)


@needs_compiler
@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
def test_c(exec_mode: str) -> None:
    for name in PLAIN[:2]:
        _run(name, "c", exec_mode)
    for name in ODD:
        with pytest.raises(UsageError, match="G0205") as caught:
            _run(name, "c", exec_mode)
        assert repr(name) in str(caught.value)


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
def test_functions_of_the_graph(exec_mode: str) -> None:
    _run("kernel", "llvm", exec_mode, main="größe")


@needs_compiler
def test_functions_of_the_graph_in_c() -> None:
    _run("kernel", "c", "bytecode", main="größe")
    with pytest.raises(UsageError, match="G0205"):
        _run("kernel", "c", "compiled", main="größe")
