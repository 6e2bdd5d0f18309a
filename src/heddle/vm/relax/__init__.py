"""The machine with four instructions: bytecode, its builder and verifier, executables, and what runs them."""

from heddle.vm.relax.builder import ExecBuilder
from heddle.vm.relax.builtins import register_builtins
from heddle.vm.relax.executable import VMExecutable
from heddle.vm.relax.insight import Debugger, Recording
from heddle.vm.relax.isa import FuncKind
from heddle.vm.relax.machine import VirtualMachine, VMInstrumentReturnKind
from heddle.vm.relax.program import FunctionRow, Program

__all__ = [
    "Debugger",
    "ExecBuilder",
    "FuncKind",
    "FunctionRow",
    "Program",
    "Recording",
    "VMExecutable",
    "VMInstrumentReturnKind",
    "VirtualMachine",
    "register_builtins",
]
