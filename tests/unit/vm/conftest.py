"""Tests of the machine run in both modes: as bytecode, and with machine code made of the same program."""

from __future__ import annotations

from typing import Any

import pytest

from heddle.driver.compile import with_machine_code
from heddle.vm.relax import VirtualMachine, VMExecutable

from . import programs


class CompiledMachine(VirtualMachine):
    """A machine for the compiled form of whatever program it is given."""

    def __init__(self, rt_mod: Any, *args: Any, **options: Any) -> None:
        is_program = isinstance(rt_mod, VMExecutable)
        if is_program:
            rt_mod.verify()
        super().__init__(with_machine_code(rt_mod) if is_program else rt_mod, *args, **options)


@pytest.fixture(params=["bytecode", "compiled"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The mode of the machines that the test's module and its helpers make."""
    if request.param == "compiled":
        for module in (request.module, programs):
            if hasattr(module, "VirtualMachine"):
                monkeypatch.setattr(module, "VirtualMachine", CompiledMachine)
    return str(request.param)
