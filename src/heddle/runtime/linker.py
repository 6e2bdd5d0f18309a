"""The linker behind `export_library("x.so")` and `"x.a"`: the system's, else the one in the extra `link`.

Running a model in this process needs none of it: code is linked in memory. `create_shared`,
`create_staticlib` and `create_executable` are the same tools for scripts; the first two do as `fcompile`
of `export_library`.
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
"""Besides GNU's. A library that was linked with one of them does not load where there is another."""


def _zig(tool: str) -> list[str] | None:
    if importlib.util.find_spec("ziglang") is None:
        return None
    return [sys.executable, "-m", "ziglang", tool]


def shared_library_command(triple: str = "") -> list[str]:
    """The command that links a shared library; objects and `-o FILE` follow. `triple` is another machine's,
    or for another C library than this one's.

    The setting HEDDLE_LINKER names another one. Raises: UsageError U0504 where there is none.
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
    """The C library of Linux that a triple names; "gnu" where it names none."""
    rest = triple.partition("-")[2]
    return next((name for name in _C_LIBRARIES if name in rest), "gnu")


def _cross_linkers(triple: str) -> list[str]:
    """Compilers' drivers for another machine, or another C library, as distributions call them."""
    usual = f"{triple.partition('-')[0]}-linux-{c_library_of(triple)}"
    drivers = [f"{name}-{tool}" for name in dict.fromkeys((triple, usual)) for tool in ("gcc", "clang")]
    return [*drivers, "musl-gcc"] if usual == f"{platform.machine()}-linux-musl" else drivers


def archive_command() -> list[str]:
    """The command that makes a static library; the file and its members follow. Raises: UsageError U0504."""
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
    """Options of a compiler's driver as the linker itself takes them, where the linker is called."""
    if Path(command[0]).name in _DRIVERS:
        return list(words)
    return [part for word in words for part in (word[4:].split(",") if word.startswith("-Wl,") else [word])]


def create_shared(
    output: str | os.PathLike[str], objects: Paths, options: Sequence[str] = (), cc: str | None = None
) -> None:
    """Link objects, static libraries and linker options into a shared library.

    Raises: UsageError U0504 without a linker, U0505 where it fails, S0101 for a place that cannot be written.
    """
    command = shared_library_command() if cc is None else [cc, "-shared"]
    words = _for_linker(command, [*_listed(objects), *options])
    with replacing(output) as made:
        run_tool([*command, *words, "-o", str(made)])


def create_staticlib(output: str | os.PathLike[str], inputs: Paths) -> None:
    """Put objects into a new static library. Raises: UsageError U0504 without an archiver, U0505, S0101."""
    with replacing(output) as made:
        run_tool([*archive_command(), str(made), *_listed(inputs)])


def create_executable(
    output: str | os.PathLike[str], objects: Paths, options: Sequence[str] = (), cc: str | None = None
) -> None:
    """Link a program, by the driver of a compiler. Raises: UsageError U0504 without one, U0505, S0101."""
    found = next((name for name in (*([cc] if cc else []), *_DRIVERS) if shutil.which(name)), None)
    command = [found] if found else _zig("cc")
    if command is None:
        raise _no_linker("a program")
    with replacing(output) as made:
        run_tool([*command, *_listed(objects), *options, "-o", str(made)])


def run_tool(command: Sequence[str]) -> None:
    """Raises: UsageError U0505 with what the tool printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        printed = (done.stderr or done.stdout).strip()[-2000:]
        raise UsageError(U0505, f"{Path(command[0]).name} failed with status {done.returncode}: {printed}")
