"""Results that are written into a caller's tensors.

A function's result is followed back from its return: through moves and reshapes, and into a tuple, to the
instruction that allocates it. That instruction then gives the caller's tensor in place of a new one. Kernels
take it that nothing else lies in a result's memory, so results lie apart from each other and from arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heddle.runtime.tensor import Tensor
from heddle.support.diagnostics import UsageError
from heddle.support.frozen import frozen
from heddle.vm.codes import V0310
from heddle.vm.dataflow import registers_written
from heddle.vm.given_memory import tensors_for_results
from heddle.vm.isa import Effect, Instruction
from heddle.vm.program import FunctionRow, Program
from heddle.vm.relay.isa import ALLOC_ADT, ALLOC_TENSOR, ALLOC_TENSOR_REG, KILL_REGISTER, MOVE, RESHAPE_TENSOR
from heddle.vm.steps import DO, LinkedFunction, Step


@frozen
class OutputPlan:
    """Where a function allocates its results: the instructions, in the order of the results. `function` is
    what runs, `outputs` are the tensors that it writes."""

    row: FunctionRow
    places: tuple[int, ...]
    function: LinkedFunction
    outputs: tuple[Tensor, ...] = ()

    def into(self, values: Sequence[Any]) -> OutputPlan:
        """The plan with tensors or arrays for the results.

        Raises: UsageError V0310 for another number of them, what is no tensor, cannot be written, or shares
        memory with another one.
        """
        if len(values) != len(self.places):
            raise UsageError(
                V0310,
                f"function {self.row.name!r} has {len(self.places)} results, got {len(values)} values to "
                "write them to",
            )
        outputs = tensors_for_results(values)
        made = LinkedFunction(self.row)
        made.template = self.function.template
        made.code, made.steps = list(self.function.code), list(self.function.steps)
        for place, tensor in zip(self.places, outputs, strict=True):
            made.code[place] = made.steps[place] = _given(made.code[place], tensor)
        return OutputPlan(self.row, self.places, made, outputs)


def _given(step: Step, tensor: Tensor) -> Step:
    """The step that gives a tensor where another one was to be allocated."""
    _, allocate, getter, dst = step

    def check(*operands: Any) -> Tensor:
        made = allocate(*operands)
        if made.dtype != tensor.dtype or made.layout.num_elements != tensor.layout.num_elements:
            raise UsageError(
                V0310,
                f"the result has shape {tuple(made.shape)} and dtype {made.dtype}, and the tensor for it "
                f"shape {tuple(tensor.shape)} and dtype {tensor.dtype}",
            )
        return tensor if made.shape == tensor.shape else tensor.reshape(made.shape)

    return DO, check, getter, dst


def plan_outputs(program: Program, row: FunctionRow, function: LinkedFunction) -> OutputPlan:
    """Where a function allocates its results. Raises: UsageError V0310 where a result is none that the
    function allocates in one place."""
    code = program.instructions(row)
    returns = [step.values[0] for step in code if Effect.RETURNS in step.spec.effects]
    writers: dict[int, list[int]] = {}
    for pc, step in enumerate(code):
        for register in registers_written(step) if step.spec is not KILL_REGISTER else ():
            writers.setdefault(register, []).append(pc)
    found = _Tracer(row, code, writers)
    if len(set(returns)) != 1:
        raise found.refusal()
    maker = found.maker(returns[0])
    is_tuple = code[maker].spec is ALLOC_ADT and code[maker].values[0] == 0
    places = [found.allocation(each) for each in (code[maker].values[2] if is_tuple else returns[:1])]
    if len(set(places)) != len(places):
        raise found.refusal()
    return OutputPlan(row, tuple(places), function)


@frozen
class _Tracer:
    row: FunctionRow
    code: list[Instruction]
    writers: dict[int, list[int]]

    def refusal(self) -> UsageError:
        return UsageError(
            V0310, f"function {self.row.name!r} does not allocate each of its results in a place of its own"
        )

    def maker(self, register: int) -> int:
        """The one instruction that makes what is in a register."""
        for _ in range(len(self.code)):
            places = self.writers.get(register, [])
            if len(places) != 1 or register < self.row.num_args:
                raise self.refusal()
            step = self.code[places[0]]
            if step.spec is not MOVE:
                return places[0]
            register = step.values[0]
        raise self.refusal()

    def allocation(self, register: int) -> int:
        """The one allocation of the tensor in a register, or of the one that it is a view of."""
        for _ in range(len(self.code)):
            place = self.maker(register)
            step = self.code[place]
            if step.spec in (ALLOC_TENSOR, ALLOC_TENSOR_REG):
                return place
            if step.spec is not RESHAPE_TENSOR:
                break
            register = step.values[0]
        raise self.refusal()
