"""A pass instrument that prints and parses the module after every pass."""

from __future__ import annotations

from typing import Any

from heddle.ir.codes import I0505
from heddle.ir.module import IRModule
from heddle.ir.structural import first_mismatch
from heddle.ir.transform import PassInfo, PassInstrument
from heddle.relay.text import astext
from heddle.relay.text import parse as relay_parse
from heddle.relay.typed import infer_module
from heddle.script.parser import parse
from heddle.script.printer import is_relay, module_script
from heddle.support.diagnostics import HeddleError, InternalError


def check_round_trip(mod: IRModule) -> str | None:
    """Check that the module's text parses to an equal module, which prints the same text. Return the problem
    as text, or None."""
    constants: list[Any] = []
    if is_relay(mod):  # the text is of a program with types, which a pass may leave to the next one
        mod = infer_module(mod)
    text = _text_of(mod, constants)
    try:
        again = relay_parse(text) if is_relay(mod) else parse(text, constants=constants)
    except HeddleError as error:
        return f"the text does not parse:\n{error}"
    found = first_mismatch(mod, again)
    if found is not None:
        return f"the parsed module differs at {found.path}: {found.reason}: {found.lhs} became {found.rhs}"
    if _text_of(again, []) != text:
        return "printing again gives another text"
    return None


def _text_of(mod: IRModule, constants: list[Any]) -> str:
    """Relay's text, without places, of a module that contains only Relay functions and their types."""
    return astext(mod, annotate=lambda _: "") if is_relay(mod) else module_script(mod, constants)


class RoundTripEach(PassInstrument):
    """Checks the text of the module after each pass. Raises: InternalError I0505 with the name of a pass
    whose result does not survive printing and parsing."""

    def __init__(self) -> None:
        self._checked: IRModule | None = None

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if mod is self._checked:  # a pass without changes returns its argument
            return
        self._checked = mod
        problem = check_round_trip(mod)
        if problem is not None:
            raise InternalError(
                I0505, f"the text of the module after pass {info.name} is not exact", notes=(problem,)
            )
