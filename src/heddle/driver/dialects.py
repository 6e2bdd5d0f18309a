"""Convert Relay programs to Relax. For other models, the Relay packages are not imported."""

from __future__ import annotations

from heddle.ir.expr import is_relay
from heddle.ir.module import IRModule


def in_relax(mod: IRModule) -> IRModule:
    """Convert the Relay functions of a module to Relax. A module without Relay functions is returned
    unchanged.

    Raises: as `heddle.lower.relay_to_relax.to_relax`.
    """
    if not any(map(is_relay, mod.functions.values())):
        return mod
    from heddle.lower.relay_to_relax import to_relax  # it loads Relay

    return to_relax(mod)
