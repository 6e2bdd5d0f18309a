"""C that users bring along: sources in the attribute `c_source` of external functions, compiled and imported.

    twice = ExternFunc("twice", attrs={"c_source": text, "c_source_fmt": "c"})

The text includes `heddle_kernel.h` and defines `HEDDLE_KERNEL(twice)`. Functions with the same text share a
module.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from heddle.codegen.codes import G0201, G0202, G0203
from heddle.ir.expr import ExternFunc
from heddle.ir.module import IRModule
from heddle.ir.visitor import walk
from heddle.runtime import native as native_package
from heddle.runtime.kernel_module import CSourceModule
from heddle.runtime.native.elf import has_constructors
from heddle.runtime.native.library import kernel_symbol
from heddle.runtime.needs import platform_of
from heddle.support.diagnostics import UsageError
from heddle.support.distribution import pip_install
from heddle.support.parts import PartFolder
from heddle.support.settings import settings
from heddle.target import Target
from heddle.target.host import host

C_SOURCE, C_SOURCE_FMT = "c_source", "c_source_fmt"
_COMPILERS = {"c": ("cc", "gcc", "clang"), "cc": ("c++", "g++", "clang++")}
_ZIG = {"c": "cc", "cc": "c++"}
_FLAGS = ("-fPIC", "-fno-stack-protector", "-c")
HEADERS = Path(str(native_package.__file__)).parent
"""Where the headers lie."""


def c_sources(mod: IRModule) -> dict[tuple[str, str], list[str]]:
    """Source and format → the functions that it defines, of all external functions in a module."""
    found: dict[tuple[str, str], list[str]] = {}
    for func in mod.functions.values():
        for node in walk(func):
            if isinstance(node, ExternFunc) and C_SOURCE in node.attrs:
                key = str(node.attrs[C_SOURCE]), str(node.attrs.get(C_SOURCE_FMT, "c"))
                names = found.setdefault(key, [])
                if node.global_symbol not in names:
                    names.append(node.global_symbol)
    return found


def c_source_modules(mod: IRModule, target: Target) -> list[CSourceModule]:
    """A module for each source.

    Raises: UsageError G0201 without a compiler, G0202 where it fails, G0203 for another format, another
    target or a source without the function.
    """
    return [
        CSourceModule(compile_c_source(text, fmt, names, target), names, str(target), fmt, text)
        for (text, fmt), names in c_sources(mod).items()
    ]


def compile_c_source(text: str, fmt: str, names: list[str], target: Target) -> bytes:
    """The object code of a source that defines `names`. Raises: as `c_source_modules`."""
    if fmt not in _COMPILERS:
        raise UsageError(G0203, f"c_source_fmt of {', '.join(names)}: expected 'c' or 'cc', got {fmt!r}")
    machine, wanted = platform_of(host().triple), platform_of(target.mtriple)
    if machine != wanted:
        raise UsageError(
            G0203,
            f"C source of {', '.join(names)} cannot be compiled for {wanted}: this machine is {machine}",
        )
    code = compile_text(text, fmt, ", ".join(names), ("-O2",))
    for name in names:
        if kernel_symbol(name).encode() + b"\0" not in code:
            raise UsageError(
                G0203, f"C source does not define {name!r}", help=f"it needs HEDDLE_KERNEL({name}) {{ ... }}"
            )
    if has_constructors(code):
        raise UsageError(
            G0203,
            f"C source of {', '.join(names)} has constructors, and nothing runs them where it is linked",
            help="compute static values in the kernel, at its first call",
        )
    return code


def compile_text(text: str, fmt: str, what: str, options: Sequence[str] = ()) -> bytes:
    """The object code of a source, by the system's compiler; our headers are found. `what` names it in
    messages. Raises: UsageError G0201 without a compiler, G0202 where it fails.
    """
    with PartFolder(Path(tempfile.gettempdir(), "heddle-c-source")) as folder:
        source, made = folder.path / f"source.{fmt}", folder.path / "source.o"
        source.write_text(text)
        command = [*compiler_command(fmt), *_FLAGS, *options, f"-I{HEADERS}", str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            printed = (done.stderr or done.stdout).replace(str(source), source.name).strip()[-2000:]
            raise UsageError(G0202, f"C source of {what} does not compile: {printed}")
        return made.read_bytes()


def compiler_command(fmt: str) -> list[str]:
    """The program that compiles a format. Raises: UsageError G0201 where there is none."""
    chosen = settings().c_compiler if fmt == "c" else settings().cpp_compiler
    candidates = [chosen] if chosen else _COMPILERS[fmt]
    for name in candidates:
        if shutil.which(name):
            return [name]
    if chosen is None and find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", _ZIG[fmt]]
    raise UsageError(
        G0201,
        f"C source needs a compiler, and this machine has none of {', '.join(candidates)}",
        help=f"{pip_install('link')}, or name one in HEDDLE_CC (C) or HEDDLE_CXX (C++)",
    )
