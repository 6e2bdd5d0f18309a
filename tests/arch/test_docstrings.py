"""Public functions without a docstring become fewer: `undocumented.toml` has how many each room may have."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.arch.tree import ROOT, source_files

NUMBERS = ROOT / "tests" / "arch" / "undocumented.toml"
_HEAD = """# Public functions and methods without a docstring, by room. The numbers only fall: write
# docstrings, then run `pytest tests/arch/test_docstrings.py --update`.
"""
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


def _found() -> dict[str, list[str]]:
    classes = classes_by_name(file.tree for file in source_files())
    found: dict[str, list[str]] = {}
    for file in source_files():
        names = found.setdefault(file.room, [])
        names += [f"{file.name}: {name}" for name in undocumented(file.tree, classes)]
    return {room: names for room, names in found.items() if names}


def _text(numbers: dict[str, int]) -> str:
    return _HEAD + "".join(f'"{room}" = {count}\n' for room, count in sorted(numbers.items()))


def test_public_functions_without_docstring_become_fewer(request: pytest.FixtureRequest) -> None:
    allowed = Counter(tomllib.loads(NUMBERS.read_text()))
    found = _found()
    numbers = {room: len(names) for room, names in found.items()}
    more = [
        f"{room}: {numbers[room]} public functions have no docstring, {allowed[room]} are allowed:\n  "
        + "\n  ".join(found[room])
        for room in numbers
        if numbers[room] > allowed[room]
    ]
    assert not more, "\n".join(more)
    if request.config.getoption("--update"):
        NUMBERS.write_text(_text(numbers))
    elif numbers != {room: count for room, count in allowed.items() if count}:
        pytest.fail("there are fewer: run `pytest tests/arch/test_docstrings.py --update`")


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
