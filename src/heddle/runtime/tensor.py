"""Tensors: n-dimensional arrays. Python, numpy, DLPack libraries and kernels share their memory.

A tensor owns its *header*, the 48 bytes of a DLTensor:

    offset  0  u64 data           16  i32 ndim            24  i64* shape          40  u64 byte_offset (0)
            8  i32 device_type    20  u8 code, u8 bits    32  i64* strides (NULL: compact, row-major)
           12  i32 device_id      22  u16 lanes

The header is a `bytes` object in the tensor's `_header` slot. Both the slot and the contents of a `bytes`
object have fixed offsets, so native code gets from `PyObject*` to `DLTensor*` with two loads. Creating a
tensor takes about one microsecond: half for `struct.pack`, half for setting six slots.

`from_dlpack`, `tensor(..., copy=False)`, `Tensor.numpy()` and `__array__` share memory. `tensor(...)` copies,
so a program that writes in place never changes the source array. Views keep their memory alive.

Over 450 lines: one class, and the functions that create its objects and know its memory layout.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from heddle.runtime.codes import U0202, U0301, U0302, U0304, U0602
from heddle.runtime.device import CPU, Device, cpu
from heddle.runtime.device_api.api import DEFAULT_STREAM, refuse_layout
from heddle.runtime.dlpack import export_capsule, import_capsule, is_lender
from heddle.runtime.dtype import CODE_NAMES, DTYPE_CODES, DataType, dtype_from_packed, dtype_of
from heddle.runtime.layout import Layout, layout_of, strided_layout
from heddle.runtime.native.memory import array_address
from heddle.runtime.native.methods import CONTENT_OFFSET, slot_offset
from heddle.runtime.shape import Shape
from heddle.runtime.storage import Allocator, Storage, allocator_for
from heddle.support.diagnostics import IRTypeError, TrapValueError, UsageError

MIN_ALIGN_BYTES = 16  # required of memory that is shared with others; our own storage is aligned to 64

_FEW_BITS = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "uint2", "int4", "uint4")}
"""The numpy (ml_dtypes) dtypes that users see for elements of fewer than 8 bits, which take one byte each."""
_HEADER = struct.Struct("<QiiiIQQQ")
_pack_header = _HEADER.pack
_new_object = object.__new__


class Tensor:
    """An n-dimensional array. Attributes: `dtype`, `device`, `shape`, `strides`; for internal use `address`,
    `layout` and `owner`, the object that keeps the memory alive.

    Create tensors with `tensor`, `empty` or `from_dlpack`, not by calling the class. Programs return tensors
    too.
    """

    __slots__ = ("__weakref__", "_header", "address", "device", "dtype", "layout", "owner")
    address: int
    _header: bytes
    layout: Layout
    owner: object
    device: Device
    dtype: DataType

    def __getattr__(self, name: str) -> Any:
        """Read an attribute of a tensor that native code created. Its slots are filled from the header on
        first use.
        """
        if name not in ("address", "layout", "dtype", "device"):
            raise AttributeError(f"tensor has no attribute {name!r}", name=name, obj=self)
        data, device_type, device_id, ndim, word, sizes, _, _ = _HEADER.unpack_from(self._header)
        self.address = data
        self.layout = layout_of(struct.unpack(f"<{ndim}q", ctypes.string_at(sizes, 8 * ndim)))
        self.dtype = DataType(dtype_from_packed(word))
        self.device = Device(device_type, device_id)
        return getattr(self, name)

    @property
    def shape(self) -> Shape:
        """The size of each dimension."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.layout.shape)

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Strides in elements. None means row-major without gaps."""
        return self.layout.strides

    @property
    def size_bytes(self) -> int:
        """The size of all elements in bytes, without gaps."""
        return self.layout.num_elements * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in row-major order."""
        return self.layout.strides is None

    @property
    def is_readonly(self) -> bool:
        """Whether the memory must not be written: it is a constant of a program, or a view of one."""
        owner = self.owner
        while isinstance(owner, Tensor):
            owner = owner.owner
        return isinstance(owner, _Lent)

    def readonly(self) -> Tensor:
        """Return a read-only view. Its numpy views are not writable, and DLPack consumers get a copy."""
        return make_tensor(self.address, self.layout, self.dtype, self.device, _Lent(self))

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a numpy array. It shares the tensor's memory, keeps it alive, and is read-only if the tensor
        is. If the host cannot read the memory, the array is a copy.

        Dtypes: bfloat16, float8, float4 and integers of 2 and 4 bits become ml_dtypes types.

        Shapes: a dtype with more than one lane adds the lanes as the last axis.
        """
        if is_far(self):
            return self.copyto(cpu(0)).numpy()
        dtype = self.dtype
        element = _FEW_BITS.get(dtype.element) or dtype.numpy()
        layout, width = self.layout, element.itemsize
        shape: tuple[int, ...] = layout.shape
        steps = layout.strides
        if dtype.lanes > 1:
            steps = None if steps is None else (*_scaled(steps, dtype.lanes), 1)
            shape = (*shape, dtype.lanes)
        strides = None if steps is None else _scaled(steps, width)
        memory = _Memory(self, f"|V{width}", shape, strides, self.is_readonly)
        try:
            return np.asarray(memory).view(element)
        except MemoryError:
            memory.let_go()
            raise

    asnumpy = numpy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        view = self.numpy()
        return np.array(view, dtype=dtype, copy=copy)

    def item(self) -> Any:
        """Return the value of a one-element tensor as a Python scalar. Raises: ValueError for another number
        of elements.
        """
        return self.numpy().item()

    def __getitem__(self, key: Any) -> Any:
        return self.numpy()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._require_writable()
        values = self.numpy()
        values[key] = value.numpy() if isinstance(value, Tensor) else value
        if is_far(self):
            self.copyfrom(values)

    def _require_writable(self) -> None:
        if self.is_readonly:
            raise TrapValueError(
                U0304, "the tensor is a constant of a program", help="write into a copy: tensor(t)"
            )

    def __len__(self) -> int:
        return len(self.numpy())

    def copyfrom(self, source: Any) -> Tensor:
        """Overwrite the contents with `source` (a tensor or array-like of the same shape), cast to this
        dtype. Return this tensor.

        Raises: TrapValueError U0301 if the shapes differ, U0304 if this tensor is a constant of a program.
        """
        self._require_writable()
        if is_far(self) or (isinstance(source, Tensor) and is_far(source)):
            copy_far(source if isinstance(source, Tensor) else np.asarray(source), self)
            return self
        values = source.numpy() if isinstance(source, Tensor) else np.asarray(source)
        if self._lies_as(values):
            ctypes.memmove(self.address, array_address(values), values.nbytes)
            return self
        target = self.numpy()
        if values.shape != target.shape:
            raise TrapValueError(
                U0301, f"shapes differ: expected {tuple(target.shape)}, got {tuple(values.shape)}"
            )
        target[...] = values
        return self

    def _lies_as(self, values: np.ndarray[Any, Any]) -> bool:
        """Whether a numpy array has this tensor's dtype and shape and both are compact, so that bytes can be
        copied.
        """
        if _numpy_dtypes.get(values.dtype) is not self.dtype or values.shape != self.layout.shape:
            return False
        is_plain = self.layout.strides is None and self.device.device_type == CPU
        return is_plain and values.flags.c_contiguous

    def copyto(self, target: Tensor | Device | Allocator) -> Tensor:
        """Copy to a tensor of the same shape, or to a new tensor on a device or in memory of an allocator.
        Return the target tensor.

        Raises: as `copyfrom`.
        """
        if isinstance(target, Device):
            target = allocator_for(target)
        if isinstance(target, Allocator):
            target = allocated(target, self.layout, self.dtype)
        return target.copyfrom(self)

    def to_device(self, device: Device, allocator: Allocator | None = None) -> Tensor:
        """Return this tensor if it is on `device`, else a copy there. The copy is in memory of `allocator` if
        one is given.
        """
        return self if device == self.device else self.copyto(allocator or device)

    def contiguous(self) -> Tensor:
        """Return this tensor if it is contiguous, else a compact copy."""
        return self if self.is_contiguous else self.copyto(self.device)

    def raw_bytes(self) -> memoryview:
        """Return the bytes of the elements in row-major order. A contiguous host tensor is not copied,
        because weights may have gigabytes.
        """
        return self.contiguous().numpy().reshape(-1).view(np.uint8).data

    def reshape(self, shape: Sequence[int]) -> Tensor:
        """Return a row-major view of the same elements with another shape. One size may be -1; it is
        inferred.

        Raises: TrapValueError U0301 if the number of elements differs, or if the tensor is not contiguous.
        """
        sizes = [int(size) for size in shape]
        if sizes.count(-1) == 1:
            known = -int(np.prod(sizes, dtype=np.int64))
            sizes[sizes.index(-1)] = self.layout.num_elements // known if known else 0
        layout = layout_of(tuple(sizes))
        if layout.num_elements != self.layout.num_elements or not self.is_contiguous:
            raise TrapValueError(U0301, f"cannot view a tensor of shape {self.shape} as {tuple(shape)}")
        return make_tensor(self.address, layout, self.dtype, self.device, self)

    def same_as(self, other: object) -> bool:
        """Whether `other` is the same object."""
        return self is other

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        if copy is False and self.is_readonly:
            raise BufferError("the tensor is a program's constant, which is lent only as a copy")
        shared = self.copyto(self.device) if copy or self.is_readonly else self
        versioned = max_version is not None and max_version[0] >= 1
        return export_capsule(id(shared._header) + CONTENT_OFFSET, shared, versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device.device_type, self.device.device_id)

    def __repr__(self) -> str:
        head = f"Tensor(shape={tuple(self.shape)}, dtype={str(self.dtype)!r}, device={self.device})"
        return f"{head}\n{self.numpy()!r}"


def is_far(tensor: Tensor) -> bool:
    """Whether the host cannot access the tensor's memory by its address."""
    return tensor.device.device_type != CPU and not tensor.device.is_host


def copy_far(source: Tensor | np.ndarray[Any, Any], target: Tensor) -> None:
    """Copy between two compact tensors of which at least one is not in host memory. A cast to another dtype
    runs on the host.

    Raises: TrapValueError U0301 if the shapes differ; UsageError U0203 for a strided tensor, U0202.
    """
    shape = tuple(source.shape)
    if shape != tuple(target.shape):
        raise TrapValueError(U0301, f"shapes differ: expected {tuple(target.shape)}, got {shape}")
    if isinstance(source, Tensor) and is_far(source):
        _copy_from_far(source, target)
        return
    if not target.is_contiguous:
        raise refuse_layout(str(target.device))
    near = empty(shape, target.dtype).copyfrom(source)
    target.device.api.copy_in(
        target.device.device_id, near.address, target.address, target.size_bytes, DEFAULT_STREAM
    )


def _copy_from_far(source: Tensor, target: Tensor) -> None:
    where, to = source.device, target.device
    if not source.is_contiguous:
        raise refuse_layout(str(where))
    is_same = source.dtype == target.dtype and target.is_contiguous
    if is_same and where.device_type == to.device_type:
        numbers = where.device_id, to.device_id
        where.api.copy_across(numbers, source.address, target.address, source.size_bytes)
        return
    if is_same and not is_far(target):
        near = target
    else:
        near = empty(source.shape, source.dtype)
    where.api.copy_out(where.device_id, source.address, near.address, source.size_bytes, DEFAULT_STREAM)
    where.sync(DEFAULT_STREAM)
    if near is not target:
        target.copyfrom(near)


# CPython orders slots by name, after the object's head.
HEADER_SLOT_OFFSET, OWNER_SLOT_OFFSET = slot_offset(Tensor, "_header"), slot_offset(Tensor, "owner")


class _Lent:
    """The owner of read-only views."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor


class _Memory:
    """The object from which numpy makes a view (`__array_interface__`). The view keeps it alive, and it keeps
    the tensor alive.
    """

    __slots__ = ("__array_interface__", "_tensor")

    def __init__(
        self,
        owner: Tensor,
        typestr: str,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        is_readonly: bool,
    ) -> None:
        self._tensor = owner
        self.__array_interface__ = {
            "version": 3,
            "typestr": typestr,
            "shape": tuple(shape),
            "strides": strides,
            "data": (owner.address, is_readonly),
        }

    def let_go(self) -> None:
        """Drop the tensor. Where numpy (2.4.6) gets no memory for a view, it may lose count of this object,
        which then lives on."""
        del self._tensor


def _scaled(steps: tuple[int, ...], factor: int) -> tuple[int, ...]:
    return tuple(step * factor for step in steps)


_type_words: dict[DataType, int] = {}


def _type_word(dtype: DataType) -> int:
    """Return the DLDataType as a little-endian word: code, bits, lanes."""
    bits = 8 if dtype.is_bool else dtype.bits
    word = DTYPE_CODES[dtype.code] | bits << 8 | dtype.lanes << 16
    _type_words[dtype] = word
    return word


def dtype_from_dlpack(code: int, bits: int, lanes: int) -> DataType:
    """Return the DataType of a DLDataType. Raises: IRTypeError U0302 if Heddle has no such type."""
    name = CODE_NAMES.get(code)
    if name is None:
        raise IRTypeError(U0302, f"dlpack type code {code} with {bits} bits has no equivalent")
    spelling = (
        name if name in ("bool", "handle") or name.startswith(("float4", "float8")) else f"{name}{bits}"
    )
    return DataType(spelling).with_lanes(lanes)


def make_tensor(address: int, layout: Layout, dtype: DataType, device: Device, owner: object) -> Tensor:
    """Make a tensor over memory at `address`, which `owner` keeps alive. Address and size are not checked."""
    made: Tensor = _new_object(Tensor)
    made.address = address
    made.layout = layout
    made.owner = owner
    made.dtype = dtype
    made.device = device
    made._header = _pack_header(
        address,
        device.device_type,
        device.device_id,
        len(layout.shape),
        _type_words.get(dtype) or _type_word(dtype),
        layout.shape_address,
        layout.strides_address,
        0,
    )
    return made


def storage_tensor(storage: Storage, offset_bytes: int, shape: tuple[int, ...], dtype: DataType) -> Tensor:
    """Make a tensor over a part of a storage. `offset_bytes` is where it starts.

    Raises: TrapValueError U0602 if the tensor would exceed the storage, or if a size is negative.
    """
    layout = layout_of(shape)
    end = offset_bytes + layout.num_elements * dtype.itemsize
    if end > storage.size_bytes or offset_bytes < 0 or (shape and min(shape) < 0):
        raise TrapValueError(
            U0602,
            f"a tensor of shape {tuple(shape)} and dtype {dtype} at offset {offset_bytes} does not fit: "
            f"expected at most {storage.size_bytes} bytes, got {end}",
        )
    return make_tensor(storage.address + offset_bytes, layout, dtype, storage.device, storage)


def tensor_from_bytes(data: Any, shape: Sequence[int], dtype: DataType) -> Tensor:
    """Make a host tensor over bytes in row-major order, which it keeps alive.

    Raises: TrapValueError U0301 if `data` is longer or shorter than the shape needs.
    """
    raw = np.frombuffer(data, np.uint8)
    expected = prod(shape) * dtype.itemsize
    if raw.size != expected:
        raise TrapValueError(U0301, f"shape {tuple(shape)} of {dtype} needs {expected} bytes, got {raw.size}")
    return make_tensor(array_address(raw), layout_of(tuple(shape)), dtype, cpu(0), raw)


def empty(
    shape: Sequence[int] | int,
    dtype: Any = "float32",
    device: Device | None = None,
    mem_scope: str | None = None,
) -> Tensor:
    """Return a new tensor with undefined contents, by default on the CPU. `mem_scope` must be "global", "" or
    None.

    Raises: UsageError U0202 for another memory scope or a device that cannot be reached; TrapValueError U0602
    for a negative size.
    """
    if mem_scope not in (None, "", "global"):
        raise UsageError(U0202, f"memory scope {mem_scope!r} does not exist on {device or cpu(0)}")
    element = dtype_of(dtype)
    layout = layout_of((shape,) if isinstance(shape, int) else tuple(shape))
    if layout.shape and min(layout.shape) < 0:
        raise TrapValueError(U0602, f"sizes must not be negative, got {tuple(layout.shape)}")
    return allocated(allocator_for(device if device is not None else cpu(0)), layout, element)


def allocated(allocator: Allocator, layout: Layout, dtype: DataType) -> Tensor:
    """Return a new compact tensor with undefined contents in memory of an allocator. Strides of `layout` are
    ignored.
    """
    storage = allocator.alloc(layout.num_elements * dtype.itemsize)
    return make_tensor(storage.address, layout_of(layout.shape), dtype, allocator.device, storage)


_HOST = cpu(0)
_numpy_dtypes: dict[np.dtype[Any], DataType] = {}


def tensor_from_numpy(array: np.ndarray[Any, Any], device: Device | None = None) -> Tensor:
    """Make a tensor from a numpy array. The memory is shared if the array is compact, writable, aligned to 16
    bytes and `device` is the CPU; otherwise it is copied.

    Raises: IRTypeError U0302 for an element type without an equivalent (object, str, complex, ...), and for a
    masked array.
    """
    if type(array) is not np.ndarray:
        refuse_masked(array)
    dtype = _numpy_dtypes.get(array.dtype)
    if dtype is None:
        dtype = _dtype_from_numpy(array.dtype)
    address = array_address(array)
    flags = array.flags
    where = device if device is not None else _HOST
    if not (flags.c_contiguous and flags.writeable) or address % MIN_ALIGN_BYTES or where.device_type != CPU:
        return empty(array.shape, dtype, where).copyfrom(array)
    return make_tensor(address, layout_of(array.shape), dtype, where, array)


def refuse_masked(value: Any) -> None:
    """Reject masked arrays. A tensor has no mask, so the masked values would be used as if they were valid.

    Raises: IRTypeError U0302.
    """
    masked = sys.modules.get("numpy.ma")  # if numpy.ma is not imported, there are no masked arrays
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise IRTypeError(
            U0302,
            "a masked array has no equivalent: tensors have no mask",
            help="give array.filled(value), and the mask as an array of its own where it is needed",
        )


def _dtype_from_numpy(numpy_dtype: np.dtype[Any]) -> DataType:
    if numpy_dtype.kind not in "biufV" or not numpy_dtype.isnative:
        raise IRTypeError(U0302, f"numpy dtype {numpy_dtype} has no equivalent")
    dtype = dtype_of(numpy_dtype)
    _numpy_dtypes[numpy_dtype] = dtype
    return dtype


def tensor(data: Any, device: Device | None = None, dtype: Any = None, *, copy: bool = True) -> Tensor:
    """Make a tensor from an array, a tensor, a DLPack object, a nested list or a scalar. `dtype` casts the
    values.

    With `copy=False`, memory is shared if possible (see `tensor_from_numpy`).

    Raises: IRTypeError U0302 for values whose element type has no equivalent and for masked arrays;
    UsageError U0202 for a device that cannot be reached.
    """
    if isinstance(data, Tensor):
        values = data.numpy()
    elif isinstance(data, np.ndarray) or not is_lender(data):
        refuse_masked(data)
        values = np.asarray(data)
    else:
        values = from_dlpack(data).numpy()
    wanted = dtype_of(dtype) if dtype is not None else None
    stored = values.dtype if wanted is None else _FEW_BITS.get(wanted.element) or wanted.numpy()
    if values.dtype != stored:
        values, copy = values.astype(stored), False
    if not copy:
        return tensor_from_numpy(values, device)
    made = empty(values.shape, _numpy_dtypes.get(values.dtype) or _dtype_from_numpy(values.dtype), device)
    return made.copyfrom(values)


def from_dlpack(source: Any) -> Tensor:
    """Make a tensor that shares the memory of `source`, an object with `__dlpack__` or a DLPack capsule.
    Strides are kept.

    Raises: IRTypeError U0303 if there is no usable capsule; U0302 for an unknown element type.
    """
    if isinstance(source, Tensor):
        return source
    lent = import_capsule(source)
    dtype = dtype_from_dlpack(lent.code, lent.bits, lent.lanes)
    layout = layout_of(lent.shape) if lent.strides is None else strided_layout(lent.shape, lent.strides)
    return make_tensor(lent.address, layout, dtype, Device(lent.device_type, lent.device_id), lent.owner)
