"""Many threads: `python -m tests.fuzz.threads --minutes 10`.

Eight threads run one loaded executable, with a machine each, in both modes, and a machine of bytecode that
all share; a compiled machine that they share runs one call at a time and refuses the others with V0307.
No answer may be wrong, and afterwards the allocators hold as much as before.
"""

from __future__ import annotations

import argparse
import collections
import gc
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from heddle.runtime import allocator_for, cpu, load_module
from heddle.support.diagnostics import Trap
from heddle.vm.relax import VirtualMachine, VMExecutable
from tests.fuzz.networks import ENCODER, NETWORKS, Network, is_right, largest_error

NUM_THREADS = 8
EXEC_MODES = ("bytecode", "compiled")


@dataclass
class Outcome:
    """Calls by mode and kind of machine, those that were refused, and what was wrong."""

    calls: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)
    leaked_bytes: int = 0


def _loaded(network: Network, exec_mode: str) -> VMExecutable:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.heddle"
        network.executable(exec_mode).export_library(path)
        loaded = load_module(path)
    assert isinstance(loaded, VMExecutable)
    return loaded


def _work(
    number: int,
    until: float,
    networks: list[tuple[Network, str, VMExecutable, VirtualMachine]],
    outcome: Outcome,
) -> None:
    rng = np.random.default_rng(number)
    own = [VirtualMachine(executable, cpu()) for _, _, executable, _ in networks]
    while time.monotonic() < until and not outcome.faults:
        choice = int(rng.integers(len(networks)))
        network, exec_mode, _, shared = networks[choice]
        is_shared = bool(rng.integers(2))
        vm, key = (shared, f"{exec_mode} shared") if is_shared else (own[choice], f"{exec_mode} own")
        inputs, _ = network.inputs(rng)
        try:
            value = vm["main"](*inputs)
        except Trap as error:
            if error.code != "V0307" or key != "compiled shared":
                outcome.faults.append(f"{network.name}, {key}: {error}")
            outcome.calls[f"{key}, refused"] += 1
            continue
        outcome.calls[key] += 1
        if not is_right(network, inputs, value):
            error_text = f"error {largest_error(network, inputs, value)}"
            outcome.faults.append(f"{network.name}, {key}: {error_text} for {[x.shape for x in inputs]}")


def run_threads(seconds: float, networks: tuple[Network, ...] = (ENCODER,)) -> Outcome:
    """Run for so long. Machines and results are gone afterwards."""
    outcome = Outcome()
    machines = []
    for network in networks:
        for exec_mode in EXEC_MODES:
            executable = _loaded(network, exec_mode)
            machines.append((network, exec_mode, executable, VirtualMachine(executable, cpu())))
    gc.collect()
    books = allocator_for(cpu()).books
    before = books.bytes_in_use
    until = time.monotonic() + seconds
    workers = [
        threading.Thread(target=_work, args=(number, until, machines, outcome))
        for number in range(NUM_THREADS)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    gc.collect()
    outcome.leaked_bytes = books.bytes_in_use - before
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1)
    outcome = run_threads(60 * parser.parse_args().minutes, NETWORKS)
    print(f"calls: {dict(outcome.calls)}; leaked: {outcome.leaked_bytes} bytes; {len(outcome.faults)} faults")
    print("\n".join(outcome.faults[:10]))
    return 1 if outcome.faults or outcome.leaked_bytes else 0


if __name__ == "__main__":
    sys.exit(main())
