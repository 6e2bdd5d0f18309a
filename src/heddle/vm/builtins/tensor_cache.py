"""Builtins for the process-wide pool of named tensors: model parameters that are loaded from disk once and
fetched by programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heddle.runtime.device import Device
from heddle.runtime.module import FunctionModule
from heddle.runtime.shape import Array
from heddle.runtime.tensor import Tensor
from heddle.runtime.tensor_cache import read_index, tensors_of_cache
from heddle.support.diagnostics import TrapTypeError, TrapValueError, did_you_mean
from heddle.vm.builtins.table import builtin
from heddle.vm.codes import V0402, V0709, V0710

FILES, POOL = "files", "tensors that the process shares"
_pool: dict[str, Tensor] = {}


@builtin("tensor_cache.load", reaches=FILES)
def load(folder: str, device_type: int, device_id: int) -> None:
    """Load the tensors of a folder (see `heddle.runtime.tensor_cache`) into the pool, all or none. They
    replace tensors of the same name."""
    found = dict(tensors_of_cache(Path(folder), read_index(Path(folder)), Device(device_type, device_id)))
    _pool.update(found)


@builtin("tensor_cache.get", reaches=POOL)
def get(name: str) -> Tensor | None:
    """Return the tensor with a name, or None."""
    return _pool.get(name)


@builtin("tensor_cache.update", reaches=POOL)
def update(name: str, value: Tensor, override: bool = False) -> None:
    """Add a tensor to the pool. Raises: TrapValueError V0710 if the name is taken, unless `override`."""
    if not isinstance(value, Tensor):
        raise TrapTypeError(V0402, f"parameter {name!r}: expected a tensor, got {type(value).__name__}")
    if name in _pool and not override:
        raise TrapValueError(V0710, f"parameter {name!r} is in the cache already")
    _pool[name] = value


@builtin("tensor_cache.remove", reaches=POOL)
def remove(name: str) -> None:
    """Remove a tensor from the pool, if it is there."""
    _pool.pop(name, None)


@builtin("tensor_cache.clear", reaches=POOL)
def clear() -> None:
    """Remove all tensors from the pool."""
    _pool.clear()


def _require(name: str) -> Tensor:
    found = _pool.get(name)
    if found is None:
        raise TrapValueError(V0709, f"parameter {name!r} is not in the cache", help=did_you_mean(name, _pool))
    return found


def _numbered(prefix: str, count: int) -> list[Tensor]:
    """prefix_0, prefix_1, ...: `count` of them, or (-1) as many as there are in a row."""
    if count >= 0:
        return [_require(f"{prefix}_{i}") for i in range(count)]
    found: list[Tensor] = []
    while (value := _pool.get(f"{prefix}_{len(found)}")) is not None:
        found.append(value)
    return found


class ParamModule(FunctionModule):
    """A module whose function `get_params` returns an array of parameters."""

    def __init__(self, params: Sequence[Tensor]) -> None:
        array = Array(params)
        super().__init__({"get_params": lambda: array})


@builtin("param_array_from_cache", reaches=POOL)
def param_array_from_cache(prefix: str, count: int) -> Array:
    """Return the tensors prefix_0 to prefix_(count − 1); with count -1, all from 0 up to the first missing
    one. Raises: TrapValueError V0709."""
    return Array(_numbered(prefix, count))


@builtin("param_array_from_cache_by_name", reaches=POOL)
def param_array_from_cache_by_name(names: Any) -> Array:
    """Return the tensors with the names in an array. Raises: TrapValueError V0709."""
    return Array(_require(name) for name in names)


@builtin("param_array_from_cache_by_name_unpacked", reaches=POOL)
def param_array_from_cache_by_name_unpacked(*names: str) -> Array:
    """Return the tensors with the names that are the arguments. Raises: TrapValueError V0709."""
    return Array(_require(name) for name in names)


@builtin("param_module_from_cache", reaches=POOL)
def param_module_from_cache(prefix: str, count: int) -> ParamModule:
    """Return the parameters of `param_array_from_cache` as a module with `get_params`."""
    return ParamModule(_numbered(prefix, count))


@builtin("param_module_from_cache_by_name", reaches=POOL)
def param_module_from_cache_by_name(names: Any) -> ParamModule:
    """Return the parameters of `param_array_from_cache_by_name` as a module with `get_params`."""
    return ParamModule([_require(name) for name in names])
