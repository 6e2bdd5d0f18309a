"""A disk cache of compiled programs: the second process that compiles a model loads it from the cache.

The key is a digest of the whole module (including names and source locations, which appear in messages and
listings; tensors by their bits), the options, the target, the limits and settings that passes read, LLVM's
version, and the sources of this package. The cached file is the program's artefact after zero bytes that
align its sections. It is in the user's `PrivateCache`, where nobody else can write code, so the artefact
needs no digests of its own.

Computing the digests of large tensors and of the sources takes longest. They are the second half of the file
name: if no file has the first half, compilation starts while they are computed.

The cache is bypassed if the result could depend on something outside the key: passes chosen or watched by a
PassContext, custom pipelines, operators that were declared or replaced outside of this package, C source (it
may include any header), a module with free variables. Programs that compile quickly, and those larger than a
quarter of the cache, are not stored.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import llvmlite
import numpy as np

from heddle.ir.expr import Constant
from heddle.ir.module import IRModule
from heddle.ir.op import OP_RECORDS
from heddle.ir.op_def import OpDef
from heddle.ir.structural import labelled_digest
from heddle.ir.tensor_values import large_as_numbers, tensor_key
from heddle.ir.transform import PassContext
from heddle.ir.visitor import walk_distinct
from heddle.runtime.artefact import ALIGN_BYTES, section_table
from heddle.runtime.artefact_file import artefact_pieces
from heddle.runtime.kernel_module import CSourceModule
from heddle.runtime.module import Module, module_sections, modules_from_sections
from heddle.runtime.tensor import Tensor
from heddle.support.background import in_background, settle
from heddle.support.diagnostics import FormatError, UsageError
from heddle.support.frozen import frozen
from heddle.support.limits import current_limits
from heddle.support.on_threads import begun, map_on_threads
from heddle.support.private_cache import HEAD_BYTES, PrivateCache
from heddle.support.settings import settings
from heddle.support.sources import sources_digest
from heddle.target import Target
from heddle.vm.relax.executable import VMExecutable

_PADDING = bytes(-HEAD_BYTES % ALIGN_BYTES)
_LARGEST_SHARE = 4
"""The divisor of the cache size that gives the largest cached program."""
_SMALL_BYTES = 1 << 20
"""Larger programs are written in the background, because writing a model's weights takes seconds."""


@frozen
class BuildOptions:
    """The options of the default pipeline besides the target."""

    exec_mode: str
    precision: str
    sanitize: bool


@dataclass(slots=True)
class ProgramCache:
    """The cache in `folder` (None: nothing is cached). Only programs whose compilation took at least
    `least_s` seconds are stored."""

    folder: PrivateCache | None
    least_s: float = 0.1
    hits: int = field(default=0)

    def get(
        self, mod: IRModule, target: Target, options: BuildOptions, make: Callable[[], VMExecutable]
    ) -> VMExecutable:
        """Return the program of a module: the cached one, or the result of `make`."""
        folder, key = self.folder, self._key(mod, target, options)
        if folder is None or key is None:
            return make()
        found = self._found(folder, key)
        if found is not None:
            return found
        finish = begun(key.name)
        start = time.perf_counter()
        made = make()
        if time.perf_counter() - start >= self.least_s:
            _keep(folder, key, finish(), made)
        return made

    def find(self, mod: IRModule, target: Target, options: BuildOptions) -> VMExecutable | None:
        """Return the cached program of a module, if there is one."""
        folder, key = self.folder, self._key(mod, target, options)
        return None if folder is None or key is None else self._found(folder, key)

    def _key(self, mod: IRModule, target: Target, options: BuildOptions) -> ProgramKey | None:
        return program_key(mod, target, options) if self.folder is not None and is_ordinary() else None

    def _found(self, folder: PrivateCache, key: ProgramKey) -> VMExecutable | None:
        settle(key.begin)
        kept = folder.read_view(key.name()) if folder.read(key.begin) is not None else None
        found = None if kept is None else _loaded(kept)
        self.hits += found is not None
        return found


@frozen
class ProgramKey:
    """What a program is found by. `begin`: how the names of files begin that hold a program of this module,
    for this target, with any weights, by any state of this package; an empty file of that name says that
    there was one. `constants`: all tensors of the module; `large`: those whose bits `begin` does not tell."""

    begin: str
    constants: Sequence[Tensor]
    large: Sequence[Tensor]

    def name(self) -> str:
        """The file of the program."""
        parts = (sources_digest().encode(), *map_on_threads(tensor_key, self.large))
        return f"{self.begin}-{blake2b(b''.join(parts), digest_size=16).hexdigest()}"


def program_key(mod: IRModule, target: Target, options: BuildOptions) -> ProgramKey | None:
    """None for a module that has no key."""
    nodes = walk_distinct(*mod.functions.values())
    constants = [node.data for node in nodes if isinstance(node, Constant)]
    with large_as_numbers(constants) as large:
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
        llvmlite.__version__,
    )
    text = repr([str(part) for part in parts])
    begin = f"program-{blake2b(text.encode(), digest_size=16).hexdigest()}"
    return ProgramKey(begin, constants, large)


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


def _keep(folder: PrivateCache, key: ProgramKey, name: str, program: Module) -> None:
    if any(isinstance(each, CSourceModule) for each in program.imports):
        return  # it depends on the system's compiler, and on headers
    try:
        pieces = list(artefact_pieces(module_sections(program), has_digests=False))
    except UsageError:  # something in it has no stored form
        return
    size_bytes = sum(memoryview(piece).nbytes for piece in pieces)
    if size_bytes * _LARGEST_SHARE > folder.limit_bytes:
        return
    # The user may write into the constants that he gave, as soon as he has the program.
    put = folder.sealed(name, _PADDING, *pieces, is_lasting=_outside_of(key.constants))
    if put is None:
        return

    def write() -> None:
        put()
        folder.write(key.begin)

    if size_bytes > _SMALL_BYTES:
        in_background(key.begin, write)
    else:
        write()


def _outside_of(tensors: Sequence[Tensor]) -> Callable[[memoryview], bool]:
    """Whether bytes lie in no memory of these tensors."""
    spans = sorted((each.address, each.address + each.size_bytes) for each in tensors)
    begins = [begin for begin, _ in spans]
    ends = list(accumulate((end for _, end in spans), max))

    def is_outside(piece: memoryview) -> bool:
        address = np.frombuffer(piece, np.uint8).ctypes.data if piece.nbytes else 0
        before = bisect_left(begins, address + piece.nbytes)  # spans that begin before the piece's end
        return before == 0 or ends[before - 1] <= address

    return is_outside


_shared: list[ProgramCache] = []


def program_cache() -> ProgramCache:
    """The process's cache, in `settings().cache_dir`."""
    if not _shared:
        chosen = settings()
        folder = PrivateCache(chosen.cache_dir, chosen.cache_limit_bytes) if chosen.cache_programs else None
        _shared.append(ProgramCache(folder))
    return _shared[0]
