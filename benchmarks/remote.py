"""An engine that runs in another interpreter (see `serve`), behind the same interface."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.engines.engine import Arrays, Engine, Model, Session, Unavailable
from benchmarks.serve import load_arrays, save_arrays

ROOT = Path(__file__).resolve().parent.parent


class RemoteEngine(Engine):
    """Raises: Unavailable where the process does not start or has no such engine."""

    def __init__(self, name: str, python: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="heddle-bench-remote-")
        try:
            self._process = subprocess.Popen(
                [python, "-m", "benchmarks.serve", name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=ROOT,
            )
        except OSError as error:
            raise Unavailable(f"{python}: {error.strerror}") from error
        facts = self.ask(do="hello")
        self._version, self.tolerance, self.is_reduced = (  # type: ignore[misc]
            facts[key] for key in ("version", "tolerance", "is_reduced")
        )

    def ask(self, **message: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(json.dumps(message), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise Unavailable("its process ended") from None
        line = self._process.stdout.readline()
        if not line:
            raise Unavailable(f"its process ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "unavailable" in answer:
            raise Unavailable(answer["unavailable"])
        return answer

    def version(self) -> str:
        return str(self._version)

    def load(self, model: Model) -> Session:
        self.ask(
            do="load",
            path=str(model.path),
            torch_key=model.torch_key,
            threads=model.threads,
            varies=model.varies,
        )
        return _RemoteSession(self, Path(self._folder.name) / "arrays.npz")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._folder.cleanup()


class _RemoteSession(Session):
    def __init__(self, engine: RemoteEngine, path: Path) -> None:
        self._engine, self._path = engine, str(path)

    def prepare(self, arrays: Arrays) -> int:
        save_arrays(self._path, arrays)
        return int(self._engine.ask(do="prepare", path=self._path)["request"])

    def call(self, prepared: int) -> Arrays:
        self._engine.ask(do="call", request=prepared, path=self._path)
        return load_arrays(self._path)

    def arrays(self, result: Arrays) -> Arrays:
        return result

    def turn(self, requests: Sequence[int], idle: int, count: int) -> list[float]:
        answer = self._engine.ask(do="turn", requests=list(requests), idle=idle, count=count)
        return [float(item) for item in answer["times"]]
