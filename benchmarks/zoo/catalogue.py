"""All networks of the zoo."""

from __future__ import annotations

from benchmarks.zoo.network import Network
from benchmarks.zoo.sequences import SEQUENCES
from benchmarks.zoo.tables import TABLES
from benchmarks.zoo.vision import VISION

NETWORKS: tuple[Network, ...] = (*VISION, *SEQUENCES, *TABLES)


def chosen(names: list[str], half: str) -> list[Network]:
    """Those of these names, else all of a half (`all`: of both)."""
    if names:
        known = {network.name: network for network in NETWORKS}
        return [known[name] for name in names]
    return [network for network in NETWORKS if half in ("all", network.half)]
