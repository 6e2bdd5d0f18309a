"""Machines for programs of the command line and of sessions."""

from __future__ import annotations

from heddle.vm.executable import Executable
from heddle.vm.machine import MACHINES, Machine
from heddle.vm.program_devices import machine_devices


def machine_for(executable: Executable) -> Machine:
    """The machine that runs a program, on the devices that it names; on the first CPU where it names none.
    Raises: as the machine."""
    return MACHINES[type(executable)](executable, machine_devices(executable.metadata))
