"""ShareKernels: scheduled loop functions that differ in sizes alone become one, which takes the sizes.

    y = R.call_tir(cls.relu,  (x,), out_ty=R.Tensor((1, 8, 56, 56, 8)))       # 8 blocks of channels
    z = R.call_tir(cls.relu1, (y,), out_ty=R.Tensor((1, 12, 56, 56, 8)))      # 12 of them
    →
    y = R.call_tir(cls.relu, (x,), out_ty=R.Tensor((1, 8, 56, 56, 8)), tir_vars=R.shape([8]))
    z = R.call_tir(cls.relu, (y,), out_ty=R.Tensor((1, 12, 56, 56, 8)), tir_vars=R.shape([12]))

Runs after schedules are chosen, so that each function keeps the loops, tiles and vectors of its own sizes:
what decides them is equal in all that are shared (`tir.sizes`). A network of many layers that differ in the
number of channels is compiled in the time of a few.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from heddle.graph.rewriter import BindingRewriter, is_call
from heddle.graph.types import ShapeExpr
from heddle.ir.expr import Call, Expr, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.lower.estimate_kernel_cost import KERNEL_COST
from heddle.lower.fuse_tir import drop_unused_loops
from heddle.lower.kernel_family import MIN_FREE_SHARED, Member, families
from heddle.prim.nodes import constant
from heddle.tir.nodes import PrimFunc

_CALLS = ("relax.call_tir", "relax.call_tir_inplace")


@dataclass(frozen=True)
class ShareKernels(Pass):
    """Requires: schedules (ApplyDefaultSchedule). A function whose name is for the outside stays."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        plans: dict[GlobalVar, tuple[GlobalVar, tuple[int, ...]]] = {}
        rewriter = _Caller(mod, plans)
        for members in _alike(mod):
            for family in families(members):
                shared = rewriter.add_func(family.function(), family.members[0].var.name_hint)
                plans |= {member.var: (shared, family.values(k)) for k, member in enumerate(family.members)}
        if not plans:
            return mod
        for var, func in mod.functions.items():
            if func.dialect == "relax":
                rewriter.update_func(var, rewriter.run(func))
        return drop_unused_loops(rewriter.get())


def _alike(mod: IRModule) -> list[list[Member]]:
    """Functions that may differ in sizes alone. What is cheap to compare comes first."""
    cheap: dict[Hashable, list[tuple[GlobalVar, PrimFunc]]] = {}
    for var, func in mod.functions.items():
        if isinstance(func, PrimFunc) and "global_symbol" not in func.attrs:
            cheap.setdefault(_outline(func), []).append((var, func))
    alike: dict[Hashable, list[Member]] = {}
    for group in cheap.values():
        if len(group) >= MIN_FREE_SHARED:
            for member in (Member.of(var, func) for var, func in group):
                alike.setdefault(member.key, []).append(member)
    return list(alike.values())


def _outline(func: PrimFunc) -> Hashable:
    buffers = tuple((str(buffer.dtype), buffer.ndim) for buffer in func.buffers)
    cost: Any = func.attrs.get(KERNEL_COST, {})
    return str(func.attrs.get("schedule_rule")), buffers, tuple(cost.get("operators", ()))


class _Caller(BindingRewriter):
    """Calls the shared functions, with the sizes that the old ones had."""

    def __init__(self, mod: IRModule, plans: dict[GlobalVar, tuple[GlobalVar, tuple[int, ...]]]) -> None:
        super().__init__(mod)
        self._plans = plans

    def rewrite(self, var: Var, value: Expr) -> Expr | None:
        if not isinstance(value, Call) or not any(is_call(value, name) for name in _CALLS):
            return value
        callee, scalars = value.args[0], value.args[2] if len(value.args) > 2 else None
        if not isinstance(callee, GlobalVar) or callee not in self._plans:
            return value
        if scalars is not None and not isinstance(scalars, ShapeExpr):
            return value  # this call keeps the old function
        shared, sizes = self._plans[callee]
        given = () if scalars is None else scalars.values
        all_sizes = ShapeExpr((*given, *(constant(size, "int64") for size in sizes)))
        return replace(value, args=(shared, value.args[1], all_sizes))
