"""The attribute `origin` of a function in normal form: the dialect that its author wrote, where that is
another one. What is said of the function when it runs is said in words of that dialect."""

from __future__ import annotations

from heddle.graph.types import ShapeType
from heddle.ir.expr import Function
from heddle.ir.types import Type
from heddle.relay.expand import without_symbols
from heddle.relay.text_values import type_text

ORIGIN = "origin"


def text_of_check(func: Function, what: str, place: str, ty: Type) -> str:
    """What the message of a check begins with: the value, and the type in the words of its author. `place`
    says to programs where it is."""
    if func.attrs.get(ORIGIN) != "relay":
        return f"{what} (loc={place}, annotation={ty}):"
    if isinstance(ty, ShapeType):
        return f"sizes that do not fit ({what}):"
    return f"{what} of type {type_text(without_symbols(ty))}:"
