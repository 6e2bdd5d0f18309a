"""What an intrinsic takes and gives: one row for each, against which every call is checked as it is built.

| form of an argument | it is |
|---|---|
| float, integer | a scalar or vector of that kind, of the call's dtype |
| bits | of integers or bools, of the call's dtype |
| number | of floats or integers, of the call's dtype |
| real | a float or float vector, of any dtype |
| bool | of bools, of the call's dtype |
| condition | a bool; a vector has the call's lanes, one lane serves for all |
| bools | a bool or a vector of them |
| same | an expression of the call's dtype |
| position | int64; a vector has the call's lanes, one lane serves for all |
| count | int32, in the call's lanes |
| index | an integer |
| pointer | a handle |
| value | any expression |
| operand | any expression, or a string |
| element | an element of a buffer, by name |
| text | a string |
| literal | an integer constant |
| node | anything |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from heddle.ir.expr import StringImm
from heddle.prim.codes import K0108
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError
from heddle.support.frozen import frozen

_KINDS: dict[str, Callable[[DataType], bool]] = {
    "float": lambda dtype: dtype.is_float,
    "integer": lambda dtype: dtype.is_int,
    "bits": lambda dtype: dtype.is_int or dtype.is_bool,
    "bool": lambda dtype: dtype.is_bool,
    "number": lambda dtype: dtype.is_float or dtype.is_int,
}
"""Forms of operands that have the call's dtype."""


def _fits_lanes(dtype: DataType, call: DataType) -> bool:
    return dtype.is_bool and dtype.lanes in (1, call.lanes)


_OF_DTYPE: dict[str, Callable[[DataType, DataType], bool]] = {
    "bools": lambda own, call: own.is_bool,
    "position": lambda own, call: own.element == "int64" and own.lanes in (1, call.lanes),
    "real": lambda own, call: own.is_float,
    "condition": _fits_lanes,
    "same": lambda own, call: own == call,
    "count": lambda own, call: own == DataType("int32").with_lanes(call.lanes),
    "index": lambda own, call: own.is_int,
    "pointer": lambda own, call: own.is_handle,
    "value": lambda own, call: True,
}
"""Form → whether an expression of a dtype has it in a call of another."""


def _has_form(form: str, arg: Any, call: DataType) -> bool:
    if form == "node":
        return True
    if form == "text":
        return isinstance(arg, StringImm)
    if form == "operand":
        return isinstance(arg, StringImm) or isinstance(getattr(arg, "dtype", None), DataType)
    own = getattr(arg, "dtype", None)
    if not isinstance(own, DataType) or isinstance(arg, StringImm):
        return False
    if form == "literal":
        return isinstance(getattr(arg, "value", None), int)
    if form == "element":
        return hasattr(arg, "buffer")
    if form in _KINDS:
        return own == call and _KINDS[form](own)
    return _OF_DTYPE[form](own, call)


@frozen
class Signature:
    """Forms of the arguments, in order, and of those that may follow. `result` says what the call's dtype is:
    "" where the arguments say it, or nothing does; a dtype's name; "int64s" for int64 in any lanes, "bools"
    for bool in the first argument's; "bits" for as many bits as the first argument has, of types whose bits
    are the same in registers and in memory."""

    args: tuple[str, ...]
    rest: str | None = None
    result: str = ""


def _stored_bits(dtype: DataType) -> int:
    """Of all lanes, where a value's bits in a register are those in memory; else 0."""
    if dtype.is_bool or (dtype.is_int and dtype.bits < 8):
        return 0
    return max(dtype.bits, 8) * dtype.lanes


def _same_bits(source: DataType, target: DataType) -> bool:
    """Addresses are as many bits as an integer."""
    if source.is_handle != target.is_handle and not (source.is_int or target.is_int):
        return False
    if source.bits < 8 and not (source.is_bool or target.is_bool):
        return source.bits == target.bits and source.lanes == target.lanes
    return _stored_bits(source) == _stored_bits(target) != 0


def _result_fits(result: str, dtype: DataType, args: Sequence[Any]) -> bool:
    if not result:
        return True
    if result == "bools":
        return dtype == DataType("bool").with_lanes(args[0].dtype.lanes)
    if result == "int64s":
        return bool(dtype.element == "int64")
    if result == "bits":
        return _same_bits(args[0].dtype, dtype)
    return dtype == result


def check_call(name: str, signature: Signature, dtype: DataType, args: Sequence[Any], span: Any) -> None:
    """Raises: IRTypeError K0108 for arguments that the intrinsic does not take, or a dtype that it lacks."""
    wanted = (
        *signature.args,
        *([signature.rest] * (len(args) - len(signature.args)) if signature.rest else ()),
    )
    if len(wanted) != len(args):
        least = "at least " if signature.rest else ""
        raise IRTypeError(
            K0108, f"{name}: expected {least}{len(signature.args)} arguments, got {len(args)}", span=span
        )
    for number, (form, arg) in enumerate(zip(wanted, args, strict=True)):
        if not _has_form(form, arg, dtype):
            told = getattr(arg, "dtype", None) or type(arg).__name__
            raise IRTypeError(
                K0108,
                f"{name}: argument {number} of a call that gives {dtype}: expected {form}, got {told}",
                span=span,
            )
    if not _result_fits(signature.result, dtype, args):
        raise IRTypeError(
            K0108, f"{name} of {args[0] if args else 'nothing'} does not give {dtype}", span=span
        )
