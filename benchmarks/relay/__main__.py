"""`python -m benchmarks.relay [tree-lstm lstm beam networks executors instructions] [--threads 1,2]`.

Each row compares outputs first, then takes times in turn. A thread count gets a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks.relay import beam, executors, instructions, lstm, networks, tree_lstm
from heddle.runtime.native.library import set_num_threads

ROWS = {
    "tree-lstm": tree_lstm.rows,
    "lstm": lstm.rows,
    "beam": beam.rows,
    "networks": networks.rows,
    "executors": executors.rows,
    "instructions": instructions.rows,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relay", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(ROWS), metavar="ROW")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--here", action="store_true", help="in this process, with the first thread count")
    options = parser.parse_args()
    counts = [int(item) for item in options.threads.split(",")]
    if not options.here:
        words = [sys.executable, "-m", "benchmarks.relay", *options.names, "--here", "--threads"]
        return max(subprocess.run([*words, str(count)], check=False).returncode for count in counts)
    set_num_threads(counts[0])
    for name in options.names:
        for line in ROWS[name](counts[0]):
            print(f"{counts[0]} threads  {name:12} {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
