"""Functions that test programs call by name, `test.vm.*`, and a check of saved functions.

Importing this module registers the functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heddle.runtime.device import Device
from heddle.runtime.function import register_global_func
from heddle.runtime.tensor import Tensor, tensor
from heddle.testing.checks import assert_allclose


def move(value: Tensor) -> Tensor:
    """The argument itself."""
    return value


def add(a: Tensor, b: Tensor) -> Tensor:
    """a + b, elementwise."""
    return tensor(a.numpy() + b.numpy())


def mul(a: Tensor, b: Tensor) -> Tensor:
    """a * b, elementwise."""
    return tensor(a.numpy() * b.numpy())


def equal_zero(a: Tensor) -> Tensor:
    """Whether each element is 0."""
    return tensor(np.equal(a.numpy(), 0))


def subtract_one(a: Tensor) -> Tensor:
    """a - 1, elementwise."""
    return tensor(np.subtract(a.numpy(), 1))


def identity(a: Tensor, out: Tensor) -> None:
    """Write `a` into `out`."""
    out[:] = tensor(a.numpy())


def tile(a: Tensor, out: Tensor) -> None:
    """Write `a` (n, m) twice, side by side, into `out` (n, 2 m)."""
    out[:] = tensor(np.tile(a.numpy(), (1, 2)))


def add_scalar(a: Any, b: Any) -> Any:
    """a + b of Python numbers."""
    return a + b


def get_device_id(device: Device) -> int:
    """The number of a device among those of its kind."""
    return device.device_id


def check_if_defined(value: Any) -> bool:
    """Whether a value is there: a killed register is read as None."""
    return value is not None


def check_saved_func(vm: Any, func_name: str, *inputs: Any) -> Any:
    """Run a function directly and as a saved function; the results, tensors, must agree. Gives the first."""
    saved = f"{func_name}_saved"
    vm.save_function(func_name, saved, *inputs)
    direct, from_saved = vm[func_name](*inputs), vm[saved]()
    assert_allclose(direct.numpy(), from_saved.numpy(), rtol=1e-7, atol=1e-7)
    return direct


for _function in (
    move,
    add,
    mul,
    equal_zero,
    subtract_one,
    identity,
    tile,
    add_scalar,
    get_device_id,
    check_if_defined,
):
    register_global_func(f"test.vm.{_function.__name__}", _function)
