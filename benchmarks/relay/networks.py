"""Networks as Relay programs beside the same networks through Relax: free sizes, and a step of a decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import heddle
from benchmarks.measure import least_in_turn, relative_error
from benchmarks.workloads import chosen
from heddle import relay
from heddle.driver.values import as_arrays
from heddle.relax import VirtualMachine

NAMES = ("bert-128", "bert-32", "gpt2-decode")


def rows(_threads: int) -> Iterator[str]:
    """A line for each network; the least time of its requests, one after the other."""
    for workload in chosen(list(NAMES)):
        path = str(workload.path())
        graph = VirtualMachine(heddle.compile(path), heddle.cpu())["main"]
        program = VirtualMachine(heddle.compile(relay.frontend.from_onnx(path)[0]), heddle.cpu())["main"]
        requests = [[heddle.tensor(array) for array in request] for request in workload.requests()]

        def all_of(main: Any, requests: Any = requests) -> list[Any]:
            return [main(*request) for request in requests]

        pairs = zip(all_of(graph), all_of(program), strict=True)
        error = max(relative_error(as_arrays(mine), as_arrays(theirs)) for theirs, mine in pairs)
        ours, theirs = least_in_turn(
            lambda main=program, run=all_of: run(main),  # type: ignore[misc]
            lambda main=graph, run=all_of: run(main),  # type: ignore[misc]
        )
        yield (
            f"{workload.name}: {1e3 * ours:.3f} ms, through Relax {1e3 * theirs:.3f} ms, "
            f"ratio {ours / theirs:.3f}, error {error:.0e}"
        )
