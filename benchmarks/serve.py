"""An engine in a process of its own: `python -m benchmarks.serve NAME`, messages as JSON lines on standard
input and output. Arrays travel as files of numpy.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import Session, Unavailable, engine
from benchmarks.engines.engine import Arrays, Model


def save_arrays(path: str, arrays: Arrays) -> None:
    np.savez(path, *arrays)


def load_arrays(path: str) -> Arrays:
    with np.load(path) as stored:
        return [stored[name] for name in stored.files]


class _Server:
    def __init__(self, name: str) -> None:
        self._engine = engine(name)
        self._session: Session | None = None
        self._requests: list[Any] = []

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        return getattr(self, f"do_{message.pop('do')}")(**message)  # type: ignore[no-any-return]

    def do_hello(self) -> dict[str, Any]:
        return {
            "version": self._engine.version(),
            "tolerance": self._engine.tolerance,
            "is_reduced": self._engine.is_reduced,
        }

    def do_load(self, path: str, torch_key: str, threads: int | None, varies: bool) -> dict[str, Any]:
        self._requests.clear()
        self._session = self._engine.load(Model(Path(path), torch_key, threads, varies))
        return {}

    def do_prepare(self, path: str) -> dict[str, Any]:
        assert self._session is not None
        self._requests.append(self._session.prepare(load_arrays(path)))
        return {"request": len(self._requests) - 1}

    def do_call(self, request: int, path: str) -> dict[str, Any]:
        assert self._session is not None
        save_arrays(path, self._session.arrays(self._session.call(self._requests[request])))
        return {}

    def do_turn(self, requests: list[int], idle: int, count: int) -> dict[str, Any]:
        assert self._session is not None
        return {"times": self._session.turn([self._requests[index] for index in requests], idle, count)}


def main() -> None:
    # What engines print must not get between the messages.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server: _Server | None = None
    for line in sys.stdin:
        try:
            server = server or _Server(sys.argv[1])
            answer = server.answer(json.loads(line))
        except Unavailable as error:
            answer = {"unavailable": str(error)}
        except Exception as error:  # an engine may fail in any way; the harness tells it and goes on
            answer = {"unavailable": f"{type(error).__name__}: {str(error).strip()[:300]}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
