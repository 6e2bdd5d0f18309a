"""Compiled programs on disk, by what they were compiled from: the second process that compiles a model loads
it.

The key is a digest of the whole module (names and places count, as messages and listings show them; tensors
by their bits), of the options, the target, the limits and settings that passes read, LLVM's version, and this
package's sources. What is kept is the program's artefact, behind zero bytes that align its sections, in the
user's `PrivateCache`: nobody else can put code there, so the artefact needs no digests of its own.

A program is compiled anew where something could differ that the key does not hold: passes chosen or watched
by a PassContext, pipelines of one's own, operators that were declared or replaced outside of this package, C
source (it may include any header), a module with free variables. Programs that compile at once, and those of
more than a quarter of the cache's size, are not kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

import llvmlite

from heddle.ir.expr import Constant
from heddle.ir.module import IRModule
from heddle.ir.op import OP_RECORDS
from heddle.ir.op_def import OpDef
from heddle.ir.structural import labelled_digest
from heddle.ir.tensor_values import keys_at_hand
from heddle.ir.transform import PassContext
from heddle.ir.visitor import walk_distinct
from heddle.runtime.artefact import ALIGN_BYTES, section_table
from heddle.runtime.artefact_file import artefact_pieces
from heddle.runtime.kernel_module import CSourceModule
from heddle.runtime.module import Module, module_sections, modules_from_sections
from heddle.support.background import in_background, settle
from heddle.support.diagnostics import FormatError, UsageError
from heddle.support.frozen import frozen
from heddle.support.limits import current_limits
from heddle.support.private_cache import HEAD_BYTES, PrivateCache
from heddle.support.settings import settings
from heddle.support.sources import sources_digest
from heddle.target import Target
from heddle.vm.relax.executable import VMExecutable

_PADDING = bytes(-HEAD_BYTES % ALIGN_BYTES)
_LARGEST_SHARE = 4
"""A program may take this part of the cache at most: one over it."""
_SMALL_BYTES = 16 << 20
"""A larger program is written while its user goes on: the weights of a model take seconds."""


@frozen
class BuildOptions:
    """What the default pipeline compiles for, beside the target."""

    exec_mode: str
    precision: str
    sanitize: bool


@dataclass(slots=True)
class ProgramCache:
    """`folder` is None where nothing is kept. Only what took `least_s` seconds to compile is."""

    folder: PrivateCache | None
    least_s: float = 0.1
    hits: int = field(default=0)

    def get(
        self, mod: IRModule, target: Target, options: BuildOptions, make: Callable[[], VMExecutable]
    ) -> VMExecutable:
        """The program of a module: the one that was kept, or what `make` compiles."""
        folder = self.folder
        name = program_name(mod, target, options) if folder is not None and is_ordinary() else None
        if folder is None or name is None:
            return make()
        settle(name)
        kept = folder.read_view(name)
        found = None if kept is None else _loaded(kept)
        if found is not None:
            self.hits += 1
            return found
        start = time.perf_counter()
        made = make()
        if time.perf_counter() - start >= self.least_s:
            _keep(folder, name, made)
        return made


def program_name(mod: IRModule, target: Target, options: BuildOptions) -> str | None:
    """The file of a module's program; None for a module that has no key."""
    nodes = walk_distinct(*mod.functions.values())
    with keys_at_hand(node.data for node in nodes if isinstance(node, Constant)):
        digest = labelled_digest(mod)
    if digest is None:
        return None
    parts = (
        digest.hex(),
        options,
        target,
        target.mtriple,
        target.mcpu,
        target.features,
        PassContext.current().opt_level,
        current_limits(),
        settings().strict_rules,
        sources_digest(),
        llvmlite.__version__,
    )
    return f"program-{blake2b(repr([str(part) for part in parts]).encode(), digest_size=16).hexdigest()}"


def is_ordinary() -> bool:
    """Whether compiling does here what it does in every process: no pass is chosen or watched, and no
    operator is another one's."""
    context = PassContext.current()
    chosen = context.required_pass or context.disabled_pass or context.config
    if chosen or any(instrument.needs_every_pass for instrument in context.instruments):
        return False
    return all(_is_ours(function) for _, record in OP_RECORDS.items() for function in _functions(record))


def _functions(record: Any) -> Iterator[Any]:
    """What of an operator decides what it becomes."""
    if isinstance(record, OpDef):
        yield from (record.infer, record.reference, record.lower, record.decompose)
    else:
        yield record


def _is_ours(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    home = function if hasattr(function, "__module__") else type(function)
    return str(home.__module__).split(".")[0] in (__name__.split(".")[0], "builtins", "numpy")


def _loaded(kept: memoryview) -> VMExecutable | None:
    try:
        found = modules_from_sections(section_table(kept[len(_PADDING) :], is_authentic=True))
    except (FormatError, UsageError):
        return None
    return found if isinstance(found, VMExecutable) else None


def _keep(folder: PrivateCache, name: str, program: Module) -> None:
    if any(isinstance(each, CSourceModule) for each in program.imports):
        return  # it depends on the system's compiler, and on headers
    try:
        pieces = list(artefact_pieces(module_sections(program), has_digests=False))
    except UsageError:  # something in it has no stored form
        return
    size_bytes = sum(memoryview(piece).nbytes for piece in pieces)
    if size_bytes * _LARGEST_SHARE > folder.limit_bytes:
        return
    put = folder.sealed(name, _PADDING, *pieces)  # now: later the user may write into the weights
    if put is not None and size_bytes > _SMALL_BYTES:
        in_background(name, put)
    elif put is not None:
        put()


_shared: list[ProgramCache] = []


def program_cache() -> ProgramCache:
    """The process's cache, in `settings().cache_dir`."""
    if not _shared:
        chosen = settings()
        folder = PrivateCache(chosen.cache_dir, chosen.cache_limit_bytes) if chosen.cache_programs else None
        _shared.append(ProgramCache(folder))
    return _shared[0]
