"""Commands in processes that are forked from one that has imported the command line already: starting Python
and importing takes longer than most commands. `python -m tests.e2e.forked_commands FD` is that process.

A forked process has its own arguments, environment, folder and standard streams, starts at
`heddle.__main__.run`, and ends as any process does. What the interpreter reads while it starts (`STARTS`) it
cannot have; tests of that, and of what a command imports, start processes of their own.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STARTS = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_")
"""What names of variables begin with that matter when a process starts."""


class CommandServer:
    """Starts a process that forks; it ends with the process that has this object."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                env={**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}{os.pathsep}{ROOT}"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._channel = ours.makefile("rw", encoding="utf-8")

    def can_run(self, environment: Mapping[str, str]) -> bool:
        """Whether a forked process is as good as a new one with this environment."""
        known = self._environment
        changed = {name for name in {*known, *environment} if known.get(name) != environment.get(name)}
        return not any(name.startswith(STARTS) for name in changed)

    def run(
        self,
        args: Sequence[str],
        cwd: Path | None,
        environment: Mapping[str, str],
        timeout_s: int,
        stdin: bytes = b"",
    ) -> tuple[int, str, str]:
        """The exit code, negative for a signal, and what the command wrote. SIGALRM ends it in the end."""
        with tempfile.TemporaryDirectory() as folder:
            streams = [str(Path(folder, name)) for name in ("in", "out", "err")]
            Path(streams[0]).write_bytes(stdin)
            request = {
                "args": list(args),
                "cwd": str(cwd or Path.cwd()),
                "environment": dict(environment),
                "streams": streams,
                "timeout_s": timeout_s,
            }
            self._channel.write(json.dumps(request) + "\n")
            self._channel.flush()
            code = json.loads(self._channel.readline())
            out, err = (Path(path).read_text(encoding="utf-8") for path in streams[1:])
            return code, out, err


def _serve(channel: Any) -> None:
    """Fork for each request. Returns in the forked process, ready for its command; or when nobody asks any
    more, by SystemExit."""
    for line in channel:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            channel.close()
            _become(request)
            return
        _, status = os.waitpid(child, 0)
        channel.write(json.dumps(os.waitstatus_to_exitcode(status)) + "\n")
        channel.flush()
    sys.exit()


def _become(request: dict[str, Any]) -> None:
    signal.alarm(request["timeout_s"])
    for number, path in enumerate(request["streams"]):
        file = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_APPEND if number else 0))
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    sys.argv[1:] = request["args"]


def _import_all() -> None:
    """What commands import, and nothing that reads the environment."""
    import heddle.driver.cli.app
    import heddle.driver.compile
    import heddle.driver.explain
    import heddle.driver.stages
    import heddle.ops
    import heddle.script
    from heddle.support.settings import settings

    if importlib.util.find_spec("onnx"):  # an extra
        import heddle.frontend.onnx
    heddle.ops.load()
    settings.cache_clear()
    gc.collect()
    gc.freeze()  # or each forked process would copy all memory when it ends


if __name__ == "__main__":
    _import_all()
    with socket.socket(fileno=int(sys.argv[1])) as opened:
        _serve(opened.makefile("rw", encoding="utf-8"))
    from heddle.__main__ import run

    sys.exit(run())
