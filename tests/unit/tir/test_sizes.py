"""What of a loop function is a size, and what decides its code."""

import numpy as np
import pytest

from heddle.ir.structural import structural_equal
from heddle.prim.nodes import SizeVar, constant
from heddle.script import from_source
from heddle.tir.interpreter import run_primfunc
from heddle.tir.sizes import sizes_of, with_sizes

HEAD = "from heddle.script import tir as T\n\n@T.prim_func\n"


def function(rows=12, shift=3, lanes=8, divisor=2, short=4, local=8, grain=2, operand=1, reads=15, run=20):
    text = f"""def f(A: T.Buffer(({reads}, {lanes}), "int64"), B: T.Buffer(({rows}, {lanes}), "int64")):
    for i in T.parallel({rows}, annotations={{"grain": {grain}}}):
        with T.sblock("root"):
            C = T.alloc_buffer(({local},), "int64", scope="local")
            for k in range({short}):
                C[k] = T.int64(0)
            for j in T.vectorized({lanes}):
                B[i, j] = A[i + {shift} + i // {run}, j] + T.shift_right(C[j % {divisor}], T.int64({operand}))
"""
    return from_source(HEAD + text)


@pytest.mark.parametrize(
    "change", [{"rows": 9}, {"shift": 1}, {"reads": 40}, {"grain": 5}, {"run": 30}], ids=str
)
def test_sizes_differ_and_forms_do_not(change):
    one, other = sizes_of(function()), sizes_of(function(**change))
    assert one.form == other.form
    differing = {k for k, (a, b) in enumerate(zip(one.values, other.values, strict=True)) if a != b}
    assert differing
    assert (differing == one.hints) == ("grain" in change)


@pytest.mark.parametrize(
    "change", [{"lanes": 4}, {"divisor": 4}, {"short": 2}, {"local": 9}, {"operand": 2}], ids=str
)
def test_what_decides_the_code_is_no_size(change):
    assert sizes_of(function()).form != sizes_of(function(**change)).form


def test_long_serial_loops_are_sizes_and_short_ones_not():
    def loop(extent, hint=""):
        text = f"""def f(A: T.Buffer((128,), "int64")):
    for i in T.serial({extent}{hint}):
        A[i] = A[i] + T.int64(1)
"""
        return sizes_of(from_source(HEAD + text)).form

    def nest(extent):
        text = f"""def f(A: T.Buffer((64, 128), "int64")):
    for i in T.serial({extent}):
        for j in T.serial(T.int64(128)):
            A[i, j] = A[i, j] + T.int64(1)
"""
        return sizes_of(from_source(HEAD + text)).form

    assert nest(9) == nest(64)
    assert nest(3) != nest(4)
    assert loop(65) == loop(128)
    assert loop(9) != loop(64)  # a few vectors, and what they leave
    assert loop(3) != loop(4)
    hint = ', annotations={"disable_unroll": True}'
    assert loop(3, hint) == loop(64, hint)
    other = ', annotations={"transpose_in_registers": 8}'
    assert loop(16, other) != loop(64, other)


def test_nothing_replaced_is_the_same_function():
    func = function()
    assert structural_equal(with_sizes(func, {}, ()), function())


def test_sizes_as_parameters_compute_what_constants_did():
    one, other = function(rows=12, shift=3), function(rows=9, shift=6)
    ours, theirs = sizes_of(one).values, sizes_of(other).values
    rows, shift = SizeVar("rows"), SizeVar("shift")
    exprs = {}
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a != b:
            exprs[k] = rows if a == 12 else shift
    shared = with_sizes(one, exprs, (rows, shift))
    assert structural_equal(from_source(shared.script()), shared)
    data = np.random.default_rng(3).integers(-9, 9, (15, 8))
    for func, sizes in ((one, (12, 3)), (other, (9, 6))):
        wanted, got = np.zeros((sizes[0], 8), "int64"), np.zeros((sizes[0], 8), "int64")
        run_primfunc(func, data, wanted)
        run_primfunc(shared, data, got, *sizes)
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(got, data[sizes[1] : sizes[1] + sizes[0]])


def test_a_grain_may_be_an_expression():
    func = function()
    (hint,) = sizes_of(func).hints
    size = SizeVar("size")
    shared = with_sizes(func, {hint: size + constant(1, "int64")}, (size,))
    assert structural_equal(from_source(shared.script()), shared)
