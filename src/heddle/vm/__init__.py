"""Virtual machines: what they share. `heddle.vm.relax` is the machine with four instructions."""

from heddle.vm.objects import BytecodeError, VMClosure

__all__ = ["BytecodeError", "VMClosure"]
