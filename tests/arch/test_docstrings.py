"""Every public function has a docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.arch.tree import source_files

pytestmark = pytest.mark.whole("a change of any file may break a rule")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Class:
    bases: tuple[str, ...]
    documented: frozenset[str]


def classes_by_name(trees: Iterable[ast.Module]) -> dict[str, list[_Class]]:
    """All classes by their own names. Classes of one name are told apart by nobody: each counts as a base."""
    found: dict[str, list[_Class]] = {}
    for node in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        methods = [part for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
        documented = frozenset(method.name for method in methods if ast.get_docstring(method))
        bases = tuple(ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases)
        found.setdefault(node.name, []).append(_Class(bases, documented))
    return found


def _public_functions(
    body: list[ast.stmt], owner: ast.ClassDef | None = None
) -> Iterator[tuple[ast.ClassDef | None, Function]]:
    """Functions of a module, and methods of its public classes with their class; those inside functions are
    nobody's to call."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try)):
            yield from _public_functions(node.body, owner)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public_functions(node.body, node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            yield owner, node


def undocumented(tree: ast.Module, classes: Mapping[str, list[_Class]]) -> list[str]:
    """The public functions of a module that have no docstring. None is needed by what a base class says, a
    method that a visitor calls by its name, an overload, the setter of a property, and the declaration of a
    function of the C library or of CPython, which say what it does."""
    return [
        f"{owner.name}.{node.name}" if owner else node.name
        for owner, node in _public_functions(tree.body)
        if ast.get_docstring(node) is None
        and not _is_told_by_its_form(node)
        and not (owner and _is_inherited(owner.name, node.name, classes))
    ]


def _is_told_by_its_form(node: Function) -> bool:
    called = (ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list)
    words = {name.rpartition(".")[2] for name in called}
    return node.name.startswith("visit_") or not words.isdisjoint({"overload", "setter", "external"})


def _is_inherited(owner: str, method: str, classes: Mapping[str, list[_Class]]) -> bool:
    """Whether a class that `owner` derives from has a docstring for the method."""
    waiting, seen = [owner], {owner}
    while waiting:
        for known in classes.get(waiting.pop(), ()):
            if method in known.documented:
                return True
            waiting += [base for base in known.bases if base not in seen]
            seen |= set(known.bases)
    return False


def test_public_functions_have_docstrings() -> None:
    classes = classes_by_name(file.tree for file in source_files())
    found = [f"{file.name}: {name}" for file in source_files() for name in undocumented(file.tree, classes)]
    assert not found, "\n".join(found)


def test_what_counts_as_undocumented() -> None:
    text = """
def a(): pass
def b(): "says something"
def _c(): pass
class D:
    def e(self): pass
    def visit_Call(self): pass
    def __len__(self): pass
    @property
    def f(self): pass
    @f.setter
    def f(self, value): pass
    def k(self): "says what it does for all that derive"
class _G(module.D):
    def h(self): pass
@external("C")
def m(): ...
class L(_G):
    def e(self): pass
    def k(self): pass
async def i():
    def j(): pass
"""
    tree = ast.parse(text)
    assert undocumented(tree, classes_by_name([tree])) == ["a", "D.e", "D.f", "L.e", "i"]
