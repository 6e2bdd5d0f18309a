"""The record of the relay dialect."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from heddle.graph.op_builder import as_constant
from heddle.graph.values import as_value
from heddle.ir.dialect import Dialect, ScriptContext, declare_dialect
from heddle.ir.expr import Function
from heddle.ir.module import IRModule
from heddle.ir.types import AnyType, FuncType, Type
from heddle.relay.analysis.well_formedness import verify_relay_function
from heddle.relay.codes import Q0202
from heddle.relay.interpreter import RelayInterpreter
from heddle.relay.parser import RelayParser
from heddle.relay.print import relay_script
from heddle.relay.text_values import CONSTANTS
from heddle.relay.typed import infer_expr
from heddle.support.diagnostics import ParseError
from heddle.support.span import Source, SourceSpan
from heddle.support.text import TextBuilder

DECORATOR = "I.relay_function"


class _Reader:
    """Functions in script text: the Relay text is the string in the body."""

    def __init__(self, context: ScriptContext) -> None:
        self._source = context.source
        self._metadata = {CONSTANTS: [as_constant(value) for value in context.constants or ()]}

    def signature(self, node: ast.FunctionDef) -> Type:
        func = self.parse(node)
        params = tuple(param.ty or AnyType() for param in func.params)
        return func.ty or FuncType(params, func.ret_ty or AnyType())

    def parse(self, node: ast.FunctionDef) -> Any:
        source = Source(self._source.name, ast.get_docstring(node, clean=False) or "", node.lineno + 1)
        found = RelayParser(source, metadata=self._metadata).expression()
        if not isinstance(found, Function):
            line, start = node.lineno, node.col_offset + 1
            span = SourceSpan(self._source, line, start, line, start + 3)
            raise ParseError(Q0202, "expected the text of a Relay function in a string", span=span)
        return found


def _write(func: Function, name: str, constants: list[Any]) -> TextBuilder:
    shown = relay_script(func, version=True, show_meta=True, annotate=lambda _: "", constants=constants) or ""
    text = shown.rstrip().replace("\n", "\n    ")
    out = TextBuilder()
    out.begin(func.span)
    out.lines(f'@{DECORATOR}\ndef {name}():\n    r"""\n    {text}\n    """')
    return out


def _run(func: Function, mod: IRModule, args: Sequence[Any]) -> Any:
    return RelayInterpreter(mod).call(func, [as_value(arg) for arg in args])


declare_dialect(
    Dialect(
        name="relay",
        families=("relay",),
        decorator=DECORATOR,
        script=relay_script,
        write=_write,
        read=_Reader,
        verify=verify_relay_function,
        run=_run,
        normalize=infer_expr,
    )
)
