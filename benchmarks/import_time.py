"""How long imports take in a fresh process: the median of several, in milliseconds.

python benchmarks/import_time.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys

MODULES = (
    "numpy",
    "heddle",
    "heddle.runtime",
    "heddle.vm",
    "heddle.vm.relax",
    "heddle.graph",
    "heddle.relax",
    "heddle.driver.compile",
)
RUNS = 7
PROGRAM = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def import_ms(module: str) -> float:
    """The time of one import in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module)], capture_output=True, text=True, check=True
    )
    return float(done.stdout) * 1e3


if __name__ == "__main__":
    for name in MODULES:
        sys.stdout.write(f"{name:<24} {statistics.median(import_ms(name) for _ in range(RUNS)):8.1f} ms\n")
