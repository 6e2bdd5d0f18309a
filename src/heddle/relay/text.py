"""Relay text to programs and back: `parse`, `parse_expr`, `fromtext`, `astext`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heddle.ir.expr import Expr
from heddle.ir.module import IRModule
from heddle.ir.node import Node
from heddle.relay.codes import Q0101
from heddle.relay.parser import RelayParser
from heddle.relay.print import Annotate, relay_script
from heddle.relay.typed import infer_module
from heddle.support.diagnostics import UsageError
from heddle.support.span import Source


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: Mapping[str, Any] | None = None,
) -> IRModule:
    """The program of a text, with types. What `init_module` defines may be used in it and is in the result;
    entries of `init_meta_table` come after those of the text's own metadata.

    Raises: ParseError Q02.. with the place; IRTypeError with all findings of inference.
    """
    return infer_module(RelayParser(_source(source_name, source), init_module, init_meta_table).module())


def fromtext(source: str, source_name: str = "from_string") -> IRModule:
    """As `parse`."""
    return parse(source, source_name)


def parse_expr(source: str, source_name: str = "from_string") -> Expr:
    """The expression of a text, without types. Raises: ParseError Q02.. with the place."""
    return RelayParser(_source(source_name, source)).expression()


def _source(name: str, text: Any) -> Source:
    """Raises: UsageError Q0101 for what is no text."""
    if not isinstance(text, str):
        raise UsageError(Q0101, f"expected the text of a program, got {type(text).__name__}")
    return Source(name, text)


def astext(node: Node, show_meta_data: bool = True, annotate: Annotate | None = None) -> str:
    """The text of a program, function or expression as a file has it: version, and metadata if asked for.
    `annotate(expr)` is written behind calls, variables, tuples, functions and constants."""
    return relay_script(node, version=True, show_meta=show_meta_data, annotate=annotate) or ""
