"""Visitors and rewriters of node trees. A visitor defines methods only for the node classes that it handles.

    class DoubleConstants(Rewriter):
        def visit_IntImm(self, node: IntImm) -> PrimExpr:
            return IntImm(node.dtype, node.value * 2)

A method is found by the class name, then by the names of the base classes. `default` handles all other nodes:
it visits the children; a Rewriter returns the same object if nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from heddle.ir.node import Node, children, map_children
from heddle.support.span import ambient_span, at


class Dispatch:
    _methods: ClassVar[dict[type, Callable[..., Any]]] = {}
    """The methods of a visitor class by node class, as they were found."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._methods = {}

    def _method(self, cls: type) -> Callable[..., Any]:
        found = self._methods.get(cls)
        if found is None:
            own = type(self)
            names = (f"visit_{base.__name__}" for base in cls.__mro__)
            found = next(
                (getattr(own, name) for name in names if hasattr(own, name)),
                own.default,  # type: ignore[attr-defined]
            )
            self._methods[cls] = found
        return found


class Visitor(Dispatch):
    """Visits nodes without changing them, parents before children."""

    def visit(self, node: Any) -> None:
        """Call the method for the node's class, or for the nearest class above it that has one."""
        (self._methods.get(type(node)) or self._method(type(node)))(self, node)

    def default(self, node: Any) -> None:
        """What is done for a node without a method of its own: its children are visited."""
        for child in children(node):
            self.visit(child)


class Rewriter(Dispatch):
    """Builds a changed tree. Nodes that are created get the span of the node that they replace."""

    def visit(self, node: Any) -> Any:
        """What the method for the node's class makes of it; nodes that are made there take its span."""
        method = self._methods.get(type(node)) or self._method(type(node))
        if method is Rewriter.default:
            return map_children(node, self.visit)
        if node.span is None or node.span is ambient_span():
            return method(self, node)
        with at(node.span):
            return method(self, node)

    def default(self, node: Any) -> Any:
        """What is done for a node without a method of its own: its children are rewritten."""
        return map_children(node, self.visit)


def walk(node: Node) -> Iterator[Node]:
    """All nodes at or below, parents first, in field order; a shared node as often as it is reached."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        if not top.is_leaf:
            below = children(top)
            below.reverse()
            stack += below


def walk_distinct(*nodes: Node) -> Iterator[Node]:
    """As `walk`, but a shared node once: the work grows with the number of distinct nodes."""
    seen: set[int] = set()
    stack = list(reversed(nodes))
    while stack:
        top = stack.pop()
        if id(top) not in seen:
            seen.add(id(top))
            yield top
            if not top.is_leaf:
                below = children(top)
                below.reverse()
                stack += below


def post_order(root: Any, below: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """Each distinct object at or below, what `below` gives for one before it and in its order, to any depth
    of nesting."""
    found: list[Any] = []
    seen: set[int] = set()
    todo: list[Any] = [root]
    while todo:
        current = todo.pop()
        if current is _DONE:
            found.append(todo.pop())
        elif id(current) not in seen:
            seen.add(id(current))
            parts = [part for part in below(current) if id(part) not in seen]
            if parts:
                todo += (current, _DONE)
                parts.reverse()
                todo += parts
            else:
                found.append(current)
    return found


_DONE = object()
"""Stands above an object of which all that is below was found."""


def nesting(*roots: Node) -> int:
    """How many nodes lie inside one another at most, leaves included."""
    depths: dict[int, int] = {}
    for root in roots:
        for each in post_order(root, children):
            depths[id(each)] = 1 + max((depths[id(child)] for child in children(each)), default=0)
    return max((depths[id(root)] for root in roots), default=0)


def nodes_as_text(node: Node) -> int:
    """The nodes at or below, a shared one as often as it is reached; each distinct one is counted once."""
    counts: dict[int, int] = {}
    for each in post_order(node, children):
        counts[id(each)] = 1 + sum(counts[id(child)] for child in children(each))
    return counts[id(node)]


def post_order_visit(expr: Node, fvisit: Callable[[Any], None]) -> None:
    """Call `fvisit` once for each distinct node at or below, children first."""
    for each in post_order(expr, children):
        fvisit(each)


def tree_size(root: Node) -> int:
    """The nodes below, a shared one counted at each of its uses."""
    sizes: dict[int, int] = {}
    todo = [(root, False)]
    while todo:
        node, is_ready = todo.pop()
        if is_ready:
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children(node))
        elif id(node) not in sizes:
            todo.append((node, True))
            todo += [(child, False) for child in children(node)]
    return sizes[id(root)]


def rebuild(node: Node, change: Callable[[Any, Any], Any]) -> Any:
    """Each distinct node at or below made anew of its changed children, then `change(old, new)` of it:
    children first, a shared node once, to any depth of nesting. `new` is `old` where no child changed."""
    made: dict[int, Any] = {}
    post_order_visit(
        node,
        lambda old: made.__setitem__(id(old), change(old, map_children(old, lambda child: made[id(child)]))),
    )
    return made[id(node)]
