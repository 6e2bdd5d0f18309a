"""Find and call the linker for `export_library("x.so")` and `"x.a"`: the system's linker, else the one in the
extra `link`.

Models that run in this process need no linker, because their code is linked in memory. `create_shared`,
`create_staticlib` and `create_executable` give scripts access to the same tools. The first two can be the
`fcompile` argument of `export_library`.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from heddle.runtime.codes import U0504, U0505
from heddle.support.diagnostics import UsageError
from heddle.support.distribution import pip_install
from heddle.support.files import replacing
from heddle.support.settings import settings

_SYSTEM_LINKERS = ("cc", "gcc", "clang", "ld", "ld.lld")
_DRIVERS = ("cc", "gcc", "clang")
_C_LIBRARIES = ("musl", "android", "uclibc", "ohos")
"""C libraries other than GNU's. A shared library that is linked with one of them does not load on a system
with another one.
"""


def _zig(tool: str) -> list[str] | None:
    if importlib.util.find_spec("ziglang") is None:
        return None
    return [sys.executable, "-m", "ziglang", tool]


def shared_library_command(triple: str = "") -> list[str]:
    """Return the command that links a shared library. Append the objects and `-o FILE`. `triple` names
    another machine or another C library; by default the library is for this machine.

    The setting HEDDLE_LINKER overrides the linker. Raises: UsageError U0504 if there is none.
    """
    chosen = settings().linker
    found = shutil.which(chosen) if chosen else None
    if chosen and found is None:
        raise UsageError(U0504, f"HEDDLE_LINKER is {chosen!r}: there is no such program")
    names = _SYSTEM_LINKERS if not triple else (*_cross_linkers(triple), "ld.lld")
    candidates = [chosen] if chosen else [name for name in names if shutil.which(name)]
    if candidates:
        name = str(candidates[0])
        bind_here = "-Wl,-Bsymbolic" if Path(name).name.endswith(_DRIVERS) else "-Bsymbolic"
        return [name, "-shared", bind_here]
    zig = _zig("ld.lld")
    if zig is not None:
        return [*zig, "-shared", "-Bsymbolic"]
    raise _no_linker(f"a shared library for {triple}" if triple else "a shared library", names)


def c_library_of(triple: str) -> str:
    """Return the C library of Linux that a triple names; "gnu" if it names none."""
    rest = triple.partition("-")[2]
    return next((name for name in _C_LIBRARIES if name in rest), "gnu")


def _cross_linkers(triple: str) -> list[str]:
    """Return the names that distributions give to compiler drivers for another machine or another C
    library.
    """
    usual = f"{triple.partition('-')[0]}-linux-{c_library_of(triple)}"
    drivers = [f"{name}-{tool}" for name in dict.fromkeys((triple, usual)) for tool in ("gcc", "clang")]
    return [*drivers, "musl-gcc"] if usual == f"{platform.machine()}-linux-musl" else drivers


def archive_command() -> list[str]:
    """Return the command that makes a static library. Append the output file and its members. Raises:
    UsageError U0504 if there is no archiver.
    """
    if shutil.which("ar"):
        return ["ar", "rcs"]
    zig = _zig("ar")
    if zig is not None:
        return [*zig, "rcs"]
    raise _no_linker("a static library")


def _no_linker(what: str, names: Sequence[str] = _SYSTEM_LINKERS) -> UsageError:
    return UsageError(
        U0504,
        f"{what} needs a linker, and this machine has none of {', '.join(names)}",
        help=f"{pip_install('link')}, or give the file another suffix for the one-file format",
    )


Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def _listed(paths: Paths) -> list[str]:
    return (
        [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(path) for path in paths]
    )


def _for_linker(command: Sequence[str], words: Sequence[str]) -> list[str]:
    """Convert options for a compiler driver to options for the linker, if the command is a linker."""
    if Path(command[0]).name in _DRIVERS:
        return list(words)
    return [part for word in words for part in (word[4:].split(",") if word.startswith("-Wl,") else [word])]


def create_shared(
    output: str | os.PathLike[str], objects: Paths, options: Sequence[str] = (), cc: str | None = None
) -> None:
    """Link objects, static libraries and linker options into a shared library.

    Raises: UsageError U0504 if there is no linker, U0505 if it fails, S0101 if the output cannot be written.
    """
    command = shared_library_command() if cc is None else [cc, "-shared"]
    words = _for_linker(command, [*_listed(objects), *options])
    with replacing(output) as made:
        run_tool([*command, *words, "-o", str(made)])


def create_staticlib(output: str | os.PathLike[str], inputs: Paths) -> None:
    """Put objects into a new static library. Raises: UsageError U0504 if there is no archiver, U0505,
    S0101.
    """
    with replacing(output) as made:
        run_tool([*archive_command(), str(made), *_listed(inputs)])


def create_executable(
    output: str | os.PathLike[str], objects: Paths, options: Sequence[str] = (), cc: str | None = None
) -> None:
    """Link an executable with a compiler driver. Raises: UsageError U0504 if there is none, U0505, S0101."""
    found = next((name for name in (*([cc] if cc else []), *_DRIVERS) if shutil.which(name)), None)
    command = [found] if found else _zig("cc")
    if command is None:
        raise _no_linker("a program")
    with replacing(output) as made:
        run_tool([*command, *_listed(objects), *options, "-o", str(made)])


def run_tool(command: Sequence[str]) -> None:
    """Run a command. Raises: UsageError U0505 with the command's output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        printed = (done.stderr or done.stdout).strip()[-2000:]
        raise UsageError(U0505, f"{Path(command[0]).name} failed with status {done.returncode}: {printed}")
