"""No modules import each other in a circle, for types alone neither."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

import pytest

from tests.arch.tree import source_files

pytestmark = pytest.mark.whole("a change of any file may break a rule")


def _module_imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports of a module that are not inside functions."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, (ast.If, ast.Try)):
            yield from _module_imports(node.body + node.orelse)
        elif isinstance(node, ast.ClassDef):
            yield from _module_imports(node.body)


def imported(tree: ast.Module, known: Set[str]) -> set[str]:
    """The modules among `known` that a module imports."""
    found: set[str] = set()
    for node in _module_imports(tree.body):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (parts & known) or {str(node.module)}
    return found & known


def circles(graph: Mapping[str, Set[str]]) -> list[set[str]]:
    """Groups of modules that reach each other: what is left when all go that import nothing, or that nobody
    imports."""
    left = {name: set(others) for name, others in graph.items()}
    while True:
        used = set().union(*left.values()) if left else set()
        ends = {name for name, others in left.items() if not others or name not in used}
        if not ends:
            break
        left = {name: others - ends for name, others in left.items() if name not in ends}
    groups: list[set[str]] = []
    for name in left:
        reached, waiting = set(), [name]
        while waiting:
            for other in left[waiting.pop()] - reached:
                reached.add(other)
                waiting.append(other)
        group = {other for other in reached if name in _reached(left, other)}
        if group and group not in groups:
            groups.append(group)
    return groups


def _reached(graph: Mapping[str, Set[str]], start: str) -> set[str]:
    reached, waiting = set(), [start]
    while waiting:
        for other in graph[waiting.pop()] - reached:
            reached.add(other)
            waiting.append(other)
    return reached


def test_modules_import_in_no_circle() -> None:
    trees = {
        f"heddle.{file.name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}": file.tree
        for file in source_files()
        if file.name != "__init__.py"
    }
    graph = {name: imported(tree, trees.keys()) - {name} for name, tree in trees.items()}
    assert sum(map(len, graph.values())) > 1000
    assert circles(graph) == []


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}, "f": {"f2"}, "f2": {"f"}}
    assert sorted(map(sorted, circles(graph))) == [["b", "c"], ["f", "f2"]]
    text = "if TYPE_CHECKING:\n    from x.y import z\ndef f():\n    import q\nfrom x import y\n"
    assert imported(ast.parse(text), {"x", "x.y", "q"}) == {"x.y"}
