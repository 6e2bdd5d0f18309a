"""Which bindings of a dataflow block fuse: grouping by post-dominators and operator patterns.

A node is fused with its immediate post-dominator (the node through which all its results pass) when every
node on the
ways between them is of a kind that can be computed in one loop nest. The rules, by the pattern of the group:
- a contraction takes elementwise and broadcast work that follows it;
- elementwise, broadcast and injective work goes into what follows, up to and including a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from heddle.tir.analysis.op_pattern import OpPattern

MAX_GROUP = 64
"""Nodes of one group at most: huge kernels cost more to compile than they save."""


@dataclass(eq=False, slots=True)
class FusionNode:
    """A binding: its pattern, and who uses its result. `escapes` marks results that are needed outside the
    block."""

    key: Hashable
    index: int
    pattern: OpPattern
    escapes: bool = False
    users: list[FusionNode] = field(default_factory=list)
    user_patterns: list[OpPattern] = field(default_factory=list)
    parent: FusionNode | None = None
    depth: int = 0
    way: OpPattern = OpPattern.ELEMENTWISE
    group: FusionGroup | None = None


@dataclass(eq=False, slots=True)
class FusionGroup:
    """A set of nodes with one result, that of `root`."""

    root: FusionNode
    members: list[FusionNode]
    pattern: OpPattern
    anchor: OpPattern | None = None


def find_groups(nodes: Sequence[FusionNode]) -> list[FusionGroup]:
    """Group nodes, which are in topological order; each node is in one group."""
    _post_dominators(nodes)
    for node in nodes:
        node.group = FusionGroup(
            node, [node], node.pattern, node.pattern if node.pattern >= OpPattern.COMM_REDUCE else None
        )
    for phase in range(2):
        for node in nodes:
            _try_fuse(node, phase)
    return list(dict.fromkeys(_group(node) for node in nodes))


def _group(node: FusionNode) -> FusionGroup:
    assert node.group is not None
    return node.group


def _post_dominators(nodes: Sequence[FusionNode]) -> None:
    for node in reversed(nodes):
        if node.escapes or not node.users:
            node.parent, node.depth, node.way = None, 1, OpPattern.OPAQUE
            continue
        parent: FusionNode | None = node.users[0]
        way = node.user_patterns[0]
        for user, pattern in zip(node.users[1:], node.user_patterns[1:], strict=True):
            way = max(way, pattern)
            parent, way = _common(parent, user, way)
        node.parent, node.way = parent, way
        node.depth = parent.depth + 1 if parent is not None else 1


def _common(
    a: FusionNode | None, b: FusionNode | None, way: OpPattern
) -> tuple[FusionNode | None, OpPattern]:
    """The nearest node that post-dominates both, and the strongest pattern met on the way."""
    while a is not b:
        if a is None or b is None:
            return None, OpPattern.OPAQUE
        if a.depth >= b.depth:
            way = max(way, a.way)
            a = a.parent
        else:
            way = max(way, b.way)
            b = b.parent
    return a, way


def _try_fuse(node: FusionNode, phase: int) -> None:
    target = node.parent
    group = _group(node)
    if target is None or group.pattern is OpPattern.OPAQUE or _group(target) is group:
        return
    sink = _group(target)
    if sink.pattern is OpPattern.OPAQUE:
        return
    if group.pattern is OpPattern.OUT_EWISE_FUSABLE:
        if (
            phase == 0
            and sink.anchor is None
            and node.way <= OpPattern.BROADCAST
            and _same_way(node, target, lambda n: n.pattern <= OpPattern.BROADCAST)
        ):
            _merge(node, target)
    elif group.pattern <= OpPattern.INJECTIVE and phase == 1:
        ends_well = target.pattern <= OpPattern.INJECTIVE or target.pattern is OpPattern.COMM_REDUCE
        if ends_well and _same_way(
            node, target, lambda n: n.pattern <= OpPattern.INJECTIVE, last_is_free=True
        ):
            if not (sink.anchor is OpPattern.OUT_EWISE_FUSABLE and group.pattern > OpPattern.BROADCAST):
                _merge(node, target)


def _between(node: FusionNode, target: FusionNode) -> list[FusionNode]:
    """The nodes on the ways from `node` to its post-dominator, both excluded."""
    found: dict[FusionNode, None] = {}
    stack = list(node.users)
    while stack:
        current = stack.pop()
        if current is target or current in found:
            continue
        found[current] = None
        stack.extend(current.users)
    return list(found)


def _same_way(
    node: FusionNode, target: FusionNode, allowed: Callable[[FusionNode], bool], last_is_free: bool = False
) -> bool:
    inner = _between(node, target)
    return all(allowed(n) for n in inner) and (last_is_free or allowed(target))


def _merge(node: FusionNode, target: FusionNode) -> None:
    """Put the node's group, what lies between, and the target's group together."""
    sink = _group(target)
    parts = list(dict.fromkeys(_group(n) for n in (node, *_between(node, target), target)))
    members = sorted({m for part in parts for m in part.members}, key=lambda m: m.index)
    anchors = [part.anchor for part in parts if part.anchor is not None]
    if len(members) > MAX_GROUP or len(anchors) > 1:
        return
    pattern = max(part.pattern for part in parts)
    merged = FusionGroup(sink.root, members, pattern, anchors[0] if anchors else None)
    for member in members:
        member.group = merged
