"""The workloads by name. `chosen` takes patterns of the shell: `bert-*`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from benchmarks.workloads.networks import NETWORKS
from benchmarks.workloads.operators import OPERATORS
from benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS", "Workload", "chosen"]

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in (*NETWORKS, *OPERATORS)}


def chosen(patterns: Sequence[str]) -> list[Workload]:
    """Raises: SystemExit for a pattern that nothing fits."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in WORKLOADS):
            raise SystemExit(f"no workload is named {pattern!r}; there are: {', '.join(WORKLOADS)}")
    return [
        workload
        for name, workload in WORKLOADS.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    ]
