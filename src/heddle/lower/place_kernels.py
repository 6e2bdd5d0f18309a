"""PlaceKernels: annotate every loop function with the device that runs it.

    y = R.call_tir(cls.relu, (x,), out_ty=R.Tensor((8,), "float32", "llvm:0"))
    z = R.call_tir(cls.relu, (w,), out_ty=R.Tensor((8,), "float32", "ext_dev:0"))
    →
    y = R.call_tir(cls.relu, (x,), out_ty=R.Tensor((8,), "float32", "llvm:0"))
    z = R.call_tir(cls.relu_1, (w,), out_ty=R.Tensor((8,), "float32", "ext_dev:0"))    # runtime_device: 1

A function that several devices call becomes several, so that a machine knows when it is linked which device
runs which function, and asks nothing when it calls one. All CPUs are one device here: they run the same
code on the same memory. A module that lists no other device stays the same object.
"""

from __future__ import annotations

from typing import ClassVar

from heddle.graph.infer import type_of
from heddle.graph.rewriter import BindingRewriter
from heddle.graph.vdevices import device_index, listed, tensor_types
from heddle.ir.expr import Call, Expr, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.lower.fuse_tir import drop_unused_loops
from heddle.lower.kernel_calls import callee_and_scalars, with_callee
from heddle.lower.normal_form import GRAPHS
from heddle.runtime.device import CPU
from heddle.tir.nodes import PrimFunc

RUNTIME_DEVICE = "runtime_device"
"""Attribute of a loop function: the number of the machine's device that runs it. Without it, the first."""


class PlaceKernels(Pass):
    """Requires: loop functions that are not shared any further (ShareKernels), types that name devices
    (RealizeVDevice)."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if all(vdevice.device.device_type == CPU for vdevice in listed(mod)):
            return mod
        rewriter = _Placer(mod)
        for var, func in self.functions(mod):
            rewriter.update_func(var, rewriter.run(func))
        return drop_unused_loops(rewriter.get())


class _Placer(BindingRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        cpus = [k for k, vdevice in enumerate(listed(mod)) if vdevice.device.device_type == CPU]
        self._same = dict.fromkeys(cpus, cpus[0] if cpus else 0)
        self._placed: dict[tuple[GlobalVar, int], GlobalVar] = {}

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        found = callee_and_scalars(value)
        if found is None:
            return value
        assert isinstance(value, Call)
        index = next((device_index(self.module, ty.vdevice) for ty in tensor_types(type_of(value))), 0)
        placed = self._on(found[0], self._same.get(index, index))
        return value if placed is found[0] else with_callee(value, placed, found[1])

    def _on(self, callee: GlobalVar, index: int) -> GlobalVar:
        """The function for a device: itself for the first."""
        func = self.module.get(callee)
        if index == 0 or not isinstance(func, PrimFunc):
            return callee
        key = callee, index
        if key not in self._placed:
            made = func.without_attr("global_symbol") if "global_symbol" in func.attrs else func
            self._placed[key] = self.add_func(made.with_attr(RUNTIME_DEVICE, index), callee.name_hint)
        return self._placed[key]
