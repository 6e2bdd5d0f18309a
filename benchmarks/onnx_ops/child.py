"""Rows on both sides: a JSON object a row, as each is done."""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.engines import Session, engine
from benchmarks.engines.engine import Arrays, Model
from benchmarks.measure import OURS, relative_error
from benchmarks.onnx_ops.case import Case, Sizes
from benchmarks.onnx_ops.catalogue import row

PEER = "onnxruntime"
FORMS = {"free": False, "fixed": True}
"""Form of the dimensions → whether they are fixed."""
TURN_MS, MOST_CALLS, LEAST_CALLS = 5.0, 100, 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--repeat", type=int, required=True)
    options = parser.parse_args()
    for name in options.names:
        print(json.dumps(measured(row(name), options.threads, options.repeat)), flush=True)


def measured(case: Case, threads: int, repeat: int) -> dict[str, Any]:
    """A row's milliseconds by size, side and form of the dimensions, and the errors of our outputs."""
    found: dict[str, Any] = {"name": case.name, "sizes": {}}
    try:
        with tempfile.TemporaryDirectory(prefix="heddle-onnx-ops-") as folder:
            sides = _Sides(case, threads, Path(folder))
            for name, sizes in case.sizes.items():
                found["sizes"][name] = _at(case, sizes, sides.at(name), repeat)
    except Exception as error:  # either side may fail in any way: that is the row's result
        lines = str(error).strip().splitlines() or [""]
        found["failed"] = f"{type(error).__name__}: {lines[0][:300]}"
    return found


@dataclass(slots=True)
class _Sides:
    """Sessions of both sides: those with free dimensions serve both sizes, where the weights allow."""

    case: Case
    threads: int
    folder: Path
    free: dict[str, Session] | None = None

    def at(self, size: str) -> dict[str, Session]:
        if self.free is None or self.case.is_sized_by_weights:
            self.free = self._loaded(size, "free")
        return self.free | self._loaded(size, "fixed")

    def _loaded(self, size: str, form: str) -> dict[str, Session]:
        path = self.folder / f"{size}-{form}.onnx"
        onnx.save(self.case.model(self.case.sizes[size], is_fixed=FORMS[form]), str(path))
        model = Model(path, threads=self.threads, varies=not FORMS[form])
        return {f"{side}, {form}": engine(side).load(model) for side in (OURS, PEER)}


def _at(case: Case, sizes: Sizes, sessions: dict[str, Session], repeat: int) -> dict[str, Any]:
    """Turns of all sessions in a new order each; of each session the shortest call."""
    arrays = case.arrays(sizes)
    prepared = {name: session.prepare(arrays) for name, session in sessions.items()}
    results = {name: session.arrays(session.call(prepared[name])) for name, session in sessions.items()}
    best = {name: session.turn([prepared[name]], 1, 1)[0] for name, session in sessions.items()}
    order = np.random.default_rng(0)
    for _ in range(repeat):
        for name in order.permutation(list(sessions)):
            count = int(min(max(TURN_MS / best[name], LEAST_CALLS), MOST_CALLS))
            best[name] = min(best[name], *sessions[name].turn([prepared[name]], 1, count))
    found: dict[str, Any] = {"ms": best, "error": 0.0}
    for form in FORMS:
        mine, theirs = f"{OURS}, {form}", f"{PEER}, {form}"
        found[f"{form}_ratio"] = best[mine] / best[theirs]
        found["error"] = max(found["error"], error_of(case, results[mine], results[theirs]))
    found["is_right"] = found["error"] <= case.tolerance
    return found


def error_of(case: Case, ours: Arrays, theirs: Arrays) -> float:
    """Of random values only the shapes and the element types count."""
    kinds = [
        [(item.shape, item.dtype) for item in side if item.dtype.kind not in "OUT"] for side in (ours, theirs)
    ]
    if kinds[0] != kinds[1]:
        return float("inf")
    return 0.0 if case.is_random else relative_error(ours, theirs)


if __name__ == "__main__":
    main()
