"""`llvmlite.binding` without `llvmlite.ir`.

The binding imports llvmlite's IR builder for two of its methods, which nobody calls here. The builder is left for when
it is first used: loading a compiled model then does without it.
"""

from __future__ import annotations

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec


def _defer(name: str) -> None:
    """Let the first use of a module execute it, not its import."""
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.loader is None:
        return
    spec.loader = LazyLoader(spec.loader)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], module)  # else `from` executes it


_defer("llvmlite.ir")

import llvmlite.binding as llvm  # noqa: E402 (it must find the deferred module)

__all__ = ["llvm"]
