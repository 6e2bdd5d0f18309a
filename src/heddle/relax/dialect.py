"""Declare the Relax dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.graph.nodes import BindingBlock
from heddle.graph.normalize import Normalizer
from heddle.graph.vdevices import LISTED
from heddle.ir.dialect import Dialect, ScriptContext, declare_dialect
from heddle.ir.expr import Function, GlobalVar
from heddle.ir.module import IRModule
from heddle.ir.properties import declare_property
from heddle.ir.visitor import walk_distinct
from heddle.relax.interpreter import GraphInterpreter
from heddle.relax.parser import FunctionParser
from heddle.relax.print import RelaxPrinter, relax_script
from heddle.relax.verify import verify_graph_function
from heddle.support.text import TextBuilder


def _read(context: ScriptContext) -> FunctionParser:
    return FunctionParser(
        context.source,
        {**context.names, **context.module_names},
        constants=context.constants,
        vdevices=context.global_infos.get(LISTED, ()),
    )


def _write(func: Function, name: str, constants: list[Any]) -> TextBuilder:
    printer = RelaxPrinter(constants=constants)
    printer.function(
        func,
        name,
        private="global_symbol" not in func.attrs,
        refers_to_module=any(isinstance(node, GlobalVar) for node in walk_distinct(func)),
    )
    return printer.out


def _run(func: Function, mod: IRModule, args: Sequence[Any]) -> Any:
    return GraphInterpreter(mod).call(func, args)


def _normalize(func: Function, mod: IRModule | None) -> Function:
    return Normalizer(mod).normalize_function(func)


declare_dialect(
    Dialect(
        name="relax",
        families=("relax", "ir"),
        decorator="R.function",
        script=relax_script,
        write=_write,
        read=_read,
        verify=verify_graph_function,
        run=_run,
        normalize=_normalize,
    )
)
declare_property("no dataflow", "relax", lambda part: isinstance(part, BindingBlock) and part.is_dataflow)
