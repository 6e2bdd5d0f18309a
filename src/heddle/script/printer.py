"""Print modules as script text: a class of functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heddle.ir.dialect import dialect_of
from heddle.ir.expr import BaseFunc
from heddle.ir.module import IRModule
from heddle.ir.nesting import refusing_printer
from heddle.ir.node import PRINTERS, Node
from heddle.relax.metadata import embedded_metadata, weights_statement
from heddle.relax.print import RelaxPrinter
from heddle.relay.print import relay_script
from heddle.support.names import spelled
from heddle.support.text import TextBuilder
from heddle.tir.print_expr import ExprPrinter

HEADER = "# from heddle.script import ir as I, relax as R, tir as T\n\n"


def module_script(
    mod: IRModule,
    constants: list[Any] | None = None,
    show_meta: bool = False,
    weights: Path | None = None,
) -> str:
    """Return the text of a module. Large constants are added to `constants` and printed as `metadata[k]`.

    With `show_meta`, the text contains their bytes. With `weights`, it refers to a file of that name.
    """
    out = TextBuilder()
    collected: list[Any] = constants if constants is not None else []
    out.line("@I.ir_module")
    out.line("class Module:")
    with out.indented():
        if mod.attrs:
            out.line(f"I.module_attrs({ExprPrinter().value(mod.attrs.values)})")
        if mod.global_infos:
            out.line(f"I.module_global_infos({RelaxPrinter().value(mod.global_infos)})")
        others = {spelled(name): name for name in (var.name_hint for var in mod.functions)}
        others = {text: name for text, name in others.items() if text != name}
        if others:
            out.line(f"I.module_function_names({ExprPrinter().value(others)})")
        if not (len(mod) or mod.attrs or mod.global_infos):
            out.line("pass")
        for var, func in mod.functions.items():
            out.lines(_function(func, var.name_hint, collected))
            out.line()
    if weights is not None and collected:
        return HEADER + weights_statement(weights) + out.build()
    return HEADER + (embedded_metadata(collected) if show_meta else "") + out.build()


def _function(func: BaseFunc, name: str, constants: list[Any]) -> str:
    return function_lines(func, name, constants).build()


def function_lines(func: BaseFunc, name: str, constants: list[Any]) -> TextBuilder:
    """Return the lines of a function of a module with their spans. Large tensors are added to `constants`."""
    if func.dialect:
        return dialect_of(func).write(func, spelled(name), constants)
    out = TextBuilder()
    out.line(f"# {name}: {func.node_kind}")
    return out


def _print_module(
    node: Node, constants: list[Any] | None = None, show_meta: bool = False, **options: Any
) -> str | None:
    """Print a module that contains only Relay functions as Relay text, and any other as a class."""
    if isinstance(node, IRModule) and is_relay(node):
        return relay_script(node, show_meta=show_meta, **options)
    return module_script(node, constants, show_meta) if isinstance(node, IRModule) else None


def is_relay(mod: IRModule) -> bool:
    """Whether a module contains only what Relay text has."""
    functions = mod.functions.values()
    return bool(functions or mod.type_definitions) and all(func.dialect == "relay" for func in functions)


PRINTERS.add("module", refusing_printer(_print_module))
