"""One network of the zoo on all engines: a JSON object on the last line."""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.engines import Session, Unavailable, engine
from benchmarks.engines.engine import Arrays, Model
from benchmarks.measure import OURS, relative_error
from benchmarks.zoo.catalogue import chosen
from benchmarks.zoo.network import Network, Sizes

FIXED = "heddle, fixed sizes"
IDLE, COUNTED = 1, 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--peers", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--repeat", type=int, required=True)
    parser.add_argument("--no-fixed", action="store_true")
    options = parser.parse_args()
    (network,) = chosen([options.name], "all")
    print(json.dumps(measured(network, options)))


def measured(network: Network, options: Any) -> dict[str, Any]:
    model = Model(network.path(), threads=options.threads, varies=True)
    ours: Any = engine(OURS)
    sessions: dict[str, Session] = {OURS: ours.load(model)}
    row: dict[str, Any] = {
        "name": network.name,
        "kind": network.kind,
        "half": network.half,
        "tolerance": network.tolerance,
        "cold_s": ours.cold_s,
        "warm_s": ours.warm_s,
        "sizes": [],
        "peers_failed": {},
    }
    for peer in filter(None, options.peers.split(",")):
        try:
            sessions[peer] = engine(peer).load(model)
        except (Unavailable, RuntimeError, ValueError) as error:
            row["peers_failed"][peer] = str(error)[:200]
    for sizes in network.sizes:
        at_size = dict(sessions)
        if sizes and not options.no_fixed:
            at_size[FIXED] = ours.load(replace(model, path=network.fixed_path(sizes), varies=False))
        row["sizes"].append(_at(network, sizes, at_size, options.repeat, row["peers_failed"]))
    return row


def _at(
    network: Network, sizes: Sizes, sessions: dict[str, Session], repeat: int, failed: dict[str, str]
) -> dict[str, Any]:
    """Times at one size: turns of all engines in a new order each, and of each engine the lower quartile.
    Threads that an engine leaves spinning slow down the next one, which is not the same one each time.
    """
    arrays = network.arrays(sizes)
    results: dict[str, Arrays] = {}
    for name, session in sessions.items():
        try:
            results[name] = session.arrays(session.call(session.prepare(arrays)))
        except Exception as error:  # a peer that cannot run a size is named, not measured
            if name in (OURS, FIXED):
                raise
            failed[name] = str(error)[:200]
    times: dict[str, list[float]] = {name: [] for name in results}
    order = np.random.default_rng(0)
    for _ in range(repeat):
        for name in order.permutation(list(results)):
            session = sessions[name]
            times[name] += session.turn([session.prepare(arrays)], IDLE, COUNTED)
    ms = {name: statistics.quantiles(each, n=4)[0] for name, each in times.items()}
    peers = {name: ms[name] for name in ms if name not in (OURS, FIXED)}
    found: dict[str, Any] = {"sizes": dict(sizes), "ms": ms[OURS], "all_ms": ms, "error": 0.0}
    if FIXED in ms:
        found["free_over_fixed"] = ms[OURS] / ms[FIXED]
    if peers:
        found["over_peer"] = ms[OURS] / min(peers.values())
        found["error"] = relative_error(results[OURS], results[next(iter(peers))])
    return found


if __name__ == "__main__":
    main()
