"""Looking at values: what checks and branches of programs ask."""

from heddle.runtime.native.abi import Counted, DLTensor, HostObject, Kind, Value
from heddle.runtime.native.source.values import element_bytes, head_of, payload_of, sizes_of
from heddle.systems.types import Address, Pointer, i32, i64, u8, u16, u32, u64
from heddle.systems.words import address, cast, export, inline

UNKNOWN = -1
DL_INT = 0  # DLPack's codes of dtypes
DL_UINT = 1
DL_BOOL = 6


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


@inline
def integer_at(data: Address, width: i64) -> u64:
    if width == 1:
        return u64(cast(Pointer[u8], data).value)
    if width == 2:
        return u64(cast(Pointer[u16], data).value)
    if width == 4:
        return u64(cast(Pointer[u32], data).value)
    return cast(Pointer[u64], data).value


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
    width = element_bytes(tensor.dtype)
    is_known = (code == DL_INT) | (code == DL_UINT) | (code == DL_BOOL)
    if not is_known or width > 8 or width & width - 1 != 0 or width == 0:
        return UNKNOWN
    return i32(integer_at(tensor.data, width) != 0)


@export
def heddle_kind_of(value: Pointer[Value]) -> i64:
    """What an error message names as got: a value's kind, or the type of a foreign object."""
    if value.kind != Kind.FOREIGN:
        return i64(value.kind)
    found = cast(Pointer[HostObject], head_of(payload_of(value)).owner)
    return i64(address(found.type))
