import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from heddle import relax
from heddle.driver.values import as_argument
from heddle.runtime import DataType, Shape, allocator_for, cpu, cuda, device, empty, from_dlpack, tensor
from heddle.runtime.device import Device
from heddle.runtime.function import to_value
from heddle.runtime.native.library import native_library
from heddle.runtime.tensor import storage_tensor, tensor_from_numpy
from heddle.support.diagnostics import HeddleError, IRTypeError, TrapValueError, UsageError

DTYPES = [
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
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip_keeps_values_shape_and_dtype(dtype):
    values = np.array([[0, 1, 2], [3, 1, 0]]).astype(DataType(dtype).numpy())
    made = tensor(values)
    assert made.dtype == dtype
    assert made.shape == (2, 3)
    assert made.numpy().dtype == values.dtype
    assert made.numpy().tobytes() == values.tobytes()


@pytest.mark.fact("12.4")
@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_round_trip(dtype):
    made = tensor(np.array([0, 1, 2, 3]).astype(DataType(dtype).numpy()))
    back = from_dlpack(made.__dlpack__())
    assert back.dtype == dtype
    assert back.address == made.address
    assert back.numpy().tobytes() == made.numpy().tobytes()


def test_tensor_copies_and_from_numpy_shares():
    values = np.zeros(64, "float32")
    copied, shared = tensor(values), tensor(values, copy=False)
    values[0] = 5
    assert copied[0] == 0
    assert shared[0] == 5


def test_numpy_view_writes_through_and_keeps_memory():
    made = empty((1000,), "int32")
    view = made.numpy()
    made[:] = np.arange(1000)
    storage = weakref.ref(made.owner)
    del made
    gc.collect()
    assert storage() is not None
    assert view[999] == 999
    del view
    gc.collect()
    assert storage() is None


def test_non_contiguous_readonly_and_misaligned_arrays_are_copied():
    base = np.arange(64, dtype="float32")
    for values in (base[::2], base[1:5], base.reshape(8, 8).T, np.broadcast_to(base[:1], (3,))):
        made = tensor_from_numpy(values)
        assert made.is_contiguous
        assert made.address != values.__array_interface__["data"][0]
        np.testing.assert_array_equal(made.numpy(), values)


def test_scalars_lists_and_dtype_argument():
    assert tensor(3).shape == ()
    assert tensor(3).item() == 3
    made = tensor([[1, 2], [3, 4]], dtype="float32")
    assert (made.dtype, made.shape) == ("float32", (2, 2))
    assert tensor(made, dtype="int8").numpy().tolist() == [[1, 2], [3, 4]]


def test_empty_sizes_and_zero_elements():
    made = empty((0, 3))
    assert made.numpy().shape == (0, 3)
    assert tensor(np.zeros((2, 0), "int8")).shape == (2, 0)
    with pytest.raises(ValueError, match="U0602"):
        empty((-1,))


def test_reshape_is_a_view():
    made = tensor(np.arange(6, dtype="int32"))
    view = made.reshape((2, -1))
    assert view.shape == (2, 3)
    view[1, 2] = 77
    assert made[5] == 77
    with pytest.raises(TrapValueError, match="U0301"):
        made.reshape((4, 2))


def test_copyfrom_checks_shape_and_casts():
    made = empty((2,), "int32")
    made.copyfrom([1.7, 2.2])
    assert made.numpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"expected \(2,\), got \(3,\)"):
        made.copyfrom(np.zeros(3))


def test_copyto_device_and_tensor():
    made = tensor(np.arange(3))
    other = made.copyto(cpu(1))
    assert other.device == cpu(1)
    assert other.address != made.address
    assert made.to_device(cpu(0)) is made
    target = empty((3,), "float32")
    assert made.copyto(target) is target
    assert target.numpy().tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(UsageError, match="U0202"):
        made.copyto(cuda(0))


@pytest.mark.parametrize("given", ["int8", np.int8, np.dtype("int8"), np.dtype("<i1"), DataType("int8")])
def test_an_element_type_by_any_name_is_the_same_one(given):
    assert DataType(given) is DataType("int8")


@pytest.mark.parametrize("given", [None, 8, object(), "int9", np.complex64, [1]])
def test_what_names_no_element_type(given):
    with pytest.raises(IRTypeError, match="U0101"):
        DataType(given)


@pytest.mark.parametrize("values", [np.array(["a"]), np.array([1j]), np.array([None]), np.zeros(2, ">i4")])
def test_unsupported_numpy_dtypes(values):
    with pytest.raises(IRTypeError, match=r"U0302|U0101"):
        tensor(values)


def test_masked_arrays_are_refused_everywhere():
    masked = np.ma.MaskedArray(np.arange(4, dtype=np.float32), mask=[0, 1, 0, 0])
    for take in (tensor, tensor_from_numpy, relax.const, as_argument, to_value):
        with pytest.raises(IRTypeError, match=r"U0302.*masked array") as caught:
            take(masked)
        assert "filled" in str(caught.value)
    with pytest.raises(IRTypeError, match=r"U0302.*masked array"):
        as_argument(np.ma.MaskedArray(["a", "b"], mask=[0, 1]))
    np.testing.assert_array_equal(tensor(masked.filled(-1)).numpy(), [0, -1, 2, 3])


def test_int4_is_a_byte_and_lanes_are_an_axis():
    made = empty((3,), "int4")
    assert made.numpy().dtype == ml_dtypes.int4
    assert empty((3,), "float32x4").numpy().shape == (3, 4)


@pytest.mark.fact("12.4")
def test_torch_both_ways():
    torch = pytest.importorskip("torch")
    source = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    shared = from_dlpack(source)
    source[0, 0] = 9
    assert shared[0, 0] == 9
    back = torch.from_dlpack(shared)
    back[0, 1] = 8
    assert source[0, 1] == 8
    strided = from_dlpack(source.T)
    assert strided.strides == (1, 4)
    np.testing.assert_array_equal(strided.numpy(), source.T.numpy())
    assert strided.contiguous().is_contiguous
    half = tensor(np.array([1.5, 2.5], ml_dtypes.bfloat16))
    assert torch.from_dlpack(half).dtype == torch.bfloat16
    assert torch.from_dlpack(half).tolist() == [1.5, 2.5]


def test_dlpack_keeps_the_producer_alive_until_the_consumer_is_done():
    made = tensor(np.arange(4, dtype="int64"))
    ref = weakref.ref(made)
    other = np.from_dlpack(made)
    del made
    gc.collect()
    assert ref() is not None
    assert other.tolist() == [0, 1, 2, 3]
    del other
    gc.collect()
    assert ref() is None


def test_unconsumed_and_consumed_capsules():
    made = tensor(np.arange(4))
    ref = weakref.ref(made)
    capsule = made.__dlpack__()
    from_dlpack(capsule)
    with pytest.raises(IRTypeError, match="U0303"):
        from_dlpack(capsule)
    unused = made.__dlpack__()
    del made, capsule, unused
    gc.collect()
    assert ref() is None
    with pytest.raises(IRTypeError, match="U0303"):
        from_dlpack("text")


@pytest.mark.fact("12.4")
def test_consumers_may_write():
    """numpy takes capsules without a version for read-only memory."""
    made = tensor(np.arange(4))
    theirs = np.from_dlpack(made)
    theirs[1] = 9
    assert made.numpy().tolist() == [0, 9, 2, 3]
    again = from_dlpack(theirs)
    assert again.address == made.address
    old, new = made.__dlpack__(max_version=(0, 8)), made.__dlpack__(max_version=(1, 1))
    assert from_dlpack(old).address == from_dlpack(new).address == made.address
    ref = weakref.ref(made)
    unused = made.__dlpack__(max_version=(1, 0))
    del made, theirs, again, old, new, unused
    gc.collect()
    assert ref() is None
    locked = np.arange(3)
    locked.flags.writeable = False
    with pytest.raises(IRTypeError, match="U0303"):
        from_dlpack(locked)


@given(hnp.arrays(np.int32, hnp.array_shapes(min_dims=0, max_dims=4, max_side=4)))
def test_any_shape_round_trips(values):
    made = tensor(values)
    assert made.shape == values.shape
    np.testing.assert_array_equal(made.numpy(), values)
    np.testing.assert_array_equal(np.from_dlpack(made), values)


@given(st.lists(st.integers(0, 5), max_size=4), st.integers(0, 200))
def test_storage_views_stay_inside(shape, offset):
    storage = allocator_for().alloc(256)
    need = offset + 4 * int(np.prod(shape, dtype=int))
    if need <= 256:
        assert (
            storage_tensor(storage, offset, Shape(shape), DataType("int32")).address
            == storage.address + offset
        )
    else:
        with pytest.raises(ValueError, match="U0602"):
            storage_tensor(storage, offset, Shape(shape), DataType("int32"))


def test_devices():
    assert device("cpu") == cpu(0)
    assert device("cuda:2") is Device(2, 2)
    assert str(cpu(1)) == "cpu:1"
    assert cpu(0) != cpu(1)
    assert (cpu(0).exist, cuda(0).exist) == (True, False)
    with pytest.raises(UsageError, match="did you mean 'metal'"):
        device("mettal")


def test_shape_is_a_tuple():
    assert Shape([2, 3]) == (2, 3)
    assert hash(Shape([2, 3])) == hash((2, 3))
    assert repr(Shape([2])) == "Shape(2)"
    with pytest.raises(TypeError):
        Shape(["a"])


def test_errors_are_ours():
    for call in (lambda: device("x"), lambda: empty((1,), "float31"), lambda: from_dlpack(3)):
        with pytest.raises(HeddleError):
            call()


def test_native_thread_state_exists():
    assert native_library().thread()
