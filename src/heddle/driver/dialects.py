"""Programs of Relay become programs of Relax. Models without any leave Relay's rooms unloaded."""

from __future__ import annotations

from heddle.ir.expr import is_relay
from heddle.ir.module import IRModule


def in_relax(mod: IRModule) -> IRModule:
    """The module as it is where none of its functions is Relay's, else with those in Relax's dialect.

    Raises: as `heddle.lower.relay_to_relax.to_relax`.
    """
    if not any(map(is_relay, mod.functions.values())):
        return mod
    from heddle.lower.relay_to_relax import to_relax  # it loads Relay

    return to_relax(mod)
