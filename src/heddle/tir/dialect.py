"""The record of the loop dialect."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from heddle.ir.dialect import Dialect, ScriptContext, declare_dialect
from heddle.ir.module import IRModule
from heddle.ir.properties import declare_property
from heddle.ir.types import FuncType, Type
from heddle.support.text import TextBuilder
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import PrimFunc, SBlock
from heddle.tir.parser import PrimFuncParser
from heddle.tir.print_stmt import StmtPrinter, tir_script
from heddle.tir.verify import verify_prim_func


class _Reader(PrimFuncParser):
    def signature(self, node: ast.FunctionDef) -> Type:
        return FuncType.on_memory()


def _read(context: ScriptContext) -> _Reader:
    return _Reader(context.source, context.names)


def _write(func: PrimFunc, name: str, _constants: list[Any]) -> TextBuilder:
    printer = StmtPrinter()
    printer.prim_func(func, name, "global_symbol" not in func.attrs)
    return printer.out


def _run(func: PrimFunc, _mod: IRModule, args: Sequence[Any]) -> Any:
    return run_primfunc(func, *args)


def _normalize(func: PrimFunc, _mod: IRModule | None) -> PrimFunc:
    """Loop functions have one form."""
    return func


declare_dialect(
    Dialect(
        name="tir",
        families=("tir", "prim"),
        decorator="T.prim_func",
        script=tir_script,
        write=_write,
        read=_read,
        verify=verify_prim_func,
        run=_run,
        normalize=_normalize,
    )
)
declare_property("no blocks", "tir", lambda part: isinstance(part, SBlock))
