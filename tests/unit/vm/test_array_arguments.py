"""numpy's arrays as arguments: what native code reads of them itself, and what it leaves to Python."""

import gc
import sys

import ml_dtypes
import numpy as np
import pytest

import heddle
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import HeddleError
from heddle.vm.relax import VirtualMachine

from .programs import builder

PLAIN = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]


@pytest.fixture
def same(mode):
    """main(x) = x."""
    made = builder()
    with made.function("main", 1):
        made.emit_ret(made.r(0))
    return VirtualMachine(made.get(), heddle.cpu())["main"]


def values(shape, dtype):
    return np.random.default_rng().integers(0, 2, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [*PLAIN, "longlong", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 0, 2), (2, 3, 5), (1,) * 9])
def test_an_array_keeps_type_shape_and_memory(same, dtype, shape):
    array = values(shape, ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    made = same(array)
    assert isinstance(made, Tensor)
    assert made.dtype == ("int64" if dtype == "longlong" else dtype)
    assert tuple(made.shape) == shape
    assert made.device == heddle.cpu(0)
    assert made.is_contiguous
    np.testing.assert_array_equal(made.numpy(), array)
    if array.size and array.ctypes.data % 16 == 0:
        assert np.shares_memory(made.numpy(), array)


def test_arrays_that_are_no_plain_memory_are_copied(same):
    whole = values((8, 12), "float32")
    fixed = whole.copy()
    fixed.flags.writeable = False
    shifted = np.frombuffer(bytearray(whole.tobytes() + b"1234"), np.float32, 96, 4)
    for array in (whole[:, ::2], whole.T, whole[::-1], fixed, shifted, whole.astype(">f4")[:0]):
        if array.dtype.isnative:
            made = same(array)
            np.testing.assert_array_equal(made.numpy(), array)
            assert not np.shares_memory(made.numpy(), whole)
        else:
            with pytest.raises(HeddleError, match="U0302"):
                same(array)


def test_a_subclass_and_objects_go_to_python(same):
    class Own(np.ndarray):
        pass

    array = values((4,), "float32").view(Own)
    np.testing.assert_array_equal(same(array).numpy(), array)
    with pytest.raises(HeddleError, match="U0302"):
        same(np.array([object()]))


def test_a_result_outlives_what_happens_to_the_array(same):
    array = values((6, 4), "int32")
    expected = array.copy()
    made = same(array)
    array.shape = (2, 3, 2, 2)  # numpy moves the sizes
    assert tuple(made.shape) == (6, 4)
    del array
    gc.collect()
    np.testing.assert_array_equal(made.numpy(), expected)


def test_nothing_is_kept_of_an_argument(same):
    array = values((64, 64), "float32")
    same(array)
    before, blocks = sys.getrefcount(array), sys.getallocatedblocks()
    for _ in range(2000):
        same(array)
    assert sys.getrefcount(array) == before
    assert sys.getallocatedblocks() - blocks < 500


def test_a_class_of_tensors_is_no_tensor(same):
    assert not isinstance(same(np.ndarray), Tensor)  # its own `__dlpack__` wants an instance
    with pytest.raises(HeddleError, match=r"U0303.*type"):
        heddle.runtime.from_dlpack(np.ndarray)
