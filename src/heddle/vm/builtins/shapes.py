"""Builtins for symbolic shapes at run time: the shape heap, matching shapes against it, and making shapes
from it.

The heap is a 1-D int64 tensor on the host. Programs without symbolic sizes have None instead. Dimensions are
matched from left to right; values that were stored before a failure stay. Each dimension has a code and an
operand:

    match: 0 must equal the operand; 1 store to heap[operand]; 2 nothing; 3 must equal heap[operand]
    make:  0 the operand itself; 1 heap[operand]
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from heddle.runtime.dtype import DataType
from heddle.runtime.layout import layout_of
from heddle.runtime.native.abi import MakeCode, MatchCode
from heddle.runtime.shape import Shape
from heddle.runtime.tensor import Tensor, make_tensor
from heddle.support.diagnostics import Trap, TrapIndexError, TrapTypeError
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0401, V0402, V0408
from heddle.vm.placement import NO_MEMORY, MachineMemory

_EQUALS_IMM, _EQUALS_HEAP = MatchCode.EQUALS_IMM.value, MatchCode.EQUALS_HEAP.value
_STORE, _NOTHING = MatchCode.STORE.value, MatchCode.NOTHING.value
_USE_IMM, _LOAD = MakeCode.USE_IMM.value, MakeCode.LOAD.value
_heap_types: set[type] = set()
_INT64 = DataType("int64")


def heap_view(heap: Tensor | None) -> Any:
    """Return the heap as an object that is indexable by int. A heap that `alloc_shape_heap` made has it as
    its owner."""
    if heap is None:
        return None
    owner = getattr(heap, "owner", None)
    if type(owner) in _heap_types:
        return owner
    if not isinstance(heap, Tensor) or heap.ndim != 1 or heap.dtype != _INT64:
        raise TrapTypeError(V0402, f"expected a shape heap, got {type(heap).__name__}")
    return heap.numpy().data


def _checked(heap: Any, slot: int) -> int:
    """Check that the heap has a slot, and return its number. Raises: TrapTypeError V0402 without a heap,
    TrapIndexError V0408."""
    if heap is None:
        raise TrapTypeError(V0402, "expected a shape heap, got NoneType")
    if not 0 <= slot < len(heap):
        raise TrapIndexError(V0408, f"shape heap has no slot {slot}: it has {len(heap)} slots")
    return slot


def _heap_type(size: int) -> type[ctypes.Array[ctypes.c_int64]]:
    made = ctypes.c_int64 * max(size, 1)
    _heap_types.add(made)
    return made


@builtin("alloc_shape_heap")
def alloc_shape_heap(vm: Any, size: int) -> Tensor:
    """Allocate a shape heap of `size` zeros on the host."""
    memory = _heap_type(size)()
    return make_tensor(ctypes.addressof(memory), layout_of((size,)), _INT64, vm.host_device, memory)


def _match(value: int, heap: Any, code: int, operand: int, axis: int | None, context: str) -> None:
    if code == _STORE:
        heap[_checked(heap, operand)] = value
    elif code in (_EQUALS_IMM, _EQUALS_HEAP):
        expected = operand if code == _EQUALS_IMM else heap[_checked(heap, operand)]
        if value != expected:
            what = "value" if axis is None else f"size of dimension {axis}"
            raise Trap(V0401, f"{context} match_cast error: {what}: expected {expected}, got {value}")
    elif code != _NOTHING:
        raise Trap(V0408, f"{context} match code {code} does not exist")


@builtin("match_shape")
def match_shape(value: Tensor | Shape, heap: Tensor | None, rank: int, *rest: Any) -> None:
    """Match the sizes of a tensor or Shape. `rest` holds code and operand of each dimension, then the text
    for errors.

    Raises: Trap V0401 ("match_cast error", "shape size mismatch").
    """
    context = rest[-1]
    if isinstance(value, Tensor):
        shape = value.layout.shape
    elif isinstance(value, Shape):
        shape = value
    else:
        raise TrapTypeError(V0402, f"{context} expected a tensor or shape, got {type(value).__name__}")
    if len(shape) != rank:
        raise Trap(
            V0401, f"{context} match_cast error: shape size mismatch: expected {rank} sizes, got {len(shape)}"
        )
    if len(rest) != 2 * rank + 1:
        raise Trap(
            V0408, f"match_shape: expected {rank} pairs of code and operand, got {len(rest) - 1} words"
        )
    view = heap_view(heap)
    for axis, size in enumerate(shape):
        _match(size, view, rest[2 * axis], rest[2 * axis + 1], axis, context)


@builtin("make_shape")
def make_shape(heap: Tensor | None, rank: int, *rest: int) -> Shape:
    """Make a Shape from immediates and heap slots; `rest` holds code and operand of each dimension."""
    view = heap_view(heap)
    if len(rest) != 2 * rank:
        raise Trap(V0408, f"make_shape: expected {rank} pairs of code and operand, got {len(rest)} words")
    sizes = []
    for at in range(0, 2 * rank, 2):
        code, operand = rest[at], rest[at + 1]
        if code not in (_USE_IMM, _LOAD):
            raise Trap(V0408, f"make_shape: code {code} does not exist")
        sizes.append(view[_checked(view, operand)] if code == _LOAD else operand)
    return tuple.__new__(Shape, sizes)  # already ints: skips the checks of Shape's constructor


@builtin("match_prim_value")
def match_prim_value(value: int, heap: Tensor | None, code: int, operand: int, context: str) -> None:
    """Match one integer. Raises: Trap V0401 ("match_cast error")."""
    if not isinstance(value, int):
        raise TrapTypeError(V0402, f"{context} expected an integer, got {type(value).__name__}")
    _match(int(value), heap_view(heap), code, operand, None, context)


@builtin("make_prim_value")
def make_prim_value(heap: Tensor | None, code: int, operand: int) -> int:
    """Return one integer, from the operand or from the heap."""
    if code not in (_USE_IMM, _LOAD):
        raise Trap(V0408, f"make_prim_value: code {code} does not exist")
    view = heap_view(heap)
    value: int = view[_checked(view, operand)] if code == _LOAD else operand
    return value


@builtin("shape_of")
def shape_of(tensor: Tensor) -> Shape:
    """Return the shape of a tensor."""
    return tensor.layout.shape


@builtin("tensor_to_shape")
def tensor_to_shape(source: Tensor) -> Shape:
    """Convert a 1-D tensor of int16, int32 or int64 to a Shape. Raises: TrapTypeError V0402 for another
    tensor."""
    if source.ndim != 1 or source.dtype not in ("int16", "int32", "int64"):
        raise TrapTypeError(
            V0402,
            "a shape is made from a 1-D int16, int32 or int64 tensor, got "
            f"ndim {source.ndim} and dtype {source.dtype}",
        )
    return Shape(source.numpy().tolist())


@builtin("shape_to_tensor", allocates=True)
def shape_to_tensor(shape: Shape, *, memory: MachineMemory = NO_MEMORY) -> Tensor:
    """Convert a Shape to a 1-D int64 tensor on cpu(0). Raises: TrapTypeError V0402 for another value."""
    if not isinstance(shape, Shape):
        raise TrapTypeError(V0402, f"expected a shape, got {type(shape).__name__}")
    return memory.tensor_of(np.asarray(shape, dtype=np.int64))


@builtin("prim_value_of_bits")
def prim_value_of_bits(bits: int, dtype: DataType) -> bool | float:
    """Convert an int64 from the heap to a bool or float: 0 is False; a float is stored as the bits of a
    float64."""
    if dtype.is_bool:
        return bits != 0
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value
