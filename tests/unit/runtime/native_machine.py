"""The native library's sources in the checking interpreter."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from heddle.driver.native_text import PARTS, native_program
from heddle.runtime.native import abi
from heddle.runtime.native.methods import CONTENT_OFFSET
from heddle.systems.interpret import Machine
from heddle.systems.models import MODELS, nothing
from heddle.systems.program import Program, read_program
from heddle.systems.types import i64, sized

POOL = abi.Pool.layout
_PLATFORM = {
    "SIG_BLOCK": 0,
    "STACK_BYTES": 4 << 20,
    "STACK_RESERVE_BYTES": 128 << 10,
    "HAS_SEGMENTS": 1,
    "SC_NPROCESSORS": 84,
    "MAX_THREADS": 1024,
    "SPINS": 10,
    "BYTES_CONTENT": CONTENT_OFFSET,
    "TUPLE_ITEMS": tuple.__basicsize__,
}
_program: list[Program] = []
_numbers = itertools.count()
_ORDERS = "\nfrom heddle.systems.words import ACQ_REL, ACQUIRE, RELAXED, RELEASE, SEQ_CST\n"


def real_program() -> Program:
    if not _program:
        _program.append(native_program())
    return _program[0]


def changed_program(folder: Path, source: ModuleType, old: str, new: str) -> Program:
    """The library with one of its sources changed: a package of copies, which import each other."""
    assert Path(source.__file__ or "").read_text().count(old) == 1, f"expected one {old!r}"
    package, home = f"changed_{next(_numbers)}", source.__name__.rpartition(".")[0]
    (folder / package).mkdir()
    for module in [__import__(home, fromlist=["*"]), *_sources()]:
        path = Path(module.__file__ or "")
        text = path.read_text()
        if module is source:
            text = text.replace(old, new) + _ORDERS
        (folder / package / path.name).write_text(text.replace(home, package))
    sys.path.insert(0, str(folder))
    try:
        names = [f"{package}.{module.__name__.rpartition('.')[2]}" for module in _listed()]
        return read_program([importlib.import_module(name) for name in names])
    finally:
        sys.path.remove(str(folder))


def _listed() -> list[ModuleType]:
    return [module for modules in PARTS.values() for module in modules]


def _sources() -> list[ModuleType]:
    """The modules of the program, and those that have nothing but what is put in place of calls."""
    program = real_program()
    return [sys.modules[name] for name in {tree.declared.module for tree in program.functions.values()}]


def machine_of(
    program: Program | None = None,
    seed: int = 0,
    externals: Mapping[str, Callable[..., Any]] | None = None,
    **options: Any,
) -> Machine:
    """A machine with the thread records set up. A simulated thread runs on a processor of its own.
    `externals` are what other functions of the system, or of Python, do."""
    models = {
        **MODELS,
        "current_cpu": lambda machine: machine.state.get("cpu", machine.scheduler.current.number),
        "advise_huge_pages": nothing,
        "read_processors": nothing,
        "choose_processors": nothing,
        "frame_address": lambda machine: machine.state["frame"],
        "stack_end": lambda machine, me: machine.state["stack_end"],
        "pthread_self": lambda machine: machine.scheduler.current.number + 1,
        "signed_product": _signed_product,
        "run_on": _run_on,
        **(externals or {}),
    }
    machine = Machine(
        program or real_program(),
        models=models,
        seed=seed,
        platform=_PLATFORM,
        counted=abi.Head.layout,
        **options,
    )
    assert machine.call("heddle_thread_setup") == 0
    machine.call("heddle_pool_reset")
    return machine


def _signed_product(machine: Machine, left: int, right: int) -> tuple[int, int]:
    whole = left * right
    return i64.wrap(whole), int(whole != i64.wrap(whole))


def _run_on(machine: Machine, top: int, code: int, *args: int) -> int:
    """Code on another stack: its frames lie below `top`. Functions of the host take five arguments, those of
    programs three."""
    here, machine.state["frame"] = machine.state.get("frame"), top - 1000
    try:
        return int(machine.call_address(code, args if args[-1] else args[:3], None) or 0)
    finally:
        machine.state["frame"] = here


def new_pool(machine: Machine, **fields: int) -> int:
    """A pool of memory; its books are those of `storage.Allocator`."""
    pool = machine.new(POOL, "pool")
    given = {"limit_bytes": -1, "failing_allocation": -1, "keeps_blocks": 1, **fields}
    for name, value in given.items():
        field = POOL.fields[name]
        machine.store(pool + field.offset_bytes, sized(field.type), value)
    return pool


def books(machine: Machine, pool: int, *names: str) -> tuple[int, ...]:
    return tuple(machine.field(pool, POOL, name) for name in names)


def last_error(machine: Machine) -> tuple[int, int, int, str]:
    """The word, the numbers and the message of the thread's error."""
    at = machine.call("heddle_thread")
    error = abi.Error.layout
    numbers = [machine.field(at, error, name) for name in ("word", "expected", "got")]
    assert machine.load(at, i64) & 0xFFFFFFFF == 1
    message = machine.text(at + error.fields["message"].offset_bytes)
    return (*numbers, message)  # type: ignore[return-value]
