"""ShareKernels: merge scheduled loop functions that differ only in sizes; sizes become parameters.

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
from typing import Any, ClassVar

from heddle.graph.rewriter import BindingRewriter
from heddle.ir.expr import Call, Expr, GlobalVar, Var
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.lower.estimate_kernel_cost import KERNEL_COST
from heddle.lower.fuse_tir import drop_unused_loops
from heddle.lower.kernel_calls import callee_and_scalars, with_callee
from heddle.lower.kernel_family import MIN_FREE_SHARED, Member, families
from heddle.lower.normal_form import GRAPHS
from heddle.prim.nodes import constant
from heddle.tir.nodes import PrimFunc


class ShareKernels(Pass):
    """Requires: schedules (ApplyDefaultSchedule). A function whose name is for the outside stays."""

    dialects: ClassVar[tuple[str, ...] | None] = GRAPHS

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        plans: dict[GlobalVar, tuple[GlobalVar, tuple[int, ...]]] = {}
        rewriter = _Caller(mod, plans)
        for members in _alike(mod):
            for family in families(members):
                shared = rewriter.add_func(family.function(), family.members[0].var.name_hint)
                plans |= {member.var: (shared, family.values(k)) for k, member in enumerate(family.members)}
        if not plans:
            return mod
        for var, func in self.functions(mod):
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
        found = callee_and_scalars(value)
        if found is None or found[0] not in self._plans:
            return value  # a call whose scalars are a variable keeps the old function
        assert isinstance(value, Call)
        shared, sizes = self._plans[found[0]]
        return with_callee(value, shared, (*found[1], *(constant(size, "int64") for size in sizes)))
