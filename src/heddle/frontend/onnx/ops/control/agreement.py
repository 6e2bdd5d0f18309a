"""How far the nodes behind an `If` must be imported with each of its branches, where these give other ranks.

    If(n == 1, Squeeze(x), x)      →  2 or 3 dimensions
    Mul, Relu                      →  2 or 3 dimensions
    Reshape(-1, 8)                 →  2 dimensions: from here on, one import is enough

Each branch is tried with the nodes that follow, and what that builds is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from heddle.frontend.onnx.context import NodeContext
from heddle.frontend.onnx.order import used_names
from heddle.frontend.onnx.proto import Node, subgraphs
from heddle.frontend.onnx.scope import RanksDiffer, Run
from heddle.frontend.onnx.values import Value
from heddle.graph.infer import type_of
from heddle.graph.types import TensorType
from heddle.support.codes import S0601
from heddle.support.diagnostics import ImportModelError
from heddle.support.frozen import frozen

ANY_RANK = -1
NO_TENSOR = -2
_FIRST_TRY, _GROWTH = 16, 4


@frozen
class Agreement:
    """After `num_nodes` nodes the values that are used later, `live`, have the same ranks for both
    branches."""

    num_nodes: int
    live: list[str]


@frozen
class ImpossibleBranch:
    """The nodes that follow take what the other branch gives, and cannot take what this one gives."""

    is_then: bool


def first_agreement(
    ctx: NodeContext, runs: Sequence[Run], rest: Sequence[Node], outputs: Sequence[str]
) -> Agreement | ImpossibleBranch | None:
    """Where ranks agree again behind the two branches; None where they do nowhere, or where the nodes can
    follow neither branch."""
    for num_nodes in _tries(len(rest)):
        first, second = (_tried(ctx, run, rest[:num_nodes]) for run in runs)
        if first.is_impossible != second.is_impossible:
            return ImpossibleBranch(is_then=first.is_impossible)
        if first.is_impossible:
            return None
        found = _agreement(ctx.node, (first, second), rest, outputs)
        if found is not None:
            return found
    return None


def _tries(most: int) -> Iterator[int]:
    """Numbers of nodes that grow by a factor, so that all tries together cost little more than the last."""
    num_nodes = _FIRST_TRY
    while num_nodes < most:
        yield num_nodes
        num_nodes *= _GROWTH
    yield most


@dataclass(slots=True)
class _Trial:
    """What came of a branch with the nodes behind it; a branch with an inner `If` ends in several ways."""

    ends: int = 0
    failures: int = 0
    num_nodes: int | None = None
    ranks: dict[str, int] = field(default_factory=dict)

    @property
    def is_impossible(self) -> bool:
        return self.ends == self.failures

    def add(self, num_nodes: int, values: dict[str, Value]) -> None:
        self.num_nodes = num_nodes if self.num_nodes is None else min(num_nodes, self.num_nodes)
        for name, value in values.items():
            rank = _rank(value)
            self.ranks[name] = rank if self.ranks.get(name, rank) == rank else ANY_RANK


def _tried(ctx: NodeContext, run: Run, nodes: Sequence[Node]) -> _Trial:
    importer, trial = ctx.importer, _Trial()

    def follow(values: list[Value]) -> list[Value]:
        trial.ends += 1
        done = 0
        try:
            for node in nodes:
                importer.run_strictly(node)
                done += 1
        except RanksDiffer:
            pass  # it is imported with what follows in its turn
        except ImportModelError as error:
            if any(item.code == S0601 for item in error.diagnostics):
                raise
            if subgraphs(nodes[done]):
                raise  # the model may take this branch, and not the one inside that fails
            trial.failures += 1
            return []
        trial.add(done, importer.scope.names)
        return []

    with importer.dropped():
        run(importer.going_on(ctx.node, (), (), follow))
    return trial


def _rank(value: Value) -> int:
    if value.kind is not None or value.items is not None:
        return NO_TENSOR
    known = value.array if value.array is not None else value.content
    if value.expr is None:
        return known.ndim if known is not None else NO_TENSOR
    ty = type_of(value.expr)
    return ty.ndim if isinstance(ty, TensorType) else NO_TENSOR


def _agreement(
    node: Node, trials: tuple[_Trial, _Trial], rest: Sequence[Node], outputs: Sequence[str]
) -> Agreement | None:
    first, second = trials
    last_use = {name: index for index, later in enumerate(rest) for name in used_names(later)}
    last_use |= dict.fromkeys(outputs, len(rest))
    defined = [name for name in node.outputs if name]
    for num_nodes in range(min(first.num_nodes or 0, second.num_nodes or 0) + 1):
        if num_nodes:
            defined += [name for name in rest[num_nodes - 1].outputs if name]
        defined = [name for name in defined if last_use.get(name, -1) >= num_nodes]
        if all(_agree(first.ranks.get(name), second.ranks.get(name)) for name in defined):
            return Agreement(num_nodes, list(defined))
    return None


def _agree(a: int | None, b: int | None) -> bool:
    return a is not None and a == b and a != ANY_RANK
