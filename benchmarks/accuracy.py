"""Compiled float32 kernels against float64, at sizes and values of every kind: a line a family.

    python -m benchmarks.accuracy [--check] [matmul 'conv *' softmax ...]

Each form is compiled for this machine and runs with one and with two threads on every size × class of
values: subnormal numbers, zeros of both signs, and where the result is defined, infinities and NaN. A line
tells the worst error in parts of the tolerance (tests/ops/tolerances.py), in units in the last place or
relative to the terms that a sum adds up, where it was, and whether the bits were the same for both numbers of
threads. Forms and references are those of tests/accuracy, of which CI runs a part. With `--check` the exit
status is 1 where a line is out of tolerance or bits differ, and wrong runs are listed.
"""

from __future__ import annotations

import argparse
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.accuracy.families import Verdict, families, verdicts  # noqa: E402  (after the path is set)


def chosen_families(patterns: list[str]) -> list[str]:
    return [name for name in families() if any(fnmatchcase(name, pattern) for pattern in patterns)]


def wrong_lines(verdict: Verdict) -> list[str]:
    return [
        f"    {run.where}: {run.error:.3g} of the tolerance, {run.ulp:.3g} ulp, "
        f"{'same bits' if run.same_bits else 'bits differ'}"
        for run in verdict.wrong
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("families", nargs="*", default=["*"], help="names or patterns; by default all")
    parser.add_argument("--check", action="store_true", help="exit status 1 where something is wrong")
    options = parser.parse_args()
    chosen = chosen_families(options.families)
    if not chosen:
        parser.error(
            f"no family is called {' or '.join(options.families)}: known are {', '.join(families())}"
        )
    start, runs, wrong = time.process_time(), 0, 0
    for verdict in verdicts(chosen):
        runs, wrong = runs + len(verdict.runs), wrong + len(verdict.wrong)
        print(verdict.line(), flush=True)
        if options.check:
            print("".join(f"{line}\n" for line in wrong_lines(verdict)), end="", flush=True)
    print(f"{runs} runs, {wrong} wrong, {time.process_time() - start:.0f} s of processor time")
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
