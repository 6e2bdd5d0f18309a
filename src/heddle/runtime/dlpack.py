"""The DLPack protocol: make capsules, and take the raw parts out of capsules. The public functions are in
`tensor.py`.
"""

from __future__ import annotations

import ctypes
from typing import Any

from heddle.runtime.codes import U0303
from heddle.support.collection import unseen
from heddle.support.diagnostics import IRTypeError
from heddle.support.frozen import frozen

_FRESH, _USED = b"dltensor", b"used_dltensor"
_FRESH_VERSIONED, _USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"


class DLTensor(ctypes.Structure):
    """The header of a tensor, as the C struct of DLPack."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


def _api(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_capsule_new = _api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_capsule_is = _api("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_capsule_get = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_capsule_rename = _api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# The destructor gets an object that is being freed. It must not be turned into a Python reference.
_dying_capsule_is = _api("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_dying_capsule_get = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)

_on_loan: dict[int, tuple[_Managed | _ManagedVersioned, object]] = {}


def _return_loan(address: int, loans: dict[int, Any] = _on_loan) -> None:
    loans.pop(address, None)


def _drop_unconsumed(
    capsule: int,
    kinds: tuple[bytes, ...] = (_FRESH, _FRESH_VERSIONED),
    is_kind: Any = _dying_capsule_is,
    address_in: Any = _dying_capsule_get,
    return_loan: Any = _return_loan,
) -> None:
    for fresh in kinds:
        if is_kind(capsule, fresh):
            return_loan(address_in(capsule, fresh))


_deleter = _Deleter(_return_loan)
_destructor = _Destructor(_drop_unconsumed)
# Consumers may call the deleter at interpreter exit, when this module's globals are already cleared. So the
# deleter
# is kept alive, and all that it needs is bound to it.
for _kept in (_on_loan, _deleter, _destructor):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


def export_capsule(header_address: int, owner: object, versioned: bool = False) -> Any:
    """Return a capsule that holds a copy of a DLTensor. The capsule is named `dltensor_versioned` (DLPack
    1.0, writable) if `versioned`, else `dltensor`. `owner` lives until the consumer calls the deleter.
    """
    managed = _ManagedVersioned(major=1) if versioned else _Managed()
    managed.tensor = DLTensor.from_address(header_address)
    managed.context, managed.deleter = None, _deleter
    address = ctypes.addressof(managed)
    _on_loan[address] = (managed, owner)
    return _capsule_new(address, _FRESH_VERSIONED if versioned else _FRESH, _destructor)


class _Borrowed:
    """Memory borrowed from another library. Its deleter is called when this object dies."""

    __slots__ = ("_address", "_capsule", "_deleter")

    def __init__(self, address: int, deleter: Any, capsule: Any) -> None:
        self._address, self._deleter, self._capsule = address, deleter, capsule

    def __del__(self) -> None:
        if self._deleter:
            self._deleter(self._address)


def _consume(capsule: Any) -> tuple[DLTensor, object]:
    """Return the DLTensor of a capsule, and the object that must live as long as its memory is used."""
    for fresh, used, kind in (
        (_FRESH, _USED, _Managed),
        (_FRESH_VERSIONED, _USED_VERSIONED, _ManagedVersioned),
    ):
        if _capsule_is(capsule, fresh):
            address = _capsule_get(capsule, fresh)
            managed = kind.from_address(address)
            _capsule_rename(capsule, used)
            return managed.tensor, unseen(_Borrowed(address, managed.deleter, capsule))
    raise IRTypeError(
        U0303, "expected a fresh dlpack capsule, got one that was consumed or is of another kind"
    )


@frozen
class Lent:
    """The contents of a capsule. `strides` are in elements. `owner` must live as long as the memory is
    used.
    """

    address: int
    code: int
    bits: int
    lanes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device_type: int
    device_id: int
    owner: object


def is_lender(value: Any) -> bool:
    """Whether a value is a tensor of any library that implements `__dlpack__`. Classes, which have the method
    too, are excluded.
    """
    return hasattr(value, "__dlpack__") and not isinstance(value, type)


def import_capsule(source: Any) -> Lent:
    """Take over the memory of an object with `__dlpack__`, or of a capsule.

    Raises: IRTypeError U0303 where there is no usable capsule.
    """
    if is_lender(source):
        try:
            capsule = source.__dlpack__()
        except BufferError as error:  # memory that must not be written, or that is nobody's to lend
            raise IRTypeError(U0303, f"the producer lends nothing: {error}") from error
    elif type(source).__name__ == "PyCapsule":
        capsule = source
    else:
        raise IRTypeError(U0303, f"expected an object with __dlpack__, got {type(source).__name__}")
    raw, borrowed = _consume(capsule)
    shape = tuple(raw.shape[: raw.ndim]) if raw.ndim else ()
    strides = tuple(raw.strides[: raw.ndim]) if raw.strides and raw.ndim else None
    return Lent(
        (raw.data or 0) + raw.byte_offset,
        raw.code,
        raw.bits,
        raw.lanes,
        shape,
        strides,
        raw.device_type,
        raw.device_id,
        borrowed,
    )
