"""Dialects: how the functions of a module are printed, parsed, verified and interpreted.

A function knows its dialect (`func.dialect`). Code that handles functions of any dialect gets the dialect's
record here. The package of each dialect declares it; it is imported when the dialect is first looked up.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from heddle.ir.codes import I0303
from heddle.ir.expr import BaseFunc
from heddle.ir.module import IRModule
from heddle.ir.nesting import refusing_printer
from heddle.ir.node import PRINTERS
from heddle.ir.types import Type
from heddle.support.diagnostics import Diagnostic, UsageError
from heddle.support.frozen import frozen
from heddle.support.registry import Registry, caller_place
from heddle.support.span import Source
from heddle.support.text import TextBuilder


class FunctionReader(Protocol):
    """Parses the functions of one script text. Raises: ParseError with the span."""

    def signature(self, node: ast.FunctionDef) -> Type:
        """Return the type of a function, without parsing its body."""

    def parse(self, node: ast.FunctionDef) -> Any:
        """Parse a function and bring it into normal form."""


@frozen
class ScriptContext:
    """The context of a function in a script text."""

    source: Source
    names: Mapping[str, Any]
    """What the text may name, in every dialect."""
    module_names: Mapping[str, Any] = field(default_factory=dict)
    """The names that stand for the module, in dialects whose functions call each other."""
    constants: Sequence[Any] | None = None
    """The tensors behind `metadata[k]`; None where the text has none."""
    global_infos: Mapping[str, Any] = field(default_factory=dict)


@frozen
class Dialect:
    """A dialect of functions.

    - `script(node, **options) -> text`: a node alone; None for one that has no text. `families` are the first
      parts of the keys of the nodes that it writes ("tir" of "tir.For").
    - `decorator`: what stands over a function in script text; its last word tells the dialect.
    - `write(func, name, constants) -> lines`: a function of a module, and where its lines come from; large
      tensors go to `constants`.
    - `read(context) -> FunctionReader`: the other way.
    - `verify(func, mod) -> findings`.
    - `run(func, mod, args) -> value`: the reference interpreter, on numpy values.
    - `normalize(func, mod) -> func`: the normal form, in which functions are printed, verified and passed on.
    """

    name: str
    families: tuple[str, ...]
    decorator: str
    script: Callable[..., str | None]
    write: Callable[[Any, str, list[Any]], TextBuilder]
    read: Callable[[ScriptContext], FunctionReader]
    verify: Callable[[Any, IRModule], list[Diagnostic]]
    run: Callable[[Any, IRModule, Sequence[Any]], Any]
    normalize: Callable[[Any, IRModule | None], Any]

    @property
    def script_word(self) -> str:
        """The last word of the decorator."""
        return self.decorator.rpartition(".")[2]


DIALECTS: Registry[Dialect] = Registry("dialect")


def declare_dialect(dialect: Dialect) -> Dialect:
    """Register a dialect, and the printer of its node families. Raises: UsageError S0201."""
    place = caller_place()
    DIALECTS.add(dialect.name, dialect, place=place)
    for family in dialect.families:
        PRINTERS.add(family, refusing_printer(dialect.script), place=place)
    return dialect


def dialect_of(func: BaseFunc) -> Dialect:
    """Return the dialect of a function.

    Raises: UsageError I0303 for an external function; MissingNameError S0202 for an undeclared dialect.
    """
    if not func.dialect:
        raise UsageError(I0303, f"{func.node_kind} is not written in a dialect", span=func.span)
    return DIALECTS[func.dialect]
