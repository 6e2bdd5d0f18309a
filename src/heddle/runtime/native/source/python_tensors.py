"""Tensors of Python: over native ones, and over numpy's arrays without a step of Python."""

from heddle.runtime.device import CPU
from heddle.runtime.native.abi import DLTensor, ElementType, Flag, HostObject, Kind, NumpyArray
from heddle.runtime.native.source.counting import heddle_release
from heddle.runtime.native.source.making import new_object
from heddle.runtime.native.source.python import (
    Object,
    Py_DecRef,
    Py_IncRef,
    PyBytes_FromStringAndSize,
    PyCapsule_GetPointer,
    PyCapsule_New,
    PyErr_Clear,
    PyType_GenericAlloc,
    content_of,
    counted,
    slot_of,
)
from heddle.systems.types import Address, Pointer, i32, i64
from heddle.systems.words import Global, address, cast, copy, export, inline, native, null, offset, size_of

tensor_type = Global(Pointer[HostObject])
header_slot = Global(i64)
owner_slot = Global(i64)
array_type = Global(Pointer[HostObject])  # numpy's; null where its objects do not look as expected
element_types = Global(Pointer[ElementType])
num_element_types = Global(i64)

PLAIN = 1 << 0 | 1 << 8 | 1 << 10  # flags of numpy's: C order, aligned, writable
ALIGN_BYTES = 16


@export
def heddle_arrays_configure(type: Pointer[HostObject], elements: Pointer[ElementType], count: i64) -> None:
    """Tell numpy's type of arrays, and its element types with their words."""
    array_type.value = type
    element_types.value = elements
    num_element_types.value = count


@inline
def header_of(tensor: Object) -> Pointer[DLTensor]:
    """A Python tensor's header."""
    return cast(Pointer[DLTensor], content_of(slot_of(tensor, header_slot.value).value))


@native
def new_tensor_object(header: Object, owner: Object) -> Object:
    """A Python tensor of a header and an owner, whose counts it takes over; null with the exception set. It
    reads the rest from the header."""
    made = PyType_GenericAlloc(tensor_type.value, 0)
    if made == null:
        Py_DecRef(header)
        Py_DecRef(owner)
        return null
    slot_of(made, header_slot.value).value = header
    slot_of(made, owner_slot.value).value = owner
    return made


# ---- lent to native code, and native ones


@native
def lend_tensor(tensor: Object, header: Pointer[DLTensor]) -> Address:
    """A tensor object over a Python tensor's header; null after heddle_set_error."""
    lent = new_object(Kind.TENSOR, i64(size_of(DLTensor)), tensor, Flag.FOREIGN_OWNER | Flag.IS_OWNER)
    if lent != null:
        copy(cast(Pointer[DLTensor], lent), header)
        Py_IncRef(tensor)
    return lent


@native
def end_tensor(capsule: Object) -> None:
    """Let go of the tensor that a capsule holds."""
    heddle_release(null, Kind.TENSOR, PyCapsule_GetPointer(capsule, null))


@native
def wrap_tensor(tensor: Address) -> Object:
    """A Python tensor over a native one, whose count it takes over; null with the exception set."""
    capsule = PyCapsule_New(tensor, null, end_tensor)
    if capsule == null:
        heddle_release(null, Kind.TENSOR, tensor)
        return null
    header = PyBytes_FromStringAndSize(tensor, i64(size_of(DLTensor)))
    if header == null:
        Py_DecRef(capsule)
        return null
    return new_tensor_object(header, capsule)


@native
def view_of(tensor: Object, view: Pointer[DLTensor]) -> Object:
    """A Python tensor with the header of a native one, over the memory of a tensor of Python's; null with the
    exception set."""
    header = PyBytes_FromStringAndSize(null, i64(size_of(DLTensor)) + 8 * i64(view.rank))
    if header == null:
        return null
    own = cast(Pointer[DLTensor], content_of(header))
    sizes = cast(Pointer[i64], offset(own, 1))
    copy(own, view)
    own.sizes = sizes
    copy(sizes, view.sizes, i64(view.rank))
    return new_tensor_object(header, counted(tensor))


# ---- numpy's arrays


@inline
def dtype_of(array: Pointer[NumpyArray]) -> i32:
    """The word of an array's dtype; 0 where that is no plain number."""
    number: i64 = 0
    while number < num_element_types.value:
        known = element_types.value[number]
        if known.numpy == array.element_type:
            return i32(known.dtype)
        number += 1
    return 0


@inline
def fill_header(header: Object, array: Pointer[NumpyArray], dtype: i32) -> None:
    """The sizes lie behind the header, because an array's own may move."""
    tensor = cast(Pointer[DLTensor], content_of(header))
    sizes = cast(Pointer[i64], offset(tensor, 1))
    tensor.data = array.data
    tensor.device_type = CPU
    tensor.device_id = 0
    tensor.rank = array.rank
    tensor.dtype = dtype
    tensor.sizes = sizes
    tensor.strides = null
    tensor.byte_offset = 0
    copy(sizes, array.sizes, array.rank)


@native
def tensor_over_array(found: Object) -> Object:
    """A new Python tensor over an array that is compact, writable, aligned and of plain numbers; null,
    without an exception, where Python has to look at it."""
    array = cast(Pointer[NumpyArray], found)
    if array.flags & PLAIN != PLAIN or address(array.data) & (ALIGN_BYTES - 1) != 0:
        return null
    dtype = dtype_of(array)
    if dtype == 0:
        return null
    header = PyBytes_FromStringAndSize(null, i64(size_of(DLTensor)) + 8 * i64(array.rank))
    if header == null:
        PyErr_Clear()
        return null
    fill_header(header, array, dtype)
    made = new_tensor_object(header, counted(found))
    if made == null:
        PyErr_Clear()
    return made
