"""Convert Relay programs to Relax. For other models, the Relay packages are not imported."""

from __future__ import annotations

from collections.abc import Sequence

from heddle.ir.expr import is_relay
from heddle.ir.module import IRModule


def in_relax(mod: IRModule, entry_functions: Sequence[str] | None = None) -> IRModule:
    """Convert the Relay functions of a module to Relax, those that the entry functions need, after what
    users' hooks say of operators. A module without Relay functions is returned unchanged.

    Raises: as `heddle.lower.relay_to_relax.to_relax`; UsageError I0506 for a hook that fails.
    """
    if entry_functions is None and not any(map(is_relay, mod.functions.values())):
        return mod
    from heddle.driver.relay_hooks import as_users_say  # these load Relay
    from heddle.lower.relay_to_relax import to_relax

    return to_relax(as_users_say(mod), entry_functions)
