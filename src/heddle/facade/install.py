"""How public modules come to be: a finder that knows the table, and modules that look names up in it.

Names are resolved when they are first asked for and then kept, so `import heddle.runtime` loads no room of
the compiler. This is all that `import heddle` loads, so it does without what takes long to import:
`importlib.abc` alone took half of the time.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from os.path import isdir
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any

from heddle.facade.table import ALIASES, EXPORTS, PASSES, WORDS

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object

_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def canonical(name: str) -> str:
    """The module that a public module name means."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        target = ALIASES.get(".".join(parts[:count]))
        if target is not None:
            return ".".join((target, *parts[count:]))
    return name


@cache
def exported(module: str) -> Mapping[str, tuple[str, str]]:
    """Public name → (room module, own name) of a public module."""
    names = {}
    for room, words in EXPORTS.get(module, {}).items():
        for word in words.split():
            public, _, own = word.partition("=")
            names[public] = (room, own or public)
    return names


def pass_module(module: str, name: str) -> str | None:
    """The module of the pass `name`, where the public module has passes and there is such a file."""
    if not name[:1].isupper():
        return None
    file = _WORD_STARTS.sub("_", name).lower()
    candidates = (f"{package}.{file}" for package in PASSES.get(module, ()))
    return next((candidate for candidate in candidates if find_spec(candidate) is not None), None)


@cache
def _passes(module: str) -> frozenset[str]:
    """The passes of a public module: the class of each pass's file, by its name. It imports them."""
    found = set()
    for package in PASSES.get(module, ()):
        for info in iter_modules(import_module(package).__path__):
            members = vars(import_module(f"{package}.{info.name}"))
            found |= {name for name in members if pass_module(module, name) == f"{package}.{info.name}"}
    return frozenset(found)


class FacadeModule(ModuleType):
    """A module whose missing attributes are looked up in the table, among passes, and among submodules."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = self._find(name)
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        # Python binds a submodule to its parent when it is loaded; an exported name of that spelling wins.
        if not (isinstance(value, ModuleType) and name in exported(self.__name__)):
            super().__setattr__(name, value)

    def _find(self, name: str) -> Any:
        place = exported(self.__name__).get(name)
        if place is not None:
            return getattr(import_module(place[0]), place[1])
        module = pass_module(self.__name__, name)
        if module is not None and hasattr(import_module(module), name):
            return getattr(import_module(module), name)
        if hasattr(self, "__path__") and find_spec(f"{self.__name__}.{name}") is not None:
            return import_module(f"{self.__name__}.{name}")
        if self.__name__ in WORDS and not name.startswith("_"):
            try:
                return getattr(import_module(WORDS[self.__name__]), name)
            except AttributeError:
                raise self._missing(name) from None
        raise self._missing(name)

    def _missing(self, name: str) -> AttributeError:
        # Only a failing program pays for what messages need.
        codes = import_module("heddle.driver.codes")
        diagnostics = import_module("heddle.support.diagnostics")
        error: AttributeError = diagnostics.MissingNameError(
            codes.D0601,
            f"module {self.__name__!r} has no name {name!r}",
            help=diagnostics.did_you_mean(name, dir(self)),
        )
        return error

    def __dir__(self) -> list[str]:
        words = dir(import_module(WORDS[self.__name__])) if self.__name__ in WORDS else ()
        return sorted({*super().__dir__(), *exported(self.__name__), *words, *self._submodules()})

    def _submodules(self) -> set[str]:
        """Modules below, whether they were imported or not, and the passes in them."""
        own = {info.name for info in iter_modules(getattr(self, "__path__", ()))}
        start = f"{self.__name__}."
        below = {
            name[len(start) :].partition(".")[0] for name in (*EXPORTS, *ALIASES) if name.startswith(start)
        }
        return {name for name in {*own, *below} if not name.startswith("_")} | _passes(self.__name__)


class _RoomLoader(SourceFileLoader):
    """Loads a room's module and then does what the public interface adds to it."""

    def __init__(self, name: str, path: str, after: Callable[[ModuleType], None]) -> None:
        super().__init__(name, path)
        self._after = after

    def exec_module(self, module: ModuleType) -> None:
        """Meanwhile no cycles are collected: what modules make stays, and collections would look at it again
        and again. Another thread's import ends with the collector on as well, whoever paused it first.
        (`heddle.support.collection` would bring numpy.)"""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            super().exec_module(module)
        finally:
            if was_enabled:
                gc.enable()
        self._after(module)


class _VirtualLoader(Loader):
    """A module without a file: exports alone."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return FacadeModule(spec.name, f"Public names of {spec.name}.")

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is executed: names are looked up when they are asked for."""


class _AliasLoader(Loader):
    """A second name of a module; the module stays what it was."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self._module = import_module(canonical(spec.name))
        self._spec = self._module.__spec__
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


_DIALECTS = ("heddle.tir.dialect", "heddle.relax.dialect", "heddle.relay.dialect")
"""The modules that declare the dialects of functions."""
_OPERATORS = ("heddle.graph.core_ops", "heddle.relax.core_ops", "heddle.ops.load")
"""The modules that declare the operators of graph programs."""


def _answer_lookups(module: ModuleType) -> None:
    module.__class__ = FacadeModule


def _declare_operators_on_demand(module: ModuleType) -> None:
    """Operators are declared above the rooms that look them up: the table asks for them when a name is
    missing. So does the table of Relay's names, which programs of the other dialect do without.
    """

    def declare() -> None:
        for room in _OPERATORS:
            import_module(room).declare()

    def declare_names() -> None:
        module.OP_RECORDS.fill()
        import_module("heddle.ops.relay_names.load").declare()

    module.OP_RECORDS.fill_from(declare)
    module.OP_ALIASES.fill_from(declare_names)


def _load_printers_on_demand(module: ModuleType) -> None:
    """Printers lie above the nodes: printing asks for them."""
    module.PRINTERS.fill_from(lambda: [import_module(room) for room in ("heddle.script.printer", *_DIALECTS)])


def _load_dialects_on_demand(module: ModuleType) -> None:
    """Dialects lie above what works on functions of any: it asks for them when one is looked up."""
    module.DIALECTS.fill_from(lambda: [import_module(room) for room in _DIALECTS])


def _load_executables_on_demand(module: ModuleType) -> None:
    """Machines lie above the modules' room: it asks for one after the other when a file holds a kind that it
    does not know.
    """
    machines = ("heddle.vm.relax", "heddle.vm.relay", "heddle.vm.graph", "heddle.vm.graph.aot")
    module.LOADERS.fill_from(*(partial(import_module, machine) for machine in machines))


def _register_builtins_on_demand(module: ModuleType) -> None:
    """The machine's builtins lie above the table of global functions: it asks for them when a name is
    missing.
    """
    source = "heddle.vm.relax"
    module._global_functions.fill_from(lambda: import_module(source).register_builtins())


def _load_expression_operators_on_demand(module: ModuleType) -> None:
    """What Python's operators on expressions build lies above: the table asks for it when one is used."""
    rooms = ("heddle.relax.operators", "heddle.relay.op")
    module.EXPRESSION_OPERATORS.fill_from(lambda: [import_module(room) for room in rooms])


def _load_executors_on_demand(module: ModuleType) -> None:
    """Executors that compile lie above: the table asks for them."""
    module.EXECUTORS.fill_from(lambda: import_module("heddle.driver.relay_executor"))


def _load_standard_texts_on_demand(module: ModuleType) -> None:
    """Standard texts lie above modules: the table asks for them when one is imported."""
    module.STANDARD_TEXTS.fill_from(lambda: import_module("heddle.relay.standard"))


def _load_passes_on_demand(module: ModuleType) -> None:
    """Passes declare their configuration: the table asks for all of them when a key is missing. What watches
    all passes lies above them, too."""
    module.CONFIG_KEYS.fill_from(lambda: import_module("heddle.driver.passes").pass_classes())
    module.WATCHERS.fill_from(lambda: import_module("heddle.ir.watchers").declare(_find_pass))


def _find_pass(name: str) -> Any:
    return import_module("heddle.driver.passes").pass_class(name)


def _add_nothing(module: ModuleType) -> None:
    """For a module that brings in most of the compiler: no cycles are collected meanwhile."""


_AFTER_IMPORT: dict[str, Callable[[ModuleType], None]] = {
    "heddle.driver.compile": _add_nothing,
    "heddle.ir.dialect": _load_dialects_on_demand,
    "heddle.ir.expr_operators": _load_expression_operators_on_demand,
    "heddle.ir.module": _load_standard_texts_on_demand,
    "heddle.ir.node": _load_printers_on_demand,
    "heddle.ir.op": _declare_operators_on_demand,
    "heddle.ir.transform": _load_passes_on_demand,
    "heddle.relay.executor": _load_executors_on_demand,
    "heddle.runtime.function": _register_builtins_on_demand,
    "heddle.runtime.module": _load_executables_on_demand,
}


class FacadeFinder:
    """Finds the modules of the table; leaves all others to Python."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """How Python loads a public module that no room has; None for any other."""
        if not fullname.startswith("heddle."):
            return None
        meant = canonical(fullname)
        if meant != fullname:
            return (
                ModuleSpec(fullname, _AliasLoader(), is_package=True)
                if find_spec(meant) is not None
                else None
            )
        after = _answer_lookups if fullname in EXPORTS else _AFTER_IMPORT.get(fullname)
        if after is None:
            return None
        found = PathFinder.find_spec(fullname, path)
        if found is None or found.origin is None:
            return ModuleSpec(fullname, _VirtualLoader(), is_package=True)
        folders = found.submodule_search_locations
        spec = spec_from_file_location(
            fullname,
            found.origin,
            loader=_RoomLoader(fullname, found.origin, after),
            submodule_search_locations=folders,
        )
        if spec is not None and folders is None and any(key.startswith(f"{fullname}.") for key in EXPORTS):
            spec.submodule_search_locations = []  # public modules lie below a file, and no files do
        return spec


class CompilerRooms:
    """Asked last, for what nobody found: where the runtime alone is installed, rooms of the compiler."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        """Nothing. Raises: MissingDependencyError S0705 for a module of Heddle without its compiler."""
        if not fullname.startswith("heddle.") or isdir(f"{self._folder}/driver"):
            return
        # Only a failing program pays for what messages need.
        codes = import_module("heddle.support.codes")
        diagnostics = import_module("heddle.support.diagnostics")
        raise diagnostics.MissingDependencyError(
            codes.S0705,
            f"{fullname} belongs to the compiler, and heddle-runtime is installed without it",
            help="pip install heddle-compiler; heddle.runtime.LibraryProgram runs compiled files without it",
        )


def _check_interpreter() -> None:
    """Native code knows the objects of CPython's builds with a lock alone."""
    is_free = "t" in getattr(sys, "abiflags", "")
    if sys.implementation.name == "cpython" and not is_free:
        return
    # Only a failing program pays for what messages need.
    codes = import_module("heddle.support.codes")
    diagnostics = import_module("heddle.support.diagnostics")
    found = "a free-threaded build of CPython" if is_free else sys.implementation.name
    raise diagnostics.InterpreterError(
        codes.S0704,
        f"this interpreter is {found}: expected CPython's build with the interpreter's lock",
        help="make the virtual environment with python3, not with python3t or another implementation",
    )


def install(root: ModuleType) -> None:
    """Serve the public names below `root`, the package itself. Doing it again changes nothing.

    Raises: InterpreterError S0704 (an ImportError) where native code does not know the interpreter's objects.
    """
    _check_interpreter()
    if not any(isinstance(finder, FacadeFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, FacadeFinder())
        sys.meta_path.append(CompilerRooms(root.__path__[0]))
    root.__class__ = FacadeModule
