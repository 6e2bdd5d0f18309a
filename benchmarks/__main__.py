"""Heddle and its peers on the same models, in turn.

    python -m benchmarks                                       # everything: hours
    python -m benchmarks --workloads 'bert-*' --threads 1,2 --peers onnxruntime,openvino-f32
    python -m benchmarks --python tvm=/opt/tvm/bin/python --json history.jsonl --page report.html

A mode and a thread count get a process, in which Heddle and the peers take turns. A peer that is not
installed, or that fails on a workload, is skipped with its reason; where its outputs differ, its time does
not count. Modes: `plain` tells each engine its number of threads; `omp1` sets OMP_NUM_THREADS=1 and `pinned`
binds the process to one processor, and both leave the threads to the engines; `busy` is `plain` beside a
process that computes all the time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PATHS = [str(ROOT / "src"), str(ROOT)]
sys.path[:0] = PATHS

from benchmarks.engines import ENGINES  # noqa: E402  (after the path is set)
from benchmarks.measure import OURS  # noqa: E402
from benchmarks.page import page  # noqa: E402
from benchmarks.report import append_history, lines_of, record  # noqa: E402
from benchmarks.workloads import WORKLOADS, chosen  # noqa: E402

MODES = ("plain", "omp1", "pinned", "busy")
_OWN_CHOICE = ("omp1", "pinned")
_THREAD_VARIABLES = ("HEDDLE_NUM_THREADS", "OMP_NUM_THREADS", "TVM_NUM_THREADS")


def main() -> int:
    options = _parse()
    if options.list:
        print("\n".join(WORKLOADS))
        return 0
    workloads = [workload.name for workload in chosen(options.workloads.split(","))]
    results: list[dict[str, Any]] = []
    status = 0
    for mode in options.modes.split(","):
        counts = [None] if mode in _OWN_CHOICE else [int(item) for item in options.threads.split(",")]
        for threads in counts:
            status |= _run_child(options, mode, threads, workloads, results)
    run = record(results, {key: str(value) for key, value in vars(options).items()})
    if options.json:
        append_history(options.json, run)
    if options.page:
        options.page.write_text(page(run))
    return status


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    peers = [name for name in ENGINES if name != OURS]
    parser.add_argument("--workloads", default="*", help="names or patterns, with commas (see --list)")
    parser.add_argument("--peers", default=",".join(peers), help=f"of {', '.join(peers)}")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--modes", default="plain", help=f"of {', '.join(MODES)}")
    parser.add_argument("--repeat", type=int, default=15, help="counted passes of each engine")
    parser.add_argument(
        "--python", action="append", default=[], metavar="PEER=PATH", help="the interpreter a peer lives in"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="append the run to a history file")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write a page with plots")
    parser.add_argument("--list", action="store_true", help="list the workloads")
    options = parser.parse_args()
    for known, given, what in (
        (MODES, options.modes.split(","), "mode"),
        (peers, [name for name in options.peers.split(",") if name], "peer"),
        (peers, [item.partition("=")[0] for item in options.python], "peer"),
    ):
        for name in given:
            if name not in known:
                parser.error(f"unknown {what} {name!r}: known are {', '.join(known)}")
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    return options


def _run_child(
    options: argparse.Namespace,
    mode: str,
    threads: int | None,
    workloads: list[str],
    results: list[dict[str, Any]],
) -> int:
    """Run the workloads of one mode and thread count; results are printed as they come."""
    command = [sys.executable, "-m", "benchmarks.child", "--mode", mode, "--peers", options.peers]
    command += ["--workloads", ",".join(workloads), "--repeat", str(options.repeat)]
    command += [] if threads is None else ["--threads", str(threads)]
    for item in options.python:
        command += ["--python", item]
    env = {name: value for name, value in os.environ.items() if name not in _THREAD_VARIABLES}
    env["PYTHONPATH"] = os.pathsep.join([*PATHS, env.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    if mode == "omp1":
        env["OMP_NUM_THREADS"] = "1"
    if threads is not None:
        env["HEDDLE_NUM_THREADS"] = str(threads)
    first = min(os.sched_getaffinity(0))
    bind = (lambda: os.sched_setaffinity(0, {first})) if mode == "pinned" else None
    with (
        _company(mode == "busy"),
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if sys.stderr is None else None,
            text=True,
            env=env,
            cwd=ROOT,
            preexec_fn=bind,
        ) as child,
    ):
        assert child.stdout is not None
        for line in child.stdout:
            results.append(json.loads(line))
            print("\n".join(lines_of(results[-1])), flush=True)
    if child.returncode:
        print(f"{mode}, {threads} threads: ended with status {child.returncode}", file=sys.stderr)
    return 1 if child.returncode else 0


@contextmanager
def _company(wanted: bool) -> Iterator[None]:
    """A process beside that computes all the time."""
    if not wanted:
        yield
        return
    beside = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        beside.kill()
        beside.wait()


if __name__ == "__main__":
    raise SystemExit(main())
