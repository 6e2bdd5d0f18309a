"""The standard texts (`std/*.rly`): read when a program first asks for one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from heddle.ir.module import STANDARD_TEXTS, IRModule
from heddle.relay.parser import RelayParser
from heddle.relay.typed import infer_module
from heddle.support.span import Source

FOLDER = Path(__file__).parent / "std"
NEEDS = {"nat.rly": ("prelude.rly",)}
"""Which texts a text builds on."""


@cache
def standard_module(name: str) -> IRModule:
    """The definitions of a text and of those that it needs, with types."""
    mod = IRModule()
    for needed in NEEDS.get(name, ()):
        mod.update(standard_module(needed))
    path = FOLDER / name
    return infer_module(RelayParser(Source(f"std/{name}", path.read_text()), mod).module())


def _importer(name: str) -> Callable[[IRModule], None]:
    def import_into(mod: IRModule) -> None:
        """Add the definitions that the module lacks."""
        found = standard_module(name)
        for header, definition in found.type_definitions.items():
            if header not in mod.type_definitions:
                mod[header] = definition
        for var, func in found.functions.items():
            if var not in mod:
                mod[var] = func

    return import_into


for _path in sorted(FOLDER.glob("*.rly")):
    STANDARD_TEXTS.add(_path.name, _importer(_path.name))
