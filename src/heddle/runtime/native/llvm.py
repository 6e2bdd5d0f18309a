"""Import only the parts of llvmlite that are needed.

To run a model, only LLVM's linker and target machine are needed, but importing `llvmlite.binding` also
imports `llvmlite.ir`, the IR builder. So the package is put into `sys.modules` without running its
`__init__`, with only the submodules for linking. Its `__init__` runs when another attribute is requested: by
the compiler, or by another library that uses the package.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from heddle.runtime.codes import U0514
from heddle.support.diagnostics import MissingDependencyError
from heddle.support.forks import ForkLock, Rank

_PACKAGE = "llvmlite.binding"
_FOR_LINKING = ("common", "ffi", "initfini", "config", "targets", "orcjit")  # each needs those before it
_HELP = "pip install llvmlite; heddle.runtime.LibraryProgram runs compiled files without it"
_lock = ForkLock(Rank.LIBRARY)


class _Unexecuted(ModuleType):
    """A package whose `__init__` has not run yet. Access to an unknown name runs it."""

    def __getattr__(self, name: str) -> Any:
        with _lock:
            if type(self) is _Unexecuted and name not in ("__file__", "__wrapped__"):
                object.__setattr__(self, "__class__", ModuleType)
                assert self.__spec__ is not None and self.__spec__.loader is not None
                self.__spec__.loader.exec_module(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}") from None


def _not_loaded(error: Exception | None) -> MissingDependencyError:
    why = f"cannot be loaded: {' '.join(str(error).split())}" if error is not None else "is not installed"
    return MissingDependencyError(U0514, f"llvmlite, which holds LLVM, {why}", help=_HELP)


def llvm_linking() -> Any:
    """Return a namespace with the modules `targets`, `initfini` and `orcjit` of `llvmlite.binding`."""
    with _lock:
        if _PACKAGE not in sys.modules:
            try:
                spec = find_spec(_PACKAGE)
            except ImportError as error:
                raise _not_loaded(error) from error
            if spec is None:
                raise _not_loaded(None)
            package = module_from_spec(spec)
            package.__class__ = _Unexecuted
            sys.modules[_PACKAGE] = package
            try:
                for name in _FOR_LINKING:
                    importlib.import_module(f"{_PACKAGE}.{name}")
            except (ImportError, OSError, RuntimeError) as error:
                for name in [name for name in sys.modules if name.startswith(_PACKAGE)]:
                    del sys.modules[name]
                raise _not_loaded(error) from error
            _hold_over_forks(sys.modules[f"{_PACKAGE}.ffi"])
        elif not _llvm_lock:  # another library has imported the package
            _hold_over_forks(importlib.import_module(f"{_PACKAGE}.ffi"))
        return sys.modules[_PACKAGE]


_llvm_lock: list[ForkLock] = []


def _hold_over_forks(ffi: Any) -> None:
    """Hold llvmlite's lock during a fork. llvmlite takes it for every call, so no thread is inside LLVM
    then.
    """
    own = getattr(getattr(ffi.lib, "_lock", None), "_lock", None)
    _llvm_lock[:] = [ForkLock(Rank.LLVM, own)]


def llvm_binding() -> Any:
    """Return the complete `llvmlite.binding`."""
    package = llvm_linking()
    package.parse_assembly  # noqa: B018 - runs the package's __init__ where that is still to be done
    return package
