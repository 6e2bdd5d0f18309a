"""The devices of a Relay program's values, for the shared normal form.

    let %z = exp(%x);                                                  z = R.exp(x)     # both on llvm:1
    add(device_copy(%z, ... dst_virtual_device="cpu(0)"), %y)    →     lv = R.to_vdevice(z, llvm:0)
                                                                       R.add(lv, y)

PlanDevices says where values are; here the types say it: of parameters and results, of what is read from data
types and references, of constants where they are read, and of what is made of no tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.graph.infer import infer, type_of
from heddle.graph.types import TensorType, VDevice
from heddle.graph.vdevices import device_index, on_device, tensor_types, with_listed
from heddle.graph.virtual_device import VirtualDevice, virtual_device
from heddle.ir.attrs import attrs_of
from heddle.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, is_relay
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.op import Op
from heddle.ir.types import FuncType, TupleType, Type
from heddle.lower.codes import L0307
from heddle.lower.known_sizes import SizeLowering
from heddle.lower.relay_plan_devices import DevicePlan, PlanDevices
from heddle.relay.op import PARAM_DEVICES, RESULT_DEVICE
from heddle.runtime.device import cpu
from heddle.support.diagnostics import UsageError
from heddle.vm.builtins.memory import PLAIN_SCOPES
from heddle.vm.program_devices import PARAM_DEVICES as MADE_PARAM_DEVICES

COPY = "device_copy"
DEVICE_ATTRS = (PARAM_DEVICES, RESULT_DEVICE)
_DEFAULT = VirtualDevice(cpu(0), span=None)


def plan_devices(mod: IRModule) -> IRModule:
    """The module with copies between devices, where annotations say something about devices. Raises: as
    PlanDevices."""
    return PlanDevices(_DEFAULT)(mod)


def plan_of(mod: IRModule) -> DevicePlan | None:
    """Where the values of a planned module with types are; None where nothing is said about devices."""
    functions = (func for func in mod.functions.values() if is_relay(func))
    is_planned = any(RESULT_DEVICE in func.attrs for func in functions)
    return DevicePlan(mod, _DEFAULT) if is_planned else None


def with_devices(mod: IRModule, plan: DevicePlan | None) -> IRModule:
    """The module with its devices listed, the first CPU first. Raises: UsageError L0307 for memory scopes."""
    if plan is None:
        return mod
    devices = plan.devices()
    for place in devices:
        if place.memory_scope not in PLAIN_SCOPES:
            raise UsageError(
                L0307, f"memory scope {place.memory_scope!r} is asked for: machines have 'global' alone"
            )
    return with_listed(mod, [place.listed() for place in (_DEFAULT, *devices)])


def with_param_devices(made: Function, func: Function, mod: IRModule, plan: DevicePlan | None) -> Function:
    """An entry function made of `func`, with what the types of its parameters do not say of their devices."""
    if plan is None:
        return made
    pairs = zip(made.params, func.params, strict=True)
    found = {param.name_hint: device_index(mod, plan.of(old).listed()) for param, old in pairs}
    named: Function = made.with_attr(MADE_PARAM_DEVICES, found)
    return named


def located(ty: Type, device: VDevice | None) -> Type:
    """A type with its tensors on a device, those of functions too, but those that have one."""
    if device is None:
        return ty
    if isinstance(ty, FuncType) and ty.params is not None:
        params = tuple(located(param, device) for param in ty.params)
        return FuncType(params, located(ty.ret, device), ty.is_pure)
    if isinstance(ty, TupleType):
        return TupleType(tuple(located(item, device) for item in ty.fields))
    return on_device(ty, device)


def leaf_on(leaf: Any, device: VDevice | None) -> Any:
    """A leaf with its constants on a device."""
    if device is None:
        return leaf
    if isinstance(leaf, Constant):
        return Constant(leaf.data, on_device(type_of(leaf), device), span=leaf.span)
    if isinstance(leaf, Tuple):
        made = Tuple(tuple(leaf_on(item, device) for item in leaf.fields), span=leaf.span)
        return replace(made, ty=infer(made))
    return leaf


class DeviceLowering(SizeLowering):
    """The part of a maker of functions that knows devices."""

    plan: DevicePlan | None

    def device(self, expr: Any) -> VDevice | None:
        """The device of an expression of Relay; None where nothing is said about devices."""
        return None if self.plan is None else self.plan.of(expr).listed()

    def device_of_result(self, func: Function) -> VDevice | None:
        """The device of what a function gives."""
        return None if self.plan is None else self.plan.result_of(func).listed()

    def arguments_on(self, leaves: Sequence[Expr], call: Call) -> list[Expr]:
        """Arguments of a call, whose constants are where they are read."""
        if (plan := self.plan) is None:
            return list(leaves)
        return [leaf_on(leaf, plan.target(call, n).listed()) for n, leaf in enumerate(leaves, 1)]

    def settled(self, leaf: Expr, device: VDevice | None) -> Expr:
        """A leaf whose tensors are on devices: on this one where their types do not say it. What is made of
        no tensor says nothing."""
        ty = type_of(leaf)
        if device is None or all(item.vdevice is not None for item in tensor_types(ty)):
            return leaf
        if isinstance(leaf, (Constant, Tuple)):
            return leaf
        if isinstance(ty, TensorType):
            return self._placed("hint_on_device", leaf, device)
        assert isinstance(ty, TupleType)
        return self._each(leaf, ty, lambda item: self.settled(item, device))

    def copied(self, leaf: Expr, call: Call) -> Expr:
        """What a device_copy gives: a copy of each tensor of a leaf."""
        target = virtual_device(call.attrs.dst_virtual_device).listed()

        def copy(item: Expr) -> Expr:
            ty = type_of(item)
            if isinstance(ty, TupleType):
                return self._each(item, ty, copy)
            return self._placed("to_vdevice", item, target)

        return copy(leaf)

    def _placed(self, name: str, leaf: Expr, device: VDevice) -> Expr:
        attrs: dict[str, Any] = {"dst_vdevice": device}
        if name == "hint_on_device":
            attrs["memory_scope"] = device.memory_scope
        return self.leaf(Call(Op.get(f"relax.{name}"), (leaf,), attrs_of(attrs), span=leaf.span))

    def _each(self, leaf: Expr, ty: TupleType, change: Any) -> Expr:
        """A tuple of what each field becomes."""
        items = leaf.fields if isinstance(leaf, Tuple) else None
        fields = (
            change(self.leaf(TupleGetItem(leaf, n)) if items is None else items[n])
            for n in range(len(ty.fields))
        )
        made = Tuple(tuple(fields))
        return replace(made, ty=infer(made))
