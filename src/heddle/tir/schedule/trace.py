"""The record of a schedule: instructions that can be applied to an equal function again, printed, or saved.

    b0 = sch.get_sblock(name="C", func_name=None)
    l1, l2 = sch.get_loops(block=b0)
    v3, v4 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=16, decision=[8, 4])
    l5, l6 = sch.split(loop=l1, factors=[v3, v4], preserve_unit_iters=True, disable_predication=False)

A sampling instruction has a decision: what was chosen. Replay takes the recorded decisions, or those that a
`decision_provider` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.prim.nodes import PrimExpr, Var
from heddle.support.shown import Shown
from heddle.tir.index_map import IndexMap
from heddle.tir.schedule.handles import LoopRV, SBlockRV, map_handles, size_variables, variables_of
from heddle.tir.schedule.instruction import Instruction
from heddle.tir.schedule.trace_json import apply_json_to_schedule, trace_to_json

POSTPROC = "enter_postproc"
"""The instruction after which a tuner's postprocessing begins."""

DecisionProvider = Callable[[Instruction, Mapping[str, Any], Any], Any]
"""(instruction, its arguments, its recorded decision) → the decision to take."""


class Trace(Shown):
    """Instructions in order, and the decisions of sampling instructions. `sizes` are the variables in the
    program's shapes (`size_variables`), by index, so that arguments may contain them."""

    def __init__(
        self, insts: Any = (), decisions: Mapping[Instruction, Any] | None = None, sizes: Sequence[Var] = ()
    ) -> None:
        self.insts: list[Instruction] = list(insts)
        self.decisions: dict[Instruction, Any] = dict(decisions or {})
        self.sizes = tuple(sizes)

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Append an instruction with its decision."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> Instruction | None:
        """Remove the last instruction and return it."""
        if not self.insts:
            return None
        inst = self.insts.pop()
        self.decisions.pop(inst, None)
        return inst

    def get_decision(self, inst: Instruction) -> Any:
        """Return the decision of a sampling instruction, or None."""
        return self.decisions.get(inst)

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool = False) -> Trace:
        """Return a trace in which one instruction has another decision."""
        return Trace(self.instructions(remove_postproc), {**self.decisions, inst: decision}, self.sizes)

    def copy(self) -> Trace:
        """Return an independent copy."""
        return Trace(self.insts, self.decisions, self.sizes)

    def instructions(self, remove_postproc: bool = False) -> list[Instruction]:
        """All instructions, or those before a tuner's postprocessing."""
        kinds = [inst.kind for inst in self.insts]
        return self.insts[: kinds.index(POSTPROC)] if remove_postproc and POSTPROC in kinds else self.insts

    def apply_to_schedule(
        self, sch: Any, remove_postproc: bool = False, decision_provider: DecisionProvider | None = None
    ) -> None:
        """Run the instructions on another schedule, with new handles.

        Raises: ScheduleError if a primitive does not apply to its program.
        """
        pairs = zip(self.sizes, size_variables(sch.func), strict=False)  # another program has others
        renewed: dict[int, Any] = {id(old): new for old, new in pairs}
        for inst in self.instructions(remove_postproc):
            arguments = {name: map_handles(value, renewed) for name, value in inst.arguments.items()}
            decision = self.decisions.get(inst)
            if decision is not None and decision_provider is not None:
                decision = decision_provider(inst, arguments, decision)
            if decision is not None:
                arguments["decision"] = decision
            for old, new in zip(inst.outputs, inst.apply(sch, arguments), strict=True):
                renewed[id(old)] = new
                if isinstance(old, LoopRV):  # in expressions a loop is its variable
                    renewed[id(old.var)] = new.var

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """Return the trace without queries and samplings whose results no other instruction uses."""
        kept: list[Instruction] = []
        used: set[int] = set()
        for inst in reversed(self.instructions(remove_postproc)):
            if inst.kind in PURE and not any(_ids(output) & used for output in inst.outputs):
                continue
            kept.append(inst)
            used.update(id(handle) for handle in inst.inputs)
        kept.reverse()
        decisions = {inst: self.decisions[inst] for inst in kept if inst in self.decisions}
        return Trace(kept, decisions, self.sizes)

    def names(self) -> dict[int, str]:
        """A name for every handle, and for the variable of a loop that of the loop: b for blocks, l for
        loops, v for numbers, counted together; and n for sizes, by place."""
        found = {id(size): f"n{place}" for place, size in enumerate(self.sizes)}
        outputs = [output for inst in self.insts for output in inst.outputs]
        for number, output in enumerate(outputs):
            letter = "b" if isinstance(output, SBlockRV) else "l" if isinstance(output, LoopRV) else "v"
            for key in _ids(output):
                found.setdefault(key, f"{letter}{number}")
        return found

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """One line an instruction, with handles named in order."""
        names = self.names()
        lines = []
        for inst in self.instructions(remove_postproc):
            args = []
            for name, value in inst.arguments.items():
                if name.startswith("*"):
                    args += [_text(item, names) for item in value]
                else:
                    args.append(f"{name}={_text(value, names)}")
            if inst in self.decisions:
                args.append(f"decision={self.decisions[inst]!r}")
            targets = ", ".join(names[id(output)] for output in inst.outputs)
            call = f"sch.{inst.kind}({', '.join(args)})"
            lines.append(f"{targets} = {call}" if targets else call)
        return lines

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """The trace as plain data. Raises: FormatError T0421 for an argument that has no text."""
        insts = self.instructions(remove_postproc)
        return trace_to_json(insts, self.decisions, self.names())

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Any) -> None:
        """Run what `as_json` gave, or its text, on a schedule.

        Raises: FormatError T0421 for a malformed trace; ScheduleError where a primitive does not apply.
        """
        apply_json_to_schedule(json_obj, sch)

    def __str__(self) -> str:
        return "\n".join(self.as_python())


PURE = frozenset(
    {
        "get_sblock",
        "get_loops",
        "get_child_blocks",
        "get_producers",
        "get_consumers",
        "get_output_blocks",
        "sample_perfect_tile",
        "sample_partitioned_tile",
        "sample_categorical",
        "sample_compute_location",
    }
)
"""Primitives that change nothing: only the handles that they give matter."""


def _ids(output: Any) -> set[int]:
    """What stands for a handle in arguments: itself, and a loop's variable in expressions."""
    return {id(output), id(output.var)} if isinstance(output, LoopRV) else {id(output)}


def _text(value: Any, names: dict[int, str]) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(item, names) for item in value)}]"
    if isinstance(value, (PrimExpr, IndexMap)) and id(value) not in names:
        named = [var for var in variables_of(value) if id(var) in names]
        return str(map_handles(value, {id(var): Var(names[id(var)], var.dtype) for var in named}))
    return names.get(id(value)) or repr(value.name if isinstance(value, SBlockRV) else value)
