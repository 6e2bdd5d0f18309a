"""NormalizeGlobalVar: rename public functions in the module to their global_symbol.

    mod[f] = function with global_symbol "main"      →      mod[main] = the same function

A private function with that name is renamed.
"""

from __future__ import annotations

from typing import Any

from heddle.graph.codes import R0302
from heddle.ir.expr import GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.transform import Pass, PassContext
from heddle.ir.visitor import Rewriter
from heddle.support.diagnostics import UsageError


class NormalizeGlobalVar(Pass):
    """Raises: UsageError R0302 where two functions have one global_symbol."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        symbols: dict[GlobalVar, str] = {
            var: str(func.attrs.global_symbol)
            for var, func in mod.functions.items()
            if "global_symbol" in func.attrs
        }
        if len(set(symbols.values())) < len(symbols):
            raise UsageError(R0302, "two functions of the module have the same global_symbol")
        names = mod.names()
        for symbol in symbols.values():
            names.reserve(symbol)
        renamed: dict[GlobalVar, str] = {}
        for var in mod.functions:
            wanted = symbols.get(var)
            if wanted is None and var.name_hint in symbols.values():
                wanted = names.fresh(var.name_hint)
            if wanted is not None and wanted != var.name_hint:
                renamed[var] = wanted
        return _Renamer(renamed).module(mod) if renamed else mod


class _Renamer(Rewriter):
    def __init__(self, renamed: dict[GlobalVar, str]) -> None:
        self._renamed = renamed

    def module(self, mod: IRModule) -> IRModule:
        return mod.with_functions(
            {self.visit_GlobalVar(var): self.visit(func) for var, func in mod.functions.items()}
        )

    def visit_GlobalVar(self, node: Any) -> Any:
        return replace(node, name_hint=self._renamed[node]) if node in self._renamed else node
