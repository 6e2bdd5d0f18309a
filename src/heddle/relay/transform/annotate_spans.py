"""Places in a program's own text."""

from __future__ import annotations

from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext
from heddle.relay.text import parse
from heddle.support.frozen import frozen


@frozen
class AnnotateSpans(Pass):
    """Write the program and read it again: the place of each expression is that in the program's text.

        tanh(%x)                        # made by a builder, with no place

    becomes

        tanh(%x)                        # GeneratedSource:3:3

    Programs that hold more than Relay stay.
    """

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if any(func.dialect != "relay" for func in mod.functions.values()):
            return mod
        return parse(mod.astext(), "GeneratedSource")
