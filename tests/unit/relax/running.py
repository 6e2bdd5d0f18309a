"""Running a graph module in every way there is."""

from __future__ import annotations

from typing import Any

import numpy as np

import heddle
from heddle.ir.instrument import VerifyEach
from heddle.ir.module import IRModule
from heddle.ir.transform import PassContext
from heddle.relax import GraphInterpreter
from heddle.script import RoundTripEach
from heddle.vm.relax import VirtualMachine

MODES = ("bytecode", "compiled")


def machine(mod: IRModule, mode: str, device: Any = None, **options: Any) -> VirtualMachine:
    """A machine for a module; every pass on the way verifies and round-trips."""
    with PassContext(instruments=[VerifyEach(), RoundTripEach()]):
        executable = heddle.compile(mod, target="llvm", exec_mode=mode)
    return VirtualMachine(executable, device if device is not None else heddle.cpu(), **options)


def plain(value: Any) -> Any:
    """A machine's result as numpy arrays, tuples and numbers."""
    if hasattr(value, "numpy"):
        return value.numpy()
    return tuple(plain(item) for item in value) if isinstance(value, (tuple, list)) else value


def assert_same(actual: Any, expected: Any) -> None:
    """Equal structure, dtypes and (nearly) numbers."""
    actual, expected = plain(actual), plain(expected)
    if isinstance(expected, tuple):
        assert len(actual) == len(expected)
        for left, right in zip(actual, expected, strict=True):
            assert_same(left, right)
        return
    assert np.asarray(actual).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def assert_runs(mod: IRModule, *args: Any, name: str = "main", before: IRModule | None = None) -> Any:
    """The interpreter and both execution modes agree, on `mod` and with `before`; gives the result."""
    expected = GraphInterpreter(before if before is not None else mod)[name](*args)
    assert_same(GraphInterpreter(mod)[name](*args), expected)
    for mode in MODES:
        assert_same(machine(mod, mode)[name](*args), expected)
    return expected
