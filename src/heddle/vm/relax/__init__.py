"""The Relax VM, a machine with four instructions: bytecode, builder, verifier, executables and
interpreter.
"""

from heddle.vm.builtins import register_builtins
from heddle.vm.isa import FuncKind
from heddle.vm.program import FunctionRow, Program
from heddle.vm.relax.builder import ExecBuilder
from heddle.vm.relax.executable import VMExecutable
from heddle.vm.relax.machine import VirtualMachine, VMInstrumentReturnKind

__all__ = [
    "ExecBuilder",
    "FuncKind",
    "FunctionRow",
    "Program",
    "VMExecutable",
    "VMInstrumentReturnKind",
    "VirtualMachine",
    "register_builtins",
]
