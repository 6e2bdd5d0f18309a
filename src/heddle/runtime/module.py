"""Modules: named functions and the modules that they import; how trees of modules are saved and loaded.

A stored tree is an artefact. Section "modules" lists each module's kind and the numbers of its imports
(children after parents). Section "<number>/<name>" holds a part of a module. A file with variants holds
several trees (`heddle.runtime.variant_table`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import PurePath
from typing import Any, ClassVar

from heddle.runtime.artefact import (
    Section,
    SectionTable,
    open_artefact,
    require,
    section_offsets,
    section_table,
)
from heddle.runtime.artefact_file import write_artefact
from heddle.runtime.codes import F0106, F0107, U0501, U0503, U0510, U0513
from heddle.runtime.device import Device
from heddle.runtime.function import Function, find_global_func
from heddle.runtime.library_program import TO_RUN_ALONE
from heddle.runtime.needs import Needs
from heddle.runtime.processor import this_processor
from heddle.runtime.shared_library import (
    LibraryParts,
    LinkTool,
    export_library,
    parts_to_run_alone,
    read_library,
    read_system_library,
)
from heddle.runtime.signature import verified_bytes
from heddle.runtime.timing import BenchmarkResult, TimingPlan, measure
from heddle.runtime.variant_table import VARIANTS, choose, find_variant, read_variants, sections_of
from heddle.runtime.wire import Writer
from heddle.support.diagnostics import FormatError, MissingNameError, UsageError, did_you_mean
from heddle.support.registry import Registry

SectionData = bytes | memoryview
_SHARED_SUFFIXES = (".so", ".dylib")
LINKED_SUFFIXES = (*_SHARED_SUFFIXES, ".a")


def is_linked(path: str | os.PathLike[str]) -> bool:
    """Whether the file name means a shared or static library. Case does not matter."""
    return PurePath(path).suffix.lower() in LINKED_SUFFIXES


class Module:
    """A set of named functions. Subclasses set `kind` and override `_find`. A subclass that can be stored
    also overrides `save_sections`.
    """

    kind: ClassVar[str] = "module"
    entry_name: ClassVar[str] = "main"

    needs: Needs = Needs()
    """The processor features that the module's own code needs."""
    variant: str = ""
    """The name of the variant in a file with several; "" for a file with one program."""
    variant_target: str = ""
    """The target for which this variant was compiled, as the file states it."""

    def __init__(self) -> None:
        self._imports: list[Module] = []

    @property
    def imports(self) -> tuple[Module, ...]:
        """The imported modules. Functions that this module lacks are looked up in them."""
        return tuple(self._imports)

    @property
    def imports_(self) -> tuple[Module, ...]:
        """The same as `imports`."""
        return self.imports

    def import_module(self, module: Module) -> None:
        """Import a module: functions that this module lacks are looked up there."""
        self._imports.append(module)

    def function_names(self) -> Sequence[str]:
        """Names of this module's own functions."""
        return ()

    def _find(self, name: str) -> Callable[..., Any] | None:
        return None

    def find_function(self, name: str, query_imports: bool = False) -> Callable[..., Any] | None:
        """Return the function `name`, or None. With `query_imports`, imported modules are searched too."""
        if not isinstance(name, str):
            return None
        for module in modules_of(self) if query_imports else (self,):
            found = module._find(name)
            if found is not None:
                return found
        return None

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """Return the function `name`; with `query_imports`, search imported modules too. Raises:
        MissingNameError U0501 (also an AttributeError).
        """
        found = self.find_function(name, query_imports)
        if found is None:
            raise self.missing_function(name)
        return found

    def missing_function(self, name: str) -> MissingNameError:
        """Return the error for a function `name` that does not exist."""
        known = [other for other in self.function_names() if other != str(name)]
        return MissingNameError(
            U0501, f"module of kind {self.kind!r} has no function {name!r}", help=did_you_mean(name, known)
        )

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether the module has a function of this name, or, with `query_imports`, one of its imports."""
        return self.find_function(name, query_imports) is not None

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.get_function(name, True)

    def __call__(self, *args: Any) -> Any:
        """Call the function `main`, or the only function of the module. Raises: MissingNameError U0501."""
        names = self.function_names()
        is_only = len(names) == 1 and not self.implements_function(self.entry_name, True)
        return self[names[0] if is_only else self.entry_name](*args)

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """Return a function that takes the arguments of `func_name` and times the call (see `TimingPlan` for
        the options).

        The time includes work that the call leaves pending on `dev` and on devices of the module. `f_preproc`
        names a global function that is called, untimed, with the same arguments before each repeat.

        Raises: MissingNameError U0501 for an unknown function; UsageError U0801 for invalid options.
        """
        function = self.get_function(func_name, True)
        plan = TimingPlan(number, repeat, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)
        prepare = find_global_func(f_preproc) if f_preproc else None

        def evaluate(*args: Any) -> BenchmarkResult:
            before = None if prepare is None else lambda: prepare(*args)
            return measure(lambda: function(*args), plan, before, wait)

        def wait() -> None:
            self.wait()
            if dev is not None:
                dev.sync()

        return evaluate

    def wait(self) -> None:
        """Wait for pending work on the module's own devices."""

    def save_sections(self) -> Mapping[str, SectionData]:
        """Return the parts from which the loader of this kind restores the module. Imports are stored
        separately.
        """
        raise UsageError(U0503, f"a module of kind {self.kind!r} cannot be stored in a file")

    def export_library(self, path: str | os.PathLike[str], fcompile: LinkTool | None = None) -> None:
        """Write the module and its imports to one file, atomically.

        A path that ends in .so or .dylib gives a shared library, and .a gives a static one. C programs use
        them through `heddle.h` (compiled functions only); `load_module` reads shared ones. Any other name
        gives the one-file format. `fcompile(output, objects)` replaces the linker.

        Raises: UsageError U0504 if there is no linker, U0505 if it fails, U0506 for an invalid symbol prefix,
        U0510 for a target without library support, U0503 for a module that cannot be stored, S0101 if the
        path cannot be written.
        """
        sections = module_sections(self)
        if fcompile is None and not is_linked(path):
            offsets = section_offsets({**sections, **dict.fromkeys(TO_RUN_ALONE, b"")})
            write_artefact(path, {**sections, **sections_to_run_alone(self, sections, offsets)})
            return
        found = [code for module in _parents_first(self) for code in module.objects_to_link()]
        objects = list(dict.fromkeys(found))  # the program's object code contains that of its C sources
        tables = self.library_tables("0/", section_offsets(sections))
        triples = _triples(self)
        if len(triples) > 1:
            raise UsageError(
                U0510, f"a library is for one target, and the module is for {', '.join(triples)}"
            )
        parts = LibraryParts(objects, sections, tables, self.library_prefix, next(iter(triples), ""))
        export_library(path, parts, fcompile)

    def objects_to_link(self) -> Sequence[bytes]:
        """Return the object files that a library of this module contains."""
        return ()

    @property
    def target_triple(self) -> str:
        """Return the target triple of this module's objects; "" for this machine, or if there are no
        objects.
        """
        return ""

    @property
    def library_prefix(self) -> str:
        """Return the prefix of all symbols in a library of this module."""
        return ""

    def library_tables(self, prefix: str, offsets: Mapping[str, int]) -> str:
        """Return LLVM IR of the tables through which C programs run this module; "" if they cannot run it.

        `prefix` names the module's sections in the artefact. `offsets` are the file offsets of all sections.
        """
        return ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kind={self.kind!r}, functions={list(self.function_names())[:8]})"


def modules_of(root: Module) -> Iterator[Module]:
    """Yield the modules of a tree in search order, each once. Trees from files may be deep and may share
    modules.
    """
    seen: set[int] = set()
    pending = [root]
    while pending:
        module = pending.pop()
        if id(module) not in seen:
            seen.add(id(module))
            yield module
            pending.extend(reversed(module.imports))


def _parents_first(root: Module) -> list[Module]:
    order: list[Module] = []
    entered: set[int] = set()
    left: set[int] = set()
    pending = [root]
    while pending:
        module = pending[-1]
        if id(module) not in entered:
            entered.add(id(module))
            pending.extend(child for child in module.imports if id(child) not in entered)
        else:
            pending.pop()
            if id(module) not in left:
                left.add(id(module))
                order.append(module)
    return order[::-1]


def module_sections(root: Module) -> dict[str, SectionData]:
    """Return the sections of a stored tree. A module that is imported twice is stored once."""
    order = _parents_first(root)
    numbers = {id(module): number for number, module in enumerate(order)}
    index = Writer()
    index.u64(len(order))
    for module in order:
        index.text(module.kind)
        index.words([numbers[id(child)] for child in module.imports])
    sections: dict[str, SectionData] = {"modules": index.bytes()}
    for number, module in enumerate(order):
        sections.update({f"{number}/{name}": data for name, data in module.save_sections().items()})
    return sections


def _triples(root: Module) -> tuple[str, ...]:
    """Return the target triples of a tree's objects, each once."""
    return tuple(dict.fromkeys(t for module in _parents_first(root) if (t := module.target_triple)))


def sections_to_run_alone(
    root: Module, sections: Mapping[str, SectionData], offsets: Mapping[str, int]
) -> dict[str, SectionData]:
    """Return the extra sections that let a file run without the compiler (`heddle.runtime.library_program`).
    `offsets` are the file offsets of the tree's sections.
    """
    tables, triples = root.library_tables("0/", offsets), _triples(root)
    needs = reduce(Needs.joined, (module.needs for module in _parents_first(root)), Needs())
    return parts_to_run_alone(tables, needs, next(iter(triples), "")) if len(triples) <= 1 else {}


Loader = Callable[[Mapping[str, Section]], Module]
LOADERS: Registry[Loader] = Registry("kind of module")
"""Module kind → function that makes a module from its sections. Loaders of packages above the runtime are
registered when a kind is first missing.
"""


def register_loader(kind: str, loader: Loader) -> None:
    """Register the loader of a module kind for `load_module`. A later registration replaces an earlier
    one.
    """
    LOADERS.add(kind, loader, override=True)


def modules_from_sections(sections: Mapping[str, Section]) -> Module:
    """Restore the tree that `module_sections` stored.

    Raises: FormatError F0105, F0106 or F0107 for parts that are missing, malformed or of an unknown kind.
    """
    index = require(sections, "modules").reader()
    rows = index.items(16, lambda: (index.text(), index.words()))
    index.done()
    if not rows:
        raise FormatError(F0106, "artefact holds no module")
    parts: dict[str, dict[str, Section]] = {}
    for name, part in sections.items():
        number_text, _, own_name = name.partition("/")
        parts.setdefault(number_text, {})[own_name] = part
    modules: list[Module] = []
    for number, (kind, _) in enumerate(rows):
        loader = LOADERS.get(kind)
        if loader is None:
            raise FormatError(F0107, f"unknown module kind {kind!r}", help=did_you_mean(kind, LOADERS))
        modules.append(loader(parts.get(str(number), {})))
    for number, (kind, children) in enumerate(rows):
        for child in children:
            # A child's number is larger than that of its first parent, so a valid table has no cycles.
            if not number < child < len(modules):
                raise FormatError(
                    F0106, f"module {number} of kind {kind!r} imports module {child}, which cannot be"
                )
            modules[number].import_module(modules[child])
    return modules[0]


def variant_from_sections(sections: Mapping[str, Section], variant: str | None = None) -> Module:
    """Return the module of a file. If the file has variants, take the one named `variant`, else the first
    that this machine can run. A named variant need not run on this machine.

    Raises: FormatError F0112 if no variant fits; UsageError U0508 for an unknown variant; otherwise as
    `modules_from_sections`.
    """
    if VARIANTS not in sections:
        if variant is not None:
            find_variant((), variant)
        return modules_from_sections(sections)
    rows = read_variants(sections)
    row = choose(rows, this_processor()) if variant is None else find_variant(rows, variant)
    module = modules_from_sections(sections_of(sections, row))
    module.variant, module.variant_target = row.name, row.target
    return module


def load_module(
    path: str | os.PathLike[str],
    variant: str | None = None,
    *,
    public_key: str | os.PathLike[str] | None = None,
) -> Module:
    """Load a file that `export_library` wrote. Everything is checked before it is used.

    The file holds machine code: load only files from authors whom you trust. With `public_key`, the path of a
    public key (`heddle.runtime.signature`), the file is loaded only if the owner of that key signed its
    bytes.

    If the file has variants, the first one is loaded whose platform and features this machine has, or the one
    named `variant`. The other variants are not read.

    Raises: UsageError S0102, U0508, U0511, and U0513 for a shared library with a key; FormatError F01..,
    F0112 if no variant fits, F0113 for bytes that are not signed; see `heddle.runtime.artefact`.
    """
    if public_key is None:
        return variant_from_sections(sections_in(path), variant)
    if is_linked(path):
        raise UsageError(
            U0513,
            f"{os.fspath(path)} is a library, which the system loads: not the bytes that were verified",
            help="use the one-file format (.heddle)",
        )
    return variant_from_sections(section_table(verified_bytes(path, public_key)), variant)


def sections_in(path: str | os.PathLike[str]) -> SectionTable:
    """Return the sections of a `.heddle` file or of a shared library.

    Raises: UsageError S0102; FormatError F01...
    """
    is_shared = PurePath(path).suffix.lower() in _SHARED_SUFFIXES
    return read_library(path) if is_shared else open_artefact(path)


def system_lib(symbol_prefix: str = "") -> Module:
    """Return the module of a library that is linked into this process or into a library that the process has
    loaded.

    `symbol_prefix` is the value of the IRModule attribute `system_lib_prefix`.

    Raises: UsageError U0507 if there is none; FormatError F01.. for a damaged one.
    """
    return modules_from_sections(read_system_library(symbol_prefix))


class FunctionModule(Module):
    """Python functions as a module, which tests and embedding programs import into an executable. It cannot
    be stored.
    """

    kind = "python"

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__()
        self._functions = {name: Function(f, name) for name, f in functions.items()}

    def function_names(self) -> Sequence[str]:
        return tuple(self._functions)

    def _find(self, name: str) -> Callable[..., Any] | None:
        return self._functions.get(name)
