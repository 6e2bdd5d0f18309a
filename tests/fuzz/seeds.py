"""The command line of fuzzers that judge one seed after the other in this process."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from heddle import ops


def run_seeds(
    description: str, what: str, try_seed: Callable[[int], str], show: Callable[[int], str] | None = None
) -> int:
    """Judge seeds as the command line says, and print what is wrong with each. `what` names what is made of a
    seed, `show` gives its text. The result is the exit status: 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=1e9)
    if show is not None:
        parser.add_argument("--show", action="store_true", help=f"print the {what}")
    given = parser.parse_args()
    ops.load()
    end_s, faults, judged = time.monotonic() + 60 * given.minutes, 0, 0
    for seed in range(given.seed, given.seed + given.count):
        if show is not None and given.show:
            print(show(seed))
        try:
            found = try_seed(seed)
        except Exception as error:  # every error is a fault, and reported as one
            found = f"{type(error).__name__}: {error}"
        judged += 1
        if found:
            faults += 1
            print(f"seed {seed}: {found[:700]}", flush=True)
        if time.monotonic() > end_s:
            break
    print(f"{judged} {what}, {faults} faults")
    return 1 if faults else 0
