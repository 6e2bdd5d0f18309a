"""Running the command line in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.e2e.forked_commands import CommandServer

SOURCE = Path(__file__).parents[2] / "src"
TIMEOUT_S = 300

DENSE = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 4), "float32"), s: R.Tensor(("n",), "int64")
    ) -> R.Tensor(("n", 4), "float32"):
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            z = R.add(y, R.expand_dims(R.astype(s, "float32"), 1))
            R.output(z)
        return z
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def failed_with(self, diagnostic: str, *words: str, code: int = 1) -> None:
        """Check that the command ended with a coded message that has `words`, and without a traceback."""
        assert self.code == code, (self.code, self.err)
        assert self.err.startswith(f"error[{diagnostic}]: "), self.err
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err, self.err


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "200", **extra}


def heddle(*args: object, cwd: Path | None = None, stdin: bytes = b"", **env: str) -> Done:
    """Run a command in a process of its own, forked where that makes no difference."""
    wanted = environment(**env)
    if not _server().can_run(wanted):
        return heddle_anew(*args, cwd=cwd, stdin=stdin, **env)
    return Done(*_server().run([*map(str, args)], cwd, wanted, TIMEOUT_S, stdin))


def heddle_anew(*args: object, cwd: Path | None = None, stdin: bytes = b"", **env: str) -> Done:
    """Run a command in a new process, which imports all that it needs."""
    done = subprocess.run(
        [sys.executable, "-m", "heddle", *map(str, args)],
        capture_output=True,
        input=stdin,
        check=False,
        cwd=cwd,
        env=environment(**env),
        timeout=TIMEOUT_S,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@cache
def _server() -> CommandServer:
    return CommandServer(environment())
