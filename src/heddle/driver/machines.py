"""Machines for programs of the command line and of sessions."""

from __future__ import annotations

from heddle.vm.program_devices import machine_devices
from heddle.vm.relax import VirtualMachine, VMExecutable


def machine_for(executable: VMExecutable) -> VirtualMachine:
    """A machine on the devices that a program names; on the first CPU where it names none. Raises: as
    VirtualMachine."""
    return VirtualMachine(executable, machine_devices(executable.metadata))
