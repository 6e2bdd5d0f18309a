"""The loop interpreter before lowering, after each pass, and the machine code give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.codegen import as_module, compile_kernels, lowering_passes
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc
from tests.unit.codegen.kernel_runner import Kernels
from tests.unit.tir.transform.random_programs import DTYPES, Program, programs


def same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a.view(np.uint8), b.view(np.uint8)) or np.array_equal(a, b))


def check_passes(program: Program, a: Any, b: Any, expected: Any) -> None:
    mod, target = as_module(program.func), Target("llvm")
    for step in lowering_passes(target):
        mod = step(mod)
        func = mod.get("f__body") or mod["f"]
        assert isinstance(func, PrimFunc)
        got = b.copy()
        dims = (*a.shape,) if program.symbolic and func.attrs.get("calling_conv") else ()
        run_primfunc(func, a.copy(), got, program.k, *dims)
        assert same(got, expected), f"after {step.info.name}"


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_lowering_and_machine_code_agree_with_interpreter(dtype: str, data: st.DataObject) -> None:
    program, a, b = data.draw(programs(dtype))
    expected = b.copy()
    run_primfunc(program.func, a.copy(), expected, program.k)
    backwards = b.copy()
    run_primfunc(program.func, a.copy(), backwards, program.k, reverse_parallel=True)
    assert same(backwards, expected)
    check_passes(program, a, b, expected)
    got = b.copy()
    Kernels(compile_kernels(program.func, Target("llvm")))("f", a.copy(), got, program.k)
    assert same(got, expected)
