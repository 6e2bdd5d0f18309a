"""Small programs for the machine's tests."""

import numpy as np

from heddle.runtime import FunctionModule, Tensor, cpu, tensor
from heddle.vm.relax import ExecBuilder, VirtualMachine


def add(a: Tensor, b: Tensor) -> Tensor:
    return tensor(a.numpy() + b.numpy())


HELPERS = {
    "add": add,
    "minus_one": lambda n: n - 1,
    "plus": lambda a, b: a + b,
    "is_zero": lambda n: n == 0,
    "identity": lambda x: x,
    "fill": lambda x, value: x.copyfrom(np.full(x.shape, value)) and None,
}


def builder() -> ExecBuilder:
    return ExecBuilder()


def run_machine(made: ExecBuilder, device=None, **options) -> VirtualMachine:
    """A machine for what `made` holds, with the helpers above as its imports."""
    return VirtualMachine(made.get(imports=[FunctionModule(HELPERS)]), device or cpu(), **options)


def call_builtin(name: str, operands, num_inputs: int = 0, inputs=()):
    """The result of one builtin called by a program. `operands` gets the builder."""
    made = builder()
    with made.function("main", num_inputs=num_inputs):
        made.emit_call(f"vm.builtin.{name}", operands(made), dst=made.r(num_inputs))
        made.emit_ret(made.r(num_inputs))
    return run_machine(made)["main"](*inputs)


def countdown() -> ExecBuilder:
    """main(n): 0 where n == 0, else main(n - 1) + 1: recursion, branches, a merge register."""
    made = builder()
    with made.function("main", num_inputs=1, param_names=["n"]):
        made.emit_call("is_zero", [made.r(0)], dst=made.r(1), place="loop.py:3")
        made.emit_if(made.r(1), 3)
        made.emit_call("vm.builtin.copy", [made.imm(0)], dst=made.r(4))
        made.emit_goto(4)
        made.emit_call("minus_one", [made.r(0)], dst=made.r(2), place="loop.py:5")
        made.emit_call("main", [made.r(2)], dst=made.r(3))
        made.emit_call("plus", [made.r(3), made.imm(1)], dst=made.r(4))
        made.emit_ret(made.r(4))
    return made
