"""Select the bindings of a dataflow block to fuse, by post-dominators and operator patterns.

A node is fused with its immediate post-dominator (the node through which all its results pass) if every node
on the paths between them can be computed in the same loop nest. The rules, by the pattern of the group:
- a contraction is fused with the elementwise and broadcast operators that follow it;
- elementwise, broadcast and injective operators are fused with the following ones, up to and including a
  reduction;
- a transposition is fused into a contraction with few rows, which then reads the untransposed operand.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from heddle.tir.analysis.op_pattern import OpPattern

MAX_GROUP = 64
"""Nodes of one group at most: huge kernels cost more to compile than they save."""

_KINDS = {
    OpPattern.COMM_REDUCE: "a reduction",
    OpPattern.OUT_EWISE_FUSABLE: "a contraction or several passes",
    OpPattern.TUPLE: "a tuple",
    OpPattern.OPAQUE: "no loop nest that the compiler knows",
}


@dataclass(eq=False, slots=True)
class FusionNode:
    """A binding: its pattern, and who uses its result. `escapes` marks results that are needed outside the
    block, `is_costly` work that takes much longer than to read its result, `repeats` the users that would
    do the work again for every element that they make of one, and `turns_for` the contraction that is better
    off without this transposition of an operand of its own."""

    key: Hashable
    index: int
    pattern: OpPattern
    escapes: bool = False
    is_costly: bool = False
    users: list[FusionNode] = field(default_factory=list)
    user_patterns: list[OpPattern] = field(default_factory=list)
    repeats: list[bool] = field(default_factory=list)
    turns_for: FusionNode | None = None
    parent: FusionNode | None = None
    depth: int = 0
    way: OpPattern = OpPattern.ELEMENTWISE
    group: FusionGroup | None = None


@dataclass(eq=False, slots=True)
class FusionGroup:
    """A set of nodes with one result, that of `root`. `boundary`: why it ends there."""

    root: FusionNode
    members: list[FusionNode]
    pattern: OpPattern
    anchor: OpPattern | None = None
    boundary: str = ""


def find_groups(nodes: Sequence[FusionNode], most: int = MAX_GROUP) -> list[FusionGroup]:
    """Group nodes, which are in topological order; each node is in one group, of at most `most`."""
    _post_dominators(nodes)
    for node in nodes:
        node.group = FusionGroup(
            node, [node], node.pattern, node.pattern if node.pattern >= OpPattern.COMM_REDUCE else None
        )
    for first in (True, False):  # contractions take what follows them before anything else does
        for node in nodes:
            if (_group(node).pattern is OpPattern.OUT_EWISE_FUSABLE) is first and not _refusal(node, most):
                _merge(node)
    groups = list(dict.fromkeys(_group(node) for node in nodes))
    for group in groups:
        group.boundary = _refusal(group.root, most)
    return groups


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


def _refusal(node: FusionNode, most: int) -> str:
    """Why a node's group does not go into that of its post-dominator; empty where it can."""
    target, group = node.parent, _group(node)
    if target is None:
        return (
            "its result is needed outside its dataflow block"
            if node.escapes
            else "nothing that follows uses all its results"
        )
    if _group(target) is group:
        return "it is in that group already"
    sink = _group(target)
    if group.pattern is OpPattern.OPAQUE:
        return "it is no loop nest that the compiler knows"
    if sink.pattern is OpPattern.OPAQUE:
        return "what follows is no loop nest that the compiler knows"
    if len(_between(node, target)) > MAX_GROUP:
        return _too_many(MAX_GROUP)
    if group.pattern is OpPattern.OUT_EWISE_FUSABLE:
        found = _contraction_refusal(node, target, sink)
    elif group.pattern is OpPattern.COMM_REDUCE:
        found = "a reduction is complete only after its last element"
    elif node.turns_for is not target or len(group.members) > 1:
        found = _map_refusal(node, target, group, sink)
    else:
        found = ""
    return found or _size_refusal(node, most) or _repetition_refusal(node)


def _contraction_refusal(node: FusionNode, target: FusionNode, sink: FusionGroup) -> str:
    if sink.anchor is not None:
        return f"what follows has {_KINDS[sink.anchor]} of its own"
    if node.way > OpPattern.BROADCAST or not _same_way(
        node, target, lambda n: n.pattern <= OpPattern.BROADCAST
    ):
        return "what follows reads its result in another order than it is made"
    return ""


def _map_refusal(node: FusionNode, target: FusionNode, group: FusionGroup, sink: FusionGroup) -> str:
    if target.pattern > OpPattern.INJECTIVE and target.pattern is not OpPattern.COMM_REDUCE:
        return f"what follows is {_KINDS.get(target.pattern, 'no map')}, which takes its operands from memory"
    if not _same_way(node, target, lambda n: n.pattern <= OpPattern.INJECTIVE, last_is_free=True):
        return "a reduction or contraction lies between it and where its results meet"
    if sink.anchor is OpPattern.OUT_EWISE_FUSABLE and group.pattern > OpPattern.BROADCAST:
        return "it moves elements, and what follows is the epilogue of a contraction"
    return ""


def _too_many(most: int) -> str:
    return f"together they would have more than {most} operators"


def _size_refusal(node: FusionNode, most: int) -> str:
    parts = _parts(node)
    if sum(len(part.members) for part in parts) > most:
        return _too_many(most)
    if sum(part.anchor is not None for part in parts) > 1:
        return "a kernel has one reduction or contraction"
    return ""


def _repetition_refusal(node: FusionNode) -> str:
    """Work that what follows would repeat. Members are in the order in which they are made, so that a node
    knows whether what it is made of is costly."""
    members = {member for part in _parts(node) for member in part.members}
    costly: set[FusionNode] = set()
    for member in sorted(members, key=lambda m: m.index):
        if not member.is_costly and member not in costly:
            continue
        for user, repeats in zip(member.users, member.repeats, strict=True):
            if user in members and repeats:
                return "it is costly, and what follows would do it again for every repetition"
            costly.add(user)
    return ""


def _between(node: FusionNode, target: FusionNode) -> list[FusionNode]:
    """The nodes on the ways from `node` to its post-dominator, both excluded; of more than MAX_GROUP only the
    first ones, since the post-dominator of a long ladder is its end for each of its nodes."""
    found: dict[FusionNode, None] = {}
    stack = list(node.users)
    while stack and len(found) <= MAX_GROUP:
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


def _parts(node: FusionNode) -> list[FusionGroup]:
    """The groups that would be one: the node's, what lies between, and its post-dominator's."""
    assert node.parent is not None
    return list(dict.fromkeys(_group(n) for n in (node, *_between(node, node.parent), node.parent)))


def _merge(node: FusionNode) -> None:
    assert node.parent is not None
    sink, parts = _group(node.parent), _parts(node)
    members = sorted({m for part in parts for m in part.members}, key=lambda m: m.index)
    anchors = [part.anchor for part in parts if part.anchor is not None]
    pattern = max(part.pattern for part in parts)
    merged = FusionGroup(sink.root, members, pattern, anchors[0] if anchors else None)
    for member in members:
        member.group = merged
