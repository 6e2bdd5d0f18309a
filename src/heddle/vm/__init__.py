"""Virtual machines. This package holds what all machines share; `heddle.vm.relax` is the machine with four
instructions, `heddle.vm.relay` the one with the instructions of TVM's Relay VM."""

from heddle.vm.objects import BytecodeError, VMClosure

__all__ = ["BytecodeError", "VMClosure"]
