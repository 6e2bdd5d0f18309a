"""Virtual machines: what they share. `heddle.vm.relax` is the machine with four instructions,
`heddle.vm.relay` the one with TVM's instructions for Relay."""

from heddle.vm.objects import BytecodeError, VMClosure

__all__ = ["BytecodeError", "VMClosure"]
