"""Worker processes that judge seeds, and what watches them: one that ends or hangs is a fault of its seed.

A worker writes a line of JSON for each seed that it begins and for each that it has judged. It is replaced
after `RECYCLED_AFTER` seeds, so that what a process gathers has no part in the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from tests.fuzz.graphs import oracle
from tests.fuzz.graphs.grow import is_wide
from tests.fuzz.graphs.judge import ways_of
from tests.fuzz.graphs.report import ten_lines, write
from tests.fuzz.graphs.run import case_of, run_case
from tests.fuzz.graphs.shrink import shrink

RECYCLED_AFTER = 400
HANG_S = 120.0
"""Of processor time; of no work at all, ten times as long. A graph is compiled and run in about a second."""
SHRUNK_PER_KEY = 3
NOT_SUPPORTED = "N0203"
WORKER_SETTINGS = {"HEDDLE_STRICT_RULES": "1", "HEDDLE_NUM_THREADS": "1", "HEDDLE_CACHE": "kernels"}
"""A rule that fails is a fault. A worker compiles by itself, and keeps kernels: a whole program is never met
again. How many threads run a graph, the judge says."""
ROOT = Path(__file__).parents[3]


@dataclass
class Tally:
    """What a run has seen. `faults` maps kind and key to seeds, `refusals` what was said to its
    seeds."""

    kinds: Counter[str] = field(default_factory=Counter)
    nodes: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, list[int]] = field(default_factory=dict)
    explained: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    faults: dict[str, list[int]] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        self.kinds[row["kind"]] += 1
        for name in ("nodes", "explained"):
            getattr(self, name).update(row.get(name, {}))
        for said, count in row.get("refusals", {}).items():
            self.refusals.setdefault(said, []).extend([row["seed"]] * count)
        for name, seconds in row.get("seconds", {}).items():
            self.seconds[name] += seconds
        if row["fault"]:
            self.faults.setdefault(f"{row['kind']}: {row['key']}", []).append(row["seed"])

    def summary(self) -> str:
        graphs = sum(self.kinds.values())
        spent = ", ".join(
            f"{name} {seconds / max(1, graphs):.3f} s" for name, seconds in self.seconds.items()
        )
        lines = [
            f"{graphs} graphs of {sum(self.nodes.values())} nodes, {len(self.nodes)} operators:"
            f" {dict(self.kinds)}"
        ]
        lines.append(f"a graph takes: {spent}")
        lines += [f"{len(seeds):5} {key}: seeds {seeds[:10]}" for key, seeds in self.faults.items()]
        lines += [f"{count:5} explained: {name}" for name, count in self.explained.most_common()]
        by_count = sorted(self.refusals.items(), key=lambda item: -len(item[1]))
        lines += [f"{len(seeds):5} refused: {said}{_seeds_of(said, seeds)}" for said, seeds in by_count]
        return "\n".join(lines)


def _seeds_of(said: str, seeds: list[int]) -> str:
    """Where a refusal was seen; not of operators that are not supported, which are many and looked for."""
    return "" if NOT_SUPPORTED in said else f", seeds {sorted(set(seeds))[:5]}"


def work(seeds: range, folder: Path) -> Iterator[dict[str, Any]]:
    """Judge seeds in this process; faults are shrunk and written, of each key a few."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        yield {"begin": seed}
        oracle.explained.clear()
        started = time.perf_counter()
        case = case_of(seed)
        made = time.perf_counter()
        nodes = Counter(node.op_type for node in case.model.graph.node)
        known = dict(oracle.explained)
        case, verdict, refusals = run_case(case)
        judged = time.perf_counter()
        key = f"{verdict.kind}: {verdict.key}"
        if verdict.is_fault and (seen[key] < SHRUNK_PER_KEY):
            seen[key] += 1
            yield {"begin": seed}  # shrinking has its own time
            small, found = shrink(case, verdict)
            print(ten_lines(small, found, write(small, found, folder)), file=sys.stderr, flush=True)
        yield {
            "seed": seed,
            "kind": verdict.kind,
            "key": verdict.key,
            "fault": verdict.is_fault,
            "nodes": nodes,
            "refusals": Counter(refusals),
            "explained": known,
            "seconds": {"generate": made - started, "judge": judged - made},
        }


def processor_seconds(pid: int) -> float:
    """What a process has used, by Linux's books; elsewhere time on the clock."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return time.monotonic()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class _Worker:
    """One process, and a thread that reads its lines."""

    def __init__(self, seeds: range, folder: Path) -> None:
        words = ["--seed", str(seeds.start), "--count", str(len(seeds)), "--folder", str(folder), "--worker"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.graphs", *words],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**WORKER_SETTINGS, **os.environ},
            text=True,
        )
        self.lines: Queue[str | None] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _next_line(self, hang_s: float) -> str | None:
        """Raises: Empty where the process has worked for `hang_s` and said nothing. A machine may be busy."""
        begun = processor_seconds(self.process.pid)
        for _ in range(10):
            try:
                return self.lines.get(timeout=hang_s)
            except Empty:
                if processor_seconds(self.process.pid) - begun >= hang_s:
                    break
        raise Empty

    def rows(self, hang_s: float) -> Iterator[dict[str, Any]]:
        """The rows of the seeds; the last tells of a hang, or of an end of the process, if there was one."""
        current: int | None = None
        while True:
            try:
                line = self._next_line(hang_s)
            except Empty:
                self.process.kill()
                self.process.wait()
                yield {"seed": current, "kind": "hang", "key": f"{hang_s:.0f} s", "fault": True}
                return
            if line is None:
                status = self.process.wait()
                if status:
                    yield {"seed": current, "kind": "death", "key": f"status {status}", "fault": True}
                return
            row = json.loads(line)
            if "begin" in row:
                current = row["begin"]
            else:
                yield row


def _print(line: str) -> None:
    print(line, flush=True)


def run_farm(
    seed: int,
    count: int,
    jobs: int,
    minutes: float,
    folder: Path,
    tell: Callable[[str], None] = _print,
) -> Tally:
    """Judge `count` seeds from `seed` on in `jobs` processes, for at most `minutes`."""
    tally, lock = Tally(), threading.Lock()
    end = time.monotonic() + 60 * minutes
    starts = iter(range(seed, seed + count, RECYCLED_AFTER))

    def serve() -> None:
        while True:
            with lock:
                start = next(starts, None)
            if start is None or time.monotonic() > end:
                return
            if start > seed:
                tell(f"  {start - seed} graphs begun, {sum(map(len, tally.faults.values()))} faults")
            _serve(range(start, min(start + RECYCLED_AFTER, seed + count)))

    def _serve(seeds: range) -> None:
        while len(seeds) and time.monotonic() < end:
            worker = _Worker(seeds, folder)
            for row in worker.rows(HANG_S):
                with lock:
                    tally.add(row)
                    if row["fault"]:
                        seed = row["seed"] or 0
                        tell(f"seed {seed}: {row['kind']}, {row['key']}, {ways_of(seed, is_wide(seed))}")
                if time.monotonic() > end:
                    worker.process.kill()
                    worker.process.wait()
                    return
                seeds = range((row["seed"] or seeds.start) + 1, seeds.stop)
            if worker.process.returncode == 0:
                return

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally
