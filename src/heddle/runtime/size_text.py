"""Sizes as text: sums, products, quotients and remainders over names, as they travel with an executable.

    size = name | integer | size + size | size - size | size * size | size // size | size % size | -size
         | min(size, size) | max(size, size) | block(size)

`block(size)` is how many bytes a pool lends for so many: see `size_class`.

Written by the compiler (`heddle.prim.size_text`), read by what runs programs without it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from heddle.runtime.codes import F0108, U0901
from heddle.runtime.size_class import block_bytes
from heddle.support.diagnostics import FormatError, UsageError

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CHOICES: dict[str, Callable[[int, int], int]] = {"min": min, "max": max}


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormatError(F0108, f"dimension {text[:80]!r} is no scalar expression") from error


def names_in(text: str) -> tuple[str, ...]:
    """The names of sizes in a text. Raises: FormatError F0108 for another form."""
    tree = _parsed(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return tuple(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called)


def evaluate_size(text: str, values: Mapping[str, int]) -> int | None:
    """The number that a text stands for, or None where a name in it has no value.

    Raises: FormatError F0108 for another form; UsageError U0901 for a division by zero.
    """
    tree = _parsed(text)
    return _evaluate(tree, values) if all(name in values for name in names_in(text)) else None


def _evaluate(node: ast.expr, values: Mapping[str, int]) -> int:
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, values)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _evaluate(node.left, values), _evaluate(node.right, values)
        if right == 0 and isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            raise UsageError(U0901, f"dimension {ast.unparse(node)} divides by zero")
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        if node.func.id == "block" and not node.keywords:
            return block_bytes(_evaluate(node.args[0], values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
        choose = _CHOICES.get(node.func.id)
        if choose is not None and not node.keywords:
            return choose(_evaluate(node.args[0], values), _evaluate(node.args[1], values))
    raise FormatError(F0108, f"dimension {ast.unparse(node)[:80]!r} is no sum, product or quotient")
