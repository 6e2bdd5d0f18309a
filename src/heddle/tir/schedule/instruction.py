"""One call of a primitive, as a trace keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heddle.prim.nodes import PrimExpr
from heddle.support.frozen import frozen
from heddle.tir.index_map import IndexMap
from heddle.tir.schedule.handles import LoopRV, SBlockRV, variables_of


@frozen(eq=False)
class Instruction:
    """A primitive's name, its arguments by name (a star before a name: any number of them; handles among
    them) and the handles it gave."""

    kind: str
    arguments: Mapping[str, Any]
    outputs: tuple[Any, ...]

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The handles among the arguments."""
        return tuple(handle for value in self.arguments.values() for handle in handles_in(value))

    def apply(self, sch: Any, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """Call the primitive of another schedule; gives the handles."""
        many = [item for name, value in arguments.items() if name.startswith("*") for item in value]
        named = {name: value for name, value in arguments.items() if not name.startswith("*")}
        result = getattr(sch, self.kind)(*many, **named)
        return tuple(result) if isinstance(result, list) else () if result is None else (result,)


def handles_in(value: Any) -> Iterator[Any]:
    """The handles in an argument; of an expression its variables, which may be sampled numbers."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from handles_in(item)
    elif isinstance(value, (SBlockRV, LoopRV)):
        yield value
    elif isinstance(value, (PrimExpr, IndexMap)):
        yield from variables_of(value)
