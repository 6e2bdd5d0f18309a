"""Relay's own machine: bytecode, its builder, executables, and what runs them."""

from heddle.vm.relay.builder import KernelForm, RelayBuilder
from heddle.vm.relay.executable import Executable
from heddle.vm.relay.machine import VirtualMachine, VirtualMachineProfiler

__all__ = ["Executable", "KernelForm", "RelayBuilder", "VirtualMachine", "VirtualMachineProfiler"]
