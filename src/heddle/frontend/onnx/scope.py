"""Where names of a graph are looked up, which values became parameters, and how an import goes on from a node
twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from heddle.frontend.onnx.proto import Node
from heddle.frontend.onnx.values import Value
from heddle.ir.expr import Var
from heddle.runtime.tensor import Tensor


@dataclass(slots=True)
class Scope:
    """Values by ONNX name; lookups go on in the parent."""

    names: dict[str, Value] = field(default_factory=dict)
    parent: Scope | None = None

    def find(self, name: str) -> Value | None:
        if name in self.names:
            return self.names[name]
        return self.parent.find(name) if self.parent is not None else None


@dataclass(slots=True)
class Parameters:
    """Initializers that become parameters of the main function, with their data."""

    vars: list[Var] = field(default_factory=list)
    data: list[Tensor] = field(default_factory=list)
    of_value: dict[int, tuple[Value, Var]] = field(default_factory=dict)


Finish = Callable[[list[Value]], list[Value]]
"""What follows a graph, made of its outputs."""
Run = Callable[[Finish | None], list[Value]]
"""Imports a branch; gives its outputs, or what follows them."""


class NotStraight(Exception):
    """A graph without control flow of its own branches nevertheless: it is imported anew."""


class RanksDiffer(Exception):
    """The branches of a node give tensors of different ranks. `resume(nodes, outputs, finish)` imports the
    node with what follows it, as `GraphImporter.run_nodes` does, once for each branch."""

    def __init__(self, node: Node, resume: Callable[..., list[Value]]) -> None:
        super().__init__(node.label)
        self.node = node
        self.resume = resume
