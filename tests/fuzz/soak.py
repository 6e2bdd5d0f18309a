"""Long runs: `python -m tests.fuzz.soak --calls 100000 [--modes bytecode]`.

Networks with symbolic sizes run on random shapes, in both modes. After a warm-up the resident memory of the
process stays within a percent, and what the allocator lends at once never exceeds the bound that the compiler
wrote into the executable. A mode alone shows what the other one's set-up of the process would hide.

With `--recursive` a Relay program runs instead (`tests.fuzz.recursive`), on its own machine and on the other
one: what data, closures and references hold is given back after every call.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heddle.runtime import allocator_for, cpu, tensor
from heddle.vm.insight.peak_memory import peak_memory_bytes
from heddle.vm.relax import VirtualMachine, VMExecutable
from tests.fuzz import recursive
from tests.fuzz.networks import NETWORKS, Network, is_right

EXEC_MODES = ("bytecode", "compiled")
WARM_UP_CALLS = 2000
CHECKED_EVERY = 50
MAX_GROWTH = 1.01


def observed_peak_bytes(vm: VirtualMachine, *inputs: object) -> tuple[int, object]:
    """The most that the pool lent at once during a call, beyond what it lent before; and the result."""
    allocator = allocator_for(cpu())
    before = allocator.books.bytes_in_use
    allocator.reset_peak()
    value = vm["main"](*inputs)
    return allocator.books.peak_bytes - before, value


def bound_of(executable: VMExecutable, dims: dict[str, int]) -> int:
    bound = peak_memory_bytes(executable.metadata, "main", dims)
    assert bound is not None
    return bound


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@dataclass
class Soak:
    """`closest` is the largest observed part of a bound."""

    calls: int = 0
    closest: float = 0.0
    resident_before: int = 0
    resident_after: int = 0

    @property
    def growth(self) -> float:
        return self.resident_after / self.resident_before


def soak(
    calls: int,
    networks: tuple[Network, ...] = NETWORKS,
    seed: int = 1,
    exec_modes: Sequence[str] = EXEC_MODES,
) -> Soak:
    """Raises: AssertionError for a wrong answer or a peak above its bound."""
    made = []
    for network in networks:
        for exec_mode in exec_modes:
            executable = network.executable(exec_mode)
            made.append((network, executable, VirtualMachine(executable, cpu())))
    rng, found = np.random.default_rng(seed), Soak()
    warm_up = min(WARM_UP_CALLS, calls // 2)
    for number in range(calls):
        network, executable, vm = made[number % len(made)]
        arrays, dims = network.inputs(rng)
        inputs = [tensor(array) for array in arrays]
        peak, value = observed_peak_bytes(vm, *inputs)
        bound = bound_of(executable, dims)
        assert peak <= bound, f"{network.name} at {dims}: {peak} bytes, more than the bound {bound}"
        found.closest = max(found.closest, peak / bound)
        if number % CHECKED_EVERY == 0:
            assert is_right(network, arrays, value)
        if number == warm_up:
            gc.collect()
            found.resident_before = resident_bytes()
        found.calls += 1
    del value, inputs, arrays
    gc.collect()
    found.resident_after = resident_bytes()
    return found


def soak_recursive(calls: int, engines: Sequence[str] = tuple(recursive.ENGINES), seed: int = 1) -> Soak:
    """Raises: AssertionError for a wrong answer, or memory that a call keeps."""
    made = [recursive.ENGINES[name]() for name in engines]
    rng, found, books = np.random.default_rng(seed), Soak(), allocator_for(cpu()).books
    warm_up = min(WARM_UP_CALLS, calls // 2)
    gc.collect()  # what others left in cycles would be given back in the middle of a call
    lent = books.bytes_in_use
    for number in range(calls):
        arrays = recursive.inputs(rng)
        values = recursive.call(made[number % len(made)], arrays)
        if number % CHECKED_EVERY == 0:
            assert recursive.is_right(arrays, values)
        del values
        assert books.bytes_in_use == lent, f"call {number} keeps {books.bytes_in_use - lent} bytes"
        if number == warm_up:
            gc.collect()
            found.resident_before = resident_bytes()
        found.calls += 1
    gc.collect()
    found.resident_after = resident_bytes()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--modes", nargs="+", choices=EXEC_MODES, default=EXEC_MODES)
    parser.add_argument("--recursive", action="store_true", help="a Relay program instead of networks")
    options = parser.parse_args()
    if options.recursive:
        found = soak_recursive(options.calls)
    else:
        found = soak(options.calls, exec_modes=options.modes)
    print(
        f"{found.calls} calls; resident {found.resident_before / 1e6:.1f} MB after warm-up,",
        f"{found.resident_after / 1e6:.1f} MB at the end ({found.growth:.4f});",
        f"peaks reach {found.closest:.3f} of their bounds",
    )
    return 0 if found.growth <= MAX_GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
