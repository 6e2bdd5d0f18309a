"""`python -m benchmarks.jit [NETWORK]`: a network of the zoo with `heddle.jit` beside `heddle.compile`.

With an empty cache. What is told: the time to the first result over that of a full compile, and that of a
second start, which finds the full program in the cache; after calls at one size, the time of
a call over that of a program compiled for that size; how far results moved; and for each swap the longest
call around it beside the longest of the calls before.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import heddle
from benchmarks.measure import least_in_turn, relative_error
from benchmarks.zoo.catalogue import chosen
from benchmarks.zoo.network import Network
from heddle.codegen.cache import KernelCache
from heddle.driver.compile import build
from heddle.driver.jit import JitProgram
from heddle.driver.sources import module_of
from heddle.driver.values import as_arrays
from heddle.ops.load import load as load_operators

CALLS = 50
AROUND_S = 0.02
"""Calls that begin so long before or after a swap count as around it."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jit")
    parser.add_argument("network", nargs="?", default="bert")
    parser.add_argument("--size", type=int, default=0, help="which of the network's sizes")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        os.environ["HEDDLE_CACHE_DIR"] = folder
        _measure(options)


def _measure(options: argparse.Namespace) -> None:
    (network,) = chosen([options.network], "all")
    sizes = network.sizes[options.size]
    arrays = network.arrays(sizes)
    args = [heddle.tensor(x) for x in (arrays.values() if isinstance(arrays, dict) else arrays)]
    load_operators()
    mod = module_of(str(network.path()))
    start = time.perf_counter()
    full = build(mod, exec_mode="compiled", cache=KernelCache(None))  # the first start finds no program
    compiled = heddle.relax.VirtualMachine(full, heddle.cpu())["main"]
    expected = compiled(*args)
    full_s = time.perf_counter() - start
    start = time.perf_counter()
    with heddle.jit(mod) as program:
        first = program["main"](*args)
        first_s = time.perf_counter() - start
        print(f"{network.name} {dict(sizes)}: first result {first_s:.2f} s, compiled {full_s:.2f} s")
        print(f"  first result over full compile: {first_s / full_s:.2f}")
        print(f"  first result against the full program's: {_error(first, expected):.1e}")
        _swaps(program, args)
        fixed = _for_sizes(network, sizes)
        jitted, alone = least_in_turn(lambda: program["main"](*args), lambda: fixed(*args))
        print(f"  after the swaps: {1e3 * jitted:.3f} ms, compiled for the size {1e3 * alone:.3f} ms")
        print(f"  jit over compiled for the size: {jitted / alone:.3f}")
        print(f"  results against the full program's: {_error(program['main'](*args), expected):.1e}")
        print(f"  {program.statistics()}")
    start = time.perf_counter()
    with heddle.jit(mod) as program:
        program["main"](*args)
        print(f"  first result of a second start: {time.perf_counter() - start:.2f} s")


def _for_sizes(network: Network, sizes: Any) -> Callable[..., Any]:
    made = heddle.compile(module_of(str(network.fixed_path(sizes))))
    return heddle.relax.VirtualMachine(made, heddle.cpu())["main"]  # type: ignore[no-any-return]


def _swaps(program: JitProgram, args: list[Any]) -> None:
    """Call until all code is there, and tell how long calls took around each swap."""
    begin, calls, after = time.perf_counter(), list[tuple[float, float]](), 0
    while after < CALLS:
        start = time.perf_counter()
        program["main"](*args)
        calls.append((start, time.perf_counter() - start))
        waits = program.statistics().waiting > 0 or len(program.swaps) < 2
        after = 0 if waits else after + 1
        time.sleep(0.001)
    for swap in program.swaps:
        at = program.begin_s + swap.at_s
        near = [took for start, took in calls if at - swap.load_s - AROUND_S < start < at + AROUND_S]
        before = [took for start, took in calls if start < at - swap.load_s - AROUND_S][-200:]
        print(f"  {swap}")
        if near and before:
            print(f"    longest call around it {1e3 * max(near):.2f} ms, before {1e3 * max(before):.2f} ms")
    print(f"  {len(calls)} calls in {time.perf_counter() - begin:.1f} s")


def _error(ours: Any, theirs: Any) -> float:
    return relative_error(as_arrays(ours), as_arrays(theirs))


if __name__ == "__main__":
    main()
