"""Looking at values: what checks and branches of programs ask."""

from heddle.runtime.dtype import DTYPE_CODES
from heddle.runtime.native.abi import Counted, DLTensor, HostObject, Kind, Value
from heddle.runtime.native.source.values import element_bytes, head_of, payload_of, sizes_of
from heddle.systems.types import Pointer, i32, i64, u8, u16, u32, u64
from heddle.systems.words import address, cast, export

UNKNOWN = -1
DL_INT = DTYPE_CODES["int"]
DL_UINT = DTYPE_CODES["uint"]
DL_BOOL = DTYPE_CODES["bool"]


@export
def heddle_sizes(value: Pointer[Value], sizes: Pointer[Pointer[i64]]) -> i64:
    """The number of sizes of a tensor or shape, their address to `sizes`; UNKNOWN for something else."""
    if value.kind == Kind.TENSOR:
        tensor = cast(Pointer[DLTensor], payload_of(value))
        sizes.value = tensor.sizes
        return i64(tensor.rank)
    if value.kind == Kind.SHAPE:
        shape = cast(Pointer[Counted], payload_of(value))
        sizes.value = sizes_of(shape)
        return shape.count
    return UNKNOWN


@export
def heddle_condition(value: Pointer[Value]) -> i32:
    """The truth of an int, bool, or only element of an int or bool tensor: 0 or 1; UNKNOWN where the host has
    to say."""
    kind = value.kind
    if kind == Kind.INT or kind == Kind.BOOL:
        return i32(value.payload != 0)
    if kind != Kind.TENSOR:
        return UNKNOWN
    tensor = cast(Pointer[DLTensor], payload_of(value))
    if tensor.rank != 0:
        return UNKNOWN
    code = tensor.dtype & 255
    if code != DL_INT and code != DL_UINT and code != DL_BOOL:
        return UNKNOWN
    width = element_bytes(tensor.dtype)
    if width == 1:
        return i32(cast(Pointer[u8], tensor.data).value != 0)
    if width == 2:
        return i32(cast(Pointer[u16], tensor.data).value != 0)
    if width == 4:
        return i32(cast(Pointer[u32], tensor.data).value != 0)
    return i32(cast(Pointer[u64], tensor.data).value != 0) if width == 8 else UNKNOWN


@export
def heddle_kind_of(value: Pointer[Value]) -> i64:
    """What an error message names as got: a value's kind, or the type of a foreign object."""
    if value.kind != Kind.FOREIGN:
        return i64(value.kind)
    found = cast(Pointer[HostObject], head_of(payload_of(value)).owner)
    return i64(address(found.type))
