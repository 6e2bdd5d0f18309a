"""The calling convention of compiled kernels, and the intrinsics that read it.

A kernel is `int32 kernel(args, nargs)`; the linker knows it by `kernel_symbol` (runtime) of its name.
`args` points to values of 16 bytes: the kind (int32), zero (int32), the payload (8 bytes). A tensor's payload
points to a DLPack `DLTensor`. The result is 0, or -1 after `heddle_set_error`.

In a message of `heddle_set_error`, `%e` and `%g` stand for the numbers expected and got, `%t` for the dtype
packed in the number got, `%k` for the value kind that it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heddle.ir.expr import Expr, StringImm
from heddle.ir.op import OP_RECORDS, Op
from heddle.prim.intrinsics import PURE, RAW_MEMORY, READS, SAFE, Intrinsic
from heddle.prim.nodes import Call, PrimExpr
from heddle.prim.ops import const
from heddle.prim.signatures import Signature
from heddle.runtime.dtype import DataType
from heddle.runtime.native.abi import DLTensor, Value
from heddle.support.frozen import frozen

VALUE_SIZE_BYTES = Value.layout.size_bytes
PAYLOAD_OFFSET_BYTES = Value.layout.fields["payload"].offset_bytes
"""Where a value's payload starts; its kind is at 0."""
BODY_SUFFIX = "__body"
"""The unchecked inner function of kernel `f` is called `f.body`."""
CALLING_CONV = "calling_conv"
"""The function attribute that says how a lowered function is called: "packed" or "body"."""


@frozen
class TensorField:
    """A field of `DLTensor`: its place and dtype; `per_dim` fields point to one int64 a dimension."""

    offset_bytes: int
    dtype: str
    per_dim: bool = False


def _field(name: str, dtype: str, per_dim: bool = False) -> TensorField:
    return TensorField(DLTensor.layout.fields[name].offset_bytes, dtype, per_dim)


TENSOR_FIELDS: dict[str, TensorField] = {
    "data": _field("data", "handle"),
    "device_type": _field("device_type", "int32"),
    "ndim": _field("rank", "int32"),
    "dtype": _field("dtype", "int32"),
    "dtype_and_ndim": _field("rank", "int64"),
    "shape": _field("sizes", "int64", per_dim=True),
    "strides": _field("strides", "int64", per_dim=True),
    "stride_array": _field("strides", "handle"),
    "byte_offset": _field("byte_offset", "int64"),
}


def _declare(name: str, signature: Signature, effect: str, meaning: str) -> None:
    OP_RECORDS.add(name, Intrinsic(name, signature, effect, None, meaning, RAW_MEMORY))


_declare(
    "tir.arg_kind",
    Signature(("pointer", "literal"), None, "int32"),
    READS,
    "the kind of a kernel argument: args, index",
)
_declare(
    "tir.arg_value", Signature(("pointer", "literal")), READS, "the payload of a kernel argument: args, index"
)
_declare(
    "tir.tensor_field",
    Signature(("pointer", "text", "literal")),
    READS,
    "a field of a DLTensor: tensor, name, dimension",
)
_declare(
    "tir.tensor_has_strides",
    Signature(("pointer",), None, "bool"),
    READS,
    "whether a DLTensor has a stride array",
)
_declare(
    "tir.tensor_begin",
    Signature(("pointer",), None, "handle"),
    READS,
    "the address of a DLTensor's first element",
)
_declare(
    "tir.check_args",
    Signature(("pointer", "index", "text"), "literal", "int32"),
    READS,
    "0, or -1 after an error: args, count, names, table of `ArgTable`",
)
_declare("tir.pointer_bits", Signature(("pointer",), None, "int64"), PURE, "an address as int64")
OP_RECORDS.add(
    "tir.any_lane",
    Intrinsic(
        "tir.any_lane",
        Signature(("bools",), None, "bool"),
        PURE,
        lambda mask: np.any(mask),
        "whether some lane of a bool vector is set",
        SAFE,
    ),
)


def _call(dtype: str, name: str, *args: Expr) -> PrimExpr:
    return Call(DataType(dtype), Op.get(name), args)


def arg_kind(args: PrimExpr, index: int) -> PrimExpr:
    """The kind of argument number `index` of a packed call, int32."""
    return _call("int32", "tir.arg_kind", args, const(index))


def arg_value(args: PrimExpr, index: int, dtype: str) -> PrimExpr:
    """The payload read as int64, float64 or handle."""
    return _call(dtype, "tir.arg_value", args, const(index))


def tensor_field(tensor: PrimExpr, name: str, dim: int = 0) -> PrimExpr:
    """A field of `TENSOR_FIELDS`; `dim` picks the dimension of shape and strides."""
    return _call(TENSOR_FIELDS[name].dtype, "tir.tensor_field", tensor, StringImm(name), const(dim))


def tensor_has_strides(tensor: PrimExpr) -> PrimExpr:
    """Whether a tensor states strides."""
    return _call("bool", "tir.tensor_has_strides", tensor)


def tensor_begin(tensor: PrimExpr) -> PrimExpr:
    """`data` moved by `byte_offset`."""
    return _call("handle", "tir.tensor_begin", tensor)


def check_args(args: PrimExpr, count: PrimExpr, names: Sequence[str], table: Sequence[int]) -> PrimExpr:
    """Have the native library check all arguments: int32, 0 where they are right. `table` is an `ArgTable`
    with what follows it, `names` are those of its messages."""
    words = (const(word, "int64") for word in table)
    return _call("int32", "tir.check_args", args, count, StringImm("\0".join(names)), *words)


def pointer_bits(pointer: PrimExpr) -> PrimExpr:
    """An address as int64."""
    return _call("int64", "tir.pointer_bits", pointer)


def any_lane(mask: PrimExpr) -> PrimExpr:
    """Whether a lane of a mask is true."""
    return _call("bool", "tir.any_lane", mask)
