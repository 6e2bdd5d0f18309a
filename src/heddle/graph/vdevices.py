"""Virtual devices: their text form, and their mapping to the machine's devices.

A module lists its virtual devices in `global_infos["vdevice"]`. Number k of that list is the machine's
`devices[k]`, whose allocator provides the storages for tensors on it. The text form is `"llvm"`, `"llvm:1"`
(the second llvm device of the module) or `"llvm:1:global"`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from heddle.graph.codes import R0207
from heddle.graph.types import TensorType, VDevice
from heddle.ir.expr import Expr
from heddle.ir.module import IRModule
from heddle.ir.structural import structural_equal
from heddle.ir.types import TupleType, Type
from heddle.runtime.device import CPU, Device
from heddle.support.diagnostics import IRTypeError
from heddle.support.span import Span

LISTED = "vdevice"
"""The key of a module's virtual devices among its global infos."""


def listed(mod: IRModule | None) -> tuple[VDevice, ...]:
    """The virtual devices of a module."""
    return tuple(mod.global_infos.get(LISTED, ())) if mod is not None else ()


def with_listed(mod: IRModule, devices: Sequence[VDevice]) -> IRModule:
    """The module with some virtual devices added to its list where they are missing."""
    known = list(listed(mod))
    for wanted in devices:
        if not any(structural_equal(wanted, other) for other in known):
            known.append(wanted)
    return mod if len(known) == len(listed(mod)) else mod.with_global_info(LISTED, known)


def vdevice_of(value: Any, known: Sequence[VDevice] = (), scope: str = "global") -> VDevice:
    """The virtual device that a VDevice, a Device or a text means; `known` are those that text may name.

    Raises: IRTypeError R0207 for a text that names none.
    """
    if isinstance(value, VDevice):
        return value
    if isinstance(value, Device):
        made = VDevice("llvm" if value.device_type == CPU else value.type, value.device_id, scope)
        same = (item for item in known if item.device == value and item.memory_scope == scope)
        return next(same, made)
    if isinstance(value, str):
        return _named(value, known)
    raise IRTypeError(R0207, f"expected a virtual device, got {type(value).__name__}")


def _named(text: str, known: Sequence[VDevice]) -> VDevice:
    kind, _, rest = text.partition(":")
    number, _, scope = rest.partition(":")
    if not kind or not (number or "0").isdecimal():
        raise IRTypeError(R0207, f"{text!r} names no virtual device", help='write it as "llvm:1"')
    index = int(number or "0")
    if not known:
        return VDevice(kind, index, scope or "global")
    of_kind = [item for item in known if item.kind == kind and (not scope or item.memory_scope == scope)]
    if index >= len(of_kind):
        raise IRTypeError(
            R0207,
            f"{text!r} names no virtual device of the module: there are {len(of_kind)} of kind {kind!r}",
            help='list it in I.module_global_infos({"vdevice": [...]})',
        )
    return of_kind[index]


def device_index(mod: IRModule | None, vdevice: VDevice | None) -> int:
    """The number of the machine's device that a virtual device means; tensors of no device are on the first.

    Raises: IRTypeError R0207 for one that the module does not list.
    """
    if vdevice is None:
        return 0
    for number, item in enumerate(listed(mod)):
        if structural_equal(item, vdevice):
            return number
    raise IRTypeError(
        R0207, f"virtual device {vdevice} is not listed in the module", help="run RealizeVDevice first"
    )


def tensor_types(ty: Type | None) -> Iterator[TensorType]:
    """The tensors of a type, in order."""
    if isinstance(ty, TensorType):
        yield ty
    elif isinstance(ty, TupleType):
        for item in ty.fields:
            yield from tensor_types(item)


def on_device(ty: Type, vdevice: VDevice | None) -> Type:
    """A type with its tensors put on a device, but those that have one."""
    if isinstance(ty, TensorType) and ty.vdevice is None:
        return TensorType(ty.shape, ty.dtype, vdevice, ty.ndim)
    if isinstance(ty, TupleType):
        return TupleType(tuple(on_device(item, vdevice) for item in ty.fields))
    return ty


def common_device(args: Sequence[Expr], span: Span | None = None) -> VDevice | None:
    """The device that the tensors among some arguments are on; None where no type says it.

    Raises: IRTypeError R0207 where they are on several.
    """
    found: VDevice | None = None
    for arg in args:
        for ty in tensor_types(getattr(arg, "ty", None)):
            if ty.vdevice is None or (found is not None and structural_equal(found, ty.vdevice)):
                continue
            if found is not None:
                raise IRTypeError(
                    R0207,
                    f"operands are on different devices: {found} and {ty.vdevice}",
                    span=span,
                    help="copy one of them with R.to_vdevice",
                )
            found = ty.vdevice
    return found
