"""The native library's sources in the checking interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from heddle.driver.native_text import native_program
from heddle.runtime.native import abi
from heddle.runtime.native.source import fork_join, memory, thread
from heddle.systems.interpret import Machine
from heddle.systems.models import MODELS, nothing
from heddle.systems.program import Program, read_program
from heddle.systems.types import i64, sized
from tests.unit.systems.sources import module_at

POOL = abi.Pool.layout
_PLATFORM = {"SIG_BLOCK": 0, "STACK_BYTES": 4 << 20, "STACK_RESERVE_BYTES": 128 << 10}
_program: list[Program] = []


def real_program() -> Program:
    if not _program:
        _program.append(native_program())
    return _program[0]


def changed_program(folder: Any, source: ModuleType, old: str, new: str) -> Program:
    """The library with one of its sources changed."""
    text = Path(source.__file__ or "").read_text()
    assert text.count(old) == 1, f"expected one {old!r}"
    path = folder / "changed.py"
    words = "\nfrom heddle.systems.words import ACQ_REL, ACQUIRE, RELAXED, RELEASE, SEQ_CST\n"
    path.write_text(text.replace(old, new) + words)
    changed = module_at(path, f"changed_{source.__name__.replace('.', '_')}_{folder.name}")
    others = (thread, memory, fork_join)
    if source not in others:
        return read_program([*others, changed])
    return read_program([changed if item is source else item for item in others])


def machine_of(
    program: Program | None = None,
    seed: int = 0,
    externals: Mapping[str, Callable[..., Any]] | None = None,
    **options: Any,
) -> Machine:
    """A machine with the thread records set up. A simulated thread runs on a processor of its own.
    `externals` are what hand-written parts of the library do."""
    models = {
        **MODELS,
        "current_cpu": lambda machine: machine.state.get("cpu", machine.scheduler.current.number),
        "advise_huge_pages": nothing,
        "frame_address": lambda machine: machine.state["frame"],
        "stack_end": lambda machine: machine.state["stack_end"],
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
