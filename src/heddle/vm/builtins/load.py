"""Register the builtins in the global function table, once per process."""

from __future__ import annotations

from heddle.runtime.function import find_global_func, register_global_func
from heddle.vm.builtins import (
    checks,
    closures,
    conditions,
    data,
    devices,
    images,
    memory,
    python,
    sampling,
    sequences,
    shapes,
    strings,
    tensor_cache,
    tensors,
    tuples,
)
from heddle.vm.builtins.kv_cache import builtins as paged_cache
from heddle.vm.builtins.kv_cache import legacy, rnn_state
from heddle.vm.builtins.table import BUILTINS

GROUPS = (
    checks,
    closures,
    conditions,
    data,
    devices,
    images,
    legacy,
    memory,
    paged_cache,
    python,
    rnn_state,
    sampling,
    sequences,
    shapes,
    strings,
    tensor_cache,
    tensors,
    tuples,
)


def register_builtins() -> None:
    """Register every builtin that is not registered yet. A builtin that a user has overridden stays
    overridden."""
    for name, function in BUILTINS.items():
        if find_global_func(name) is None:
            register_global_func(name, function)
