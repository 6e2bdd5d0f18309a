"""Modules of named loop functions: what code is made of."""

from __future__ import annotations

from collections.abc import Mapping

from heddle.codegen.codes import G0103
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import Map
from heddle.support.diagnostics import UsageError
from heddle.tir.kernel_abi import CALLING_CONV
from heddle.tir.nodes import PrimFunc
from heddle.tir.program_abi import PROGRAM_CONV


def as_module(given: IRModule | PrimFunc | Mapping[str, PrimFunc]) -> IRModule:
    """A module of named functions. Raises: UsageError G0103."""
    if isinstance(given, IRModule):
        return given
    if isinstance(given, PrimFunc):
        name = given.attrs.get("global_symbol")
        if not name:
            raise UsageError(G0103, "a function to compile needs the attribute 'global_symbol'")
        return IRModule(Map({GlobalVar(str(name)): given}))
    return IRModule(Map({GlobalVar(name): func for name, func in given.items()}))


def named(var: GlobalVar, func: PrimFunc) -> PrimFunc:
    """A function of a module with the name that its code will have."""
    if func.attrs.get("global_symbol"):
        return func
    result: PrimFunc = func.with_attr("global_symbol", var.name_hint)
    return result


def is_entry(func: PrimFunc) -> bool:
    """Whether a lowered function is one that a module names: a kernel's entry, or a program's function."""
    return func.attrs.get(CALLING_CONV) in ("packed", PROGRAM_CONV)
