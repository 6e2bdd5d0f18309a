"""The workloads of one mode and thread count, in a process of their own: a JSON line a workload.

Started by `benchmarks.__main__`, which sets the environment and the processor affinity of the mode.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.engines import Engine, Session, Unavailable, engine
from benchmarks.measure import OURS, run_workload
from benchmarks.remote import RemoteEngine
from benchmarks.workloads import Workload, chosen


def engines_by_name(names: Sequence[str], pythons: dict[str, str]) -> dict[str, Engine | Unavailable]:
    """The engines that can be had, and for the others the reason."""
    found: dict[str, Engine | Unavailable] = {}
    for name in names:
        try:
            found[name] = RemoteEngine(name, pythons[name]) if name in pythons else engine(name)
        except Unavailable as error:
            found[name] = error
    return found


def roofline_of(workload: Workload, session: Session, threads: int | None) -> Any:
    """What the machine allows at best for the kernels of one pass, as a `heddle.driver.explain.Roofline`."""
    from heddle.driver.ceilings import measure_ceilings
    from heddle.driver.explain import Roofline, roofline

    ceilings = measure_ceilings(num_threads=threads)
    executable = session.executable  # type: ignore[attr-defined]
    total = Roofline(0.0, 0.0, 0)
    for request in workload.requests():
        total = total + roofline(executable, request, ceilings)
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", required=True)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--workloads", required=True)
    parser.add_argument("--repeat", type=int, required=True)
    parser.add_argument("--python", action="append", default=[])
    options = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print goes elsewhere
    pythons = dict(item.split("=", 1) for item in options.python)
    names = [name for name in options.peers.split(",") if name]
    engines = engines_by_name([*names, OURS], pythons)
    for workload in chosen(options.workloads.split(",")):
        result, sessions = run_workload(workload, engines, options.mode, options.threads, options.repeat)
        ours: Any = engines[OURS]
        if OURS in sessions:
            result.compile_cold_s, result.compile_warm_s = ours.cold_s, ours.warm_s
            found = roofline_of(workload, sessions[OURS], options.threads)
            result.roofline_ms, result.memory_ms = found.least_us / 1e3, found.memory_us / 1e3
            result.memory_bytes = found.size_bytes
        print(json.dumps(result.as_dict()), file=out, flush=True)
        sessions.clear()
    for item in engines.values():
        if isinstance(item, RemoteEngine):
            item.close()


if __name__ == "__main__":
    sys.exit(main())
