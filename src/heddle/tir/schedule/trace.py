"""The record of a schedule: instructions that can be applied to an equal function again, or saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """A primitive's name, its arguments (handles among them) and the handles it gave."""

    kind: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[Any, ...]


class Trace:
    """Instructions in order."""

    def __init__(self) -> None:
        self.insts: list[Instruction] = []

    def append(self, instruction: Instruction) -> None:
        self.insts.append(instruction)

    def copy(self) -> Trace:
        other = Trace()
        other.insts = list(self.insts)
        return other

    def apply_to_schedule(self, sch: Any) -> None:
        """Run the instructions on another schedule; handles are renewed on the way."""
        self.replay(
            sch, lambda instruction, args: getattr(sch, instruction.kind)(*args, **instruction.kwargs)
        )

    def replay(self, sch: Any, run: Callable[[Instruction, list[Any]], Any]) -> None:
        renewed: dict[int, Any] = {}
        for instruction in self.insts:
            args = [_renew(arg, renewed) for arg in instruction.args]
            result = run(instruction, args)
            outputs = result if isinstance(result, list) else [result]
            for old, new in zip(instruction.outputs, outputs, strict=False):
                renewed[id(old)] = new

    def as_python(self) -> list[str]:
        """One line an instruction, with handles named in order."""
        names: dict[int, str] = {}
        lines = []
        for instruction in self.insts:
            args = [_text(arg, names) for arg in instruction.args]
            args += [f"{key}={_text(value, names)}" for key, value in instruction.kwargs.items()]
            for output in instruction.outputs:
                names[id(output)] = f"{'b' if hasattr(output, 'name') else 'l'}{len(names)}"
            targets = ", ".join(names[id(output)] for output in instruction.outputs)
            call = f"sch.{instruction.kind}({', '.join(args)})"
            lines.append(f"{targets} = {call}" if targets else call)
        return lines

    def __str__(self) -> str:
        return "\n".join(self.as_python())


def _renew(value: Any, renewed: dict[int, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_renew(item, renewed) for item in value)
    return renewed.get(id(value), value)


def _text(value: Any, names: dict[int, str]) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(item, names) for item in value)}]"
    return names.get(id(value)) or repr(value)
