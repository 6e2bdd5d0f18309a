"""The linker behind `export_library("x.so")` and `"x.a"`: the system's, else the one in the extra `link`.

Running a model in this process needs none of it: code is linked in memory.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from heddle.runtime.codes import U0504, U0505
from heddle.support.diagnostics import UsageError
from heddle.support.settings import settings

_SYSTEM_LINKERS = ("cc", "gcc", "clang", "ld", "ld.lld")
_DRIVERS = ("cc", "gcc", "clang")


def _zig(tool: str) -> list[str] | None:
    if importlib.util.find_spec("ziglang") is None:
        return None
    return [sys.executable, "-m", "ziglang", tool]


def shared_library_command() -> list[str]:
    """The command that links a shared library; objects and `-o FILE` follow.

    The setting HEDDLE_LINKER names another one. Raises: UsageError U0504 where there is none.
    """
    chosen = settings().linker
    found = shutil.which(chosen) if chosen else None
    if chosen and found is None:
        raise UsageError(U0504, f"HEDDLE_LINKER is {chosen!r}: there is no such program")
    candidates = [chosen] if chosen else [name for name in _SYSTEM_LINKERS if shutil.which(name)]
    if candidates:
        name = str(candidates[0])
        bind_here = "-Wl,-Bsymbolic" if Path(name).name in _DRIVERS else "-Bsymbolic"
        return [name, "-shared", bind_here]
    zig = _zig("ld.lld")
    if zig is not None:
        return [*zig, "-shared", "-Bsymbolic"]
    raise _no_linker("a shared library")


def archive_command() -> list[str]:
    """The command that makes a static library; the file and its members follow. Raises: UsageError U0504."""
    if shutil.which("ar"):
        return ["ar", "rcs"]
    zig = _zig("ar")
    if zig is not None:
        return [*zig, "rcs"]
    raise _no_linker("a static library")


def _no_linker(what: str) -> UsageError:
    return UsageError(
        U0504,
        f"{what} needs a linker, and this machine has none of {', '.join(_SYSTEM_LINKERS)}",
        help="pip install 'heddle[link]', or give the file another suffix for the one-file format",
    )


def run_tool(command: Sequence[str]) -> None:
    """Raises: UsageError U0505 with what the tool printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        printed = (done.stderr or done.stdout).strip()[-2000:]
        raise UsageError(U0505, f"{Path(command[0]).name} failed with status {done.returncode}: {printed}")
