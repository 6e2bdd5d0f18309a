"""What the instructions of the Relay machine do with values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from heddle.runtime.data import ConstructorValue
from heddle.runtime.device import Device
from heddle.runtime.dtype import DataType
from heddle.runtime.shape import Array, Shape
from heddle.runtime.storage import Allocator
from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import Trap, TrapTypeError, TrapValueError
from heddle.vm.builtins import closures, data, memory, tensors, tuples
from heddle.vm.codes import V0402, V0406, V0411
from heddle.vm.frames import integer_of


def sizes_of(value: Any) -> Shape:
    """The sizes that a shape is, or a tensor of int32 or int64 of rank 1; one of rank 0 says that there are
    none. Raises: TrapTypeError V0402."""
    if type(value) is Shape:
        return value
    if isinstance(value, Tensor) and value.ndim <= 1 and value.dtype in ("int32", "int64"):
        return Shape(value.numpy().tolist()) if value.ndim else Shape()
    raise TrapTypeError(V0402, f"expected sizes, got {_named(value)}")


def _named(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and dtype {value.dtype}"
    return type(value).__name__


def count_of(value: Any) -> Shape:
    """A number of elements as sizes whose product it is."""
    return value if type(value) is Shape else Shape((integer_of(value),))


def items_of(sizes: Sequence[Any]) -> list[Any]:
    """The items of shapes and tuples, one after the other. Raises: TrapTypeError V0402 for other values."""
    for value in sizes:
        if not isinstance(value, (Shape, Array)):
            raise TrapTypeError(V0402, f"expected sizes, got {_named(value)}")
    return [item for value in sizes for item in value]


def alloc_tensor(shape: Shape, dtype: DataType) -> Callable[[Any, Any], Tensor]:
    """What places a tensor of known sizes on a storage, at a number of bytes."""
    return lambda storage, place: memory.alloc_tensor(storage, integer_of(place), shape, dtype)


def alloc_tensor_reg(dtype: DataType) -> Callable[[Any, Any, Any], Tensor]:
    """What places a tensor on a storage, at a number of bytes."""
    return lambda storage, place, shape: memory.alloc_tensor(
        storage, integer_of(place), sizes_of(shape), dtype
    )


def alloc_adt(tag: int) -> Callable[..., Any]:
    """What makes a value of its fields: a tuple for the tag 0."""
    return tuples.make_tuple if tag == 0 else lambda *fields: ConstructorValue(tag, fields)


def alloc_closure(function: Any) -> Callable[..., Any]:
    """What binds the last arguments of a function."""
    return lambda *bound: closures.make_closure(function, *bound) if bound else function


def get_field(index: int) -> Callable[[Any], Any]:
    """What takes a field of a tuple or of a value of a data type. Raises: TrapTypeError V0402,
    TrapIndexError V0404."""

    def field(value: Any) -> Any:
        if type(value) is ConstructorValue:
            return data.get_field(value, index)
        return tuples.tuple_getitem(value, index)

    return field


def get_tag(value: Any) -> int:
    """Raises: TrapTypeError V0402 for what is no tuple or value of a data type."""
    if not isinstance(value, (ConstructorValue, Array)):
        raise TrapTypeError(V0402, f"expected a value of a data type, got {type(value).__name__}")
    return value.tag


def fatal() -> NoReturn:
    """Raises: Trap V0411."""
    help = "match? leaves cases out: add clauses for them"
    raise Trap(V0411, "no clause of the match fits the value", help=help)


def reshape_tensor(tensor: Any, shape: Any) -> Tensor:
    """A view with other sizes. Raises: TrapTypeError V0402, TrapValueError V0403."""
    return tensors.reshape(_tensor(tensor), sizes_of(shape))


def device_copy(
    devices: Sequence[Device], allocators: Sequence[Allocator], source: int, target: int
) -> Callable[[Any], Tensor]:
    """What copies a tensor from one of a machine's devices to another. Raises: TrapValueError V0406 for a
    device that there is not, or that the tensor is not on; TrapTypeError V0402."""

    def copy(value: Any) -> Tensor:
        given = _tensor(value)
        if max(source, target) >= len(devices):
            raise TrapValueError(V0406, f"there are {len(devices)} devices, no device {max(source, target)}")
        if given.device != devices[source]:
            raise TrapValueError(V0406, f"expected a tensor on {devices[source]}, got one on {given.device}")
        return given.copyto(allocators[target])

    return copy


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise TrapTypeError(V0402, f"expected a tensor, got {type(value).__name__}")
    return value
