"""`python -m tests.fuzz.graphs --seed 0 --count 1000 [--minutes 10] [--jobs 2] [--folder faults]`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from heddle import ops
from tests.fuzz.graphs.farm import run_farm, work


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.graphs")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many graphs")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after that time")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument(
        "--folder", type=Path, default=Path("faults"), help="where minimal models are written"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    ops.load()
    if options.worker:
        for row in work(range(options.seed, options.seed + options.count), options.folder.resolve()):
            print(json.dumps(row), flush=True)
        return 0
    tally = run_farm(options.seed, options.count, options.jobs, options.minutes, options.folder.resolve())
    print(tally.summary())
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
