"""Constants of Python's numbers keep their values, or say why not; arrays are cast as numpy casts them."""

import numpy as np
import pytest

from heddle import relax
from heddle.support.diagnostics import IRTypeError


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (5, None, "int32"),
        ([1, 2**31 - 1], None, "int32"),
        ([1, 2**31], None, "int64"),
        (-(2**31) - 1, None, "int64"),
        (True, None, "bool"),
        (1.5, None, "float32"),
        (255, "uint8", "uint8"),
        ([-128, 127], "int8", "int8"),
        (2**64 - 1, "uint64", "uint64"),
        ([], "int8", "int8"),
        (7, "int4", "int4"),
        (3, "float16", "float16"),
    ],
)
def test_values_are_kept(value, dtype, want):
    made = relax.const(value, dtype)
    assert made.data.dtype == want
    assert np.array_equal(made.data.numpy(), np.asarray(value))


@pytest.mark.parametrize(
    ("value", "dtype", "words"),
    [
        (300, "int8", "300 is outside the range of int8: expected -128 to 127"),
        (2**40, "int32", "outside the range of int32"),
        (-1, "uint8", "-1 is outside the range of uint8: expected 0 to 255"),
        ([1, 300], "uint8", "1 to 300 is outside"),
        (2**70, "int64", "outside the range of int64"),
        (2**70, "uint64", "outside the range of uint64"),
        (8, "int4", "expected -8 to 7"),
        (1j, "float32", "complex numbers are outside the range of float32"),
    ],
)
def test_what_does_not_fit_is_refused(value, dtype, words):
    with pytest.raises(IRTypeError, match="K0106") as caught:
        relax.const(value, dtype)
    assert words in str(caught.value)


def test_arrays_are_cast_as_numpy_casts_them():
    assert relax.const(np.array([300]), "uint8").data.numpy().tolist() == [44]
    assert relax.const(np.int64(2**40), "int32").data.numpy() == 0
