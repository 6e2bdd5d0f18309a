"""LLVM's Python binding, no more of it than is used.

Running a model links object code and needs LLVM's linker and target machine; `llvmlite.binding` as a whole
imports `llvmlite.ir`, the builder of IR text, besides. So the package enters `sys.modules` unexecuted, with
the submodules that linking needs, and its own `__init__` runs when somebody asks it for another name: to
compile something, or because another library uses the package.
"""

from __future__ import annotations

import importlib
import sys
import threading
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_PACKAGE = "llvmlite.binding"
_FOR_LINKING = ("common", "ffi", "initfini", "config", "targets", "orcjit")  # each needs those before it
_lock = threading.RLock()


class _Unexecuted(ModuleType):
    """A package whose `__init__` has not run. The first unknown name runs it."""

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


def llvm_linking() -> Any:
    """A namespace with the modules `targets`, `initfini` and `orcjit` of `llvmlite.binding`."""
    with _lock:
        if _PACKAGE not in sys.modules:
            spec = find_spec(_PACKAGE)
            assert spec is not None
            package = module_from_spec(spec)
            package.__class__ = _Unexecuted
            sys.modules[_PACKAGE] = package
            for name in _FOR_LINKING:
                importlib.import_module(f"{_PACKAGE}.{name}")
        return sys.modules[_PACKAGE]


def llvm_binding() -> Any:
    """The whole of `llvmlite.binding`."""
    package = llvm_linking()
    package.parse_assembly  # noqa: B018 - runs the package's __init__ where that is still to be done
    return package
