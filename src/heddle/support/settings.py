"""The one place where environment variables are read.

| variable | meaning |
|---|---|
| HEDDLE_NUM_THREADS, OMP_NUM_THREADS | threads of parallel loops; default: the cores this process may use |
| HEDDLE_CACHE_DIR, XDG_CACHE_HOME | where compiled programs and kernels are kept; default: ~/.cache/heddle |
| HEDDLE_CACHE_SIZE | how much is kept there, in bytes or as `500M`, `2G`; default: 2 GiB |
| HEDDLE_CACHE=0 | nothing is kept on disk; with `kernels`, kernels are kept and whole programs are not |
| HEDDLE_LINKER | the program that links shared libraries; default: the system's |
| HEDDLE_CC, HEDDLE_CXX | the compilers of C and C++ sources in a program; default: the system's |
| HEDDLE_TRACEBACK=1 | the CLI shows Python tracebacks |
| HEDDLE_STRICT_RULES=1 | a schedule rule that fails ends the compilation; otherwise the next rule is tried |
| HEDDLE_PRINT_AFTER=A,B | print the module after each run of these passes, or of `all`, to standard error |
| HEDDLE_DUMP | a folder; the module after each pass is written there, to a numbered file |
| NO_COLOR | `show()` prints without colours in a terminal |
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from heddle.support.codes import S0301
from heddle.support.diagnostics import HeddleWarning, UsageError, did_you_mean
from heddle.support.frozen import frozen

DEFAULT_CACHE_BYTES = 2 << 30


@frozen
class Settings:
    num_threads: int
    cache_dir: Path
    use_disk_cache: bool
    show_traceback: bool
    linker: str | None = None
    c_compiler: str | None = None
    cpp_compiler: str | None = None
    strict_rules: bool = False
    cache_limit_bytes: int = DEFAULT_CACHE_BYTES
    cache_programs: bool = True
    print_after: tuple[str, ...] = ()
    dump_dir: Path | None = None


def _thread_count(env: Mapping[str, str], available: int) -> int:
    for name in ("HEDDLE_NUM_THREADS", "OMP_NUM_THREADS"):
        text = env.get(name, "").split(",")[0].strip()
        if not text:
            continue
        if re.fullmatch("0*[1-9][0-9]{0,8}", text, re.ASCII) is None:
            raise UsageError(S0301, f"{name} must be a positive integer, got {text!r}")
        return int(text)
    return available


def wants_no_colours() -> bool:
    """Whether text in a terminal is to have no colours (https://no-color.org)."""
    return "NO_COLOR" in os.environ


def available_cores() -> int:
    """Cores this process may run on: its affinity mask, cut by the cgroup's CPU quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return cores
    if quota == "max":
        return cores
    return max(1, min(cores, -(-int(quota) // int(period))))


@cache
def system_memory_bytes() -> int | None:
    """The memory of this machine with its swap space, or what the control group allows where that is less.
    None where the system does not tell."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    found = [int(size) for size in re.findall(r"^(?:MemTotal|SwapTotal): *([0-9]+) kB$", text, re.MULTILINE)]
    sizes = [1024 * sum(found)] if found else []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max" is no number, and no limit
            sizes.append(int(Path("/sys/fs/cgroup", name).read_text()))
    return min(sizes, default=None)


def can_start_python() -> bool:
    """Whether this process knows a Python to start: one inside another program, or frozen, does not."""
    name = Path(sys.executable or "").name.lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


def environment_of_python() -> dict[str, str]:
    """The environment for another Python that shall find the modules that this one finds, and no others."""
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    return {**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}


def _cache_dir(env: Mapping[str, str]) -> Path:
    """Without a home, a folder of the user's own among the temporary files; the cache checks its owner."""
    if env.get("HEDDLE_CACHE_DIR"):
        return Path(env["HEDDLE_CACHE_DIR"])
    if env.get("XDG_CACHE_HOME") and Path(env["XDG_CACHE_HOME"]).is_absolute():
        return Path(env["XDG_CACHE_HOME"]) / "heddle"
    if env.get("HOME"):
        return Path(env["HOME"]) / ".cache" / "heddle"
    import tempfile  # it loads `shutil` and `random`, which nobody who has a home needs

    user = os.geteuid() if hasattr(os, "geteuid") else "user"
    return Path(tempfile.gettempdir()) / f"heddle-cache-{user}"


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _size_bytes(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "").strip()
    if not text:
        return default
    found = re.fullmatch(r"([0-9]{1,15})([KMGT]?)(?:i?B)?", text, re.IGNORECASE | re.ASCII)
    if found is None:
        raise UsageError(S0301, f"{name} must be a size such as 500M or 2G, got {text!r}")
    return int(found[1]) * _UNITS[found[2].upper()]


def _switch(env: Mapping[str, str], name: str, default: bool) -> bool:
    text = env.get(name, "").strip()
    if text not in ("", "0", "1"):
        raise UsageError(S0301, f"{name} must be 0 or 1, got {text!r}")
    return text == "1" if text else default


def _cache_use(env: Mapping[str, str]) -> str:
    """What is kept on disk: "" for nothing, "kernels", or "all"."""
    text = env.get("HEDDLE_CACHE", "").strip()
    if text not in ("", "0", "1", "kernels"):
        raise UsageError(S0301, f"HEDDLE_CACHE must be 0, 1 or kernels, got {text!r}")
    return {"0": "", "kernels": "kernels"}.get(text, "all")


def traceback_wanted(env: Mapping[str, str] | None = None) -> bool:
    """Whether the CLI shows Python's tracebacks: also where another setting is wrong."""
    return (os.environ if env is None else env).get("HEDDLE_TRACEBACK", "").strip() == "1"


def read_settings(env: Mapping[str, str]) -> Settings:
    """Read settings from `env`. Passes that somebody watches have to run, so nothing is kept on disk then.

    Raises: UsageError S0301 for a malformed value.
    """
    print_after = tuple(re.findall(r"[^\s,]+", env.get("HEDDLE_PRINT_AFTER", "")))
    dump_dir = Path(env["HEDDLE_DUMP"]) if env.get("HEDDLE_DUMP") else None
    is_watched = bool(print_after) or dump_dir is not None
    return Settings(
        num_threads=_thread_count(env, available_cores()),
        cache_dir=_cache_dir(env),
        use_disk_cache=_cache_use(env) != "" and not is_watched,
        show_traceback=_switch(env, "HEDDLE_TRACEBACK", False),
        linker=env.get("HEDDLE_LINKER") or None,
        c_compiler=env.get("HEDDLE_CC") or None,
        cpp_compiler=env.get("HEDDLE_CXX") or None,
        strict_rules=_switch(env, "HEDDLE_STRICT_RULES", False),
        cache_limit_bytes=_size_bytes(env, "HEDDLE_CACHE_SIZE", DEFAULT_CACHE_BYTES),
        cache_programs=_cache_use(env) == "all" and not is_watched,
        print_after=print_after,
        dump_dir=dump_dir,
    )


_KNOWN = frozenset(re.findall("HEDDLE_[A-Z_]+", __doc__ or ""))


def unknown_variables(env: Mapping[str, str]) -> list[str]:
    """Variables that look like settings, and are none; none where docstrings are left out."""
    ours = [name for name in sorted(env) if name.startswith("HEDDLE_")]
    return [name for name in ours if name not in _KNOWN] if _KNOWN else []


@cache
def settings() -> Settings:
    """This process's settings, read once. Of variables that look like settings it warns."""
    for name in unknown_variables(os.environ):
        hint = did_you_mean(name, _KNOWN) or "the page of settings lists all"
        warnings.warn(f"the environment variable {name} is no setting; {hint}", HeddleWarning, stacklevel=2)
    return read_settings(os.environ)
