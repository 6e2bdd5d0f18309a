"""Bitwise operators, shifts and conditions of floats are refused where they are written."""

import pytest

from heddle.prim import intrinsics, ops
from heddle.prim.nodes import FloatImm, Var
from heddle.runtime.dtype import DataType
from heddle.script import from_source
from heddle.support.diagnostics import HeddleError, IRTypeError

DTYPES = ("float32", "float16", "bfloat16", "float64", "float8_e4m3fn")
TWO = (
    ops.bitwise_and,
    ops.bitwise_or,
    ops.bitwise_xor,
    ops.shift_left,
    ops.shift_right,
    ops.logical_and,
    ops.logical_or,
)
ONE = (ops.bitwise_not, ops.logical_not, intrinsics.popcount)
TEXTS = ("A[i] & A[i]", "A[i] | A[i]", "A[i] ^ A[i]", "~A[i]", "A[i] << A[i]", "A[i] >> A[i]")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operation", [*TWO, *ONE], ids=lambda operation: operation.__name__)
def test_floats_are_refused(operation, dtype):
    x = Var("x", DataType(dtype))
    with pytest.raises(IRTypeError, match="K0107"):
        operation(*[x] * (2 if operation in TWO else 1))


@pytest.mark.parametrize("operation", TWO, ids=lambda operation: operation.__name__)
def test_constant_floats_are_refused(operation):
    one = FloatImm(DataType("float32"), 1.0)
    with pytest.raises(IRTypeError, match="K0107"):
        operation(one, one)


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_refused_with_its_place(text):
    source = f"""
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            C[i] = {text}
"""
    with pytest.raises(HeddleError) as caught:
        from_source(source)
    assert "K0107" in str(caught.value)
    assert ":7:" in str(caught.value)
