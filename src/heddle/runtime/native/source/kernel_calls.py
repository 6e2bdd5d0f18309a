"""heddle_call_kernel(self, args, count): the METH_FASTCALL body of every kernel's Python function.

Arguments become values: none, int, bool, float, or the address of a DLTensor. Anything else goes to the
Python function `slow_call`, which converts and calls again. A kernel that returns nonzero has called
heddle_set_error; `raise_hook` turns that into the exception.
"""

from heddle.runtime.native.abi import DLTensor, HostObject, KernelRecord, Kind, Value
from heddle.runtime.native.source.python import (
    Object,
    PyBool_Type,
    PyErr_Occurred,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyFloat_AsDouble,
    PyFloat_Type,
    PyLong_AsLongLong,
    PyLong_Type,
    _Py_NoneStruct,
    _Py_TrueStruct,
    bound_to,
    call_with_one,
    call_with_tuple,
    content_of,
    none,
    slot_of,
)
from heddle.runtime.native.source.python_tensors import header_slot, owner_slot, tensor_type
from heddle.runtime.native.source.values import payload_place
from heddle.systems.types import Function, Pointer, f64, i32, i64, u64
from heddle.systems.words import Global, cast, cold, export, inline, local, native, null, ref

Kernel = Function[[Pointer[Value], i32], i32]

slow_call = Global(Pointer[HostObject])
raise_hook = Global(Pointer[HostObject])

MOST_ARGS = 4096  # more are converted by Python: they do not go on the stack
# Kernels run without the interpreter's lock where their tensors have so many elements in all. Giving the lock
# up and taking it again costs 55 ns, or 5 ms where another thread grabs it: more than a small kernel runs.
UNLOCKED_FROM = 4096


@export
def heddle_glue_configure(
    type: Pointer[HostObject],
    header: i64,
    owner: i64,
    slow: Pointer[HostObject],
    raises: Pointer[HostObject],
) -> None:
    """Tell where tensors keep their header and owner, and the host's functions for rare calls."""
    tensor_type.value = type
    header_slot.value = header
    owner_slot.value = owner
    slow_call.value = slow
    raise_hook.value = raises


@cold
def call_slowly(self: Object, args: Pointer[Object], count: i64) -> Object:
    """Let Python make the call, for arguments that this code does not read."""
    return call_with_tuple(slow_call.value, self, args, count)


@native
def num_elements(tensor: Pointer[DLTensor]) -> i64:
    """The product of a tensor's sizes."""
    result: i64 = 1
    axis: i32 = 0
    rank = tensor.rank
    sizes = tensor.sizes
    while axis < rank:
        result *= sizes[axis]
        axis += 1
    return result


@inline
def set_float(value: Pointer[Value], found: Object) -> None:
    """The value of a float; payloads are its bits."""
    value.kind = Kind.FLOAT
    cast(Pointer[f64], ref(value.payload)).value = PyFloat_AsDouble(found)


@inline
def set_bool(value: Pointer[Value], found: Object) -> None:
    """Make a value of a bool of Python's."""
    value.kind = Kind.BOOL
    value.payload = i64(found == _Py_TrueStruct)


@inline
def set_int(value: Pointer[Value], found: Object) -> bool:
    """False with an exception where an int does not fit into a word."""
    number = PyLong_AsLongLong(found)
    value.kind = Kind.INT
    value.payload = number
    return number != -1 or PyErr_Occurred() == null


@export
def heddle_call_kernel(self: Object, args: Pointer[Object], count: i64) -> Object:
    """Call a kernel from Python: `self` is bound to it. Gives None, or null with an exception."""
    if count > MOST_ARGS:
        return call_slowly(self, args, count)
    tensors = tensor_type.value
    header_at = header_slot.value
    values = local(Value, count)
    work: i64 = 0
    number: i64 = 0
    while number < count:
        arg = args[number]
        value = values[number]
        type = arg.type
        value.zero = 0
        if type == tensors:
            tensor = content_of(slot_of(arg, header_at).value)
            value.kind = Kind.TENSOR
            payload_place(value).value = tensor
            work += num_elements(cast(Pointer[DLTensor], tensor))
        elif type == PyLong_Type:
            if not set_int(value, arg):
                return null
        elif type == PyFloat_Type:
            set_float(value, arg)
        elif type == PyBool_Type:
            set_bool(value, arg)
        elif arg == _Py_NoneStruct:
            value.kind = Kind.NONE
            value.payload = 0
        else:
            return call_slowly(self, args, count)
        number += 1
    return run_kernel(self, values, i32(count), u64(work))


@inline
def run_kernel(self: Object, values: Pointer[Value], count: i32, work: u64) -> Object:
    """Run a kernel on values, without Python's lock where there is much work. Gives None, or null."""
    record = cast(Pointer[KernelRecord], content_of(bound_to(self).record))
    kernel = cast(Kernel, record.code)
    status: i32 = 0
    if work >= UNLOCKED_FROM:
        thread = PyEval_SaveThread()
        status = kernel(values, count)
        PyEval_RestoreThread(thread)
    else:
        status = kernel(values, count)
    return none() if status == 0 else call_with_one(raise_hook.value, self)
