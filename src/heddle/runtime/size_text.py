"""Symbolic sizes as text: integer expressions over named sizes, as they are stored in an executable.

    size = name | integer | size + size | size - size | size * size | size // size | size % size | -size
         | min(size, size) | max(size, size) | block(size)

`block(size)` is the size of the block that a pool lends for that many bytes: see `size_class`.

The compiler writes this form (`heddle.prim.size_text`). The runtime reads it without the compiler.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from heddle.runtime.codes import F0108, U0901
from heddle.runtime.size_class import block_bytes
from heddle.support.diagnostics import FormatError, UsageError
from heddle.support.syntax import parse_expression

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max, "block": block_bytes}
_NUM_ARGUMENTS = {"min": 2, "max": 2, "block": 1}
_LARGEST = 1 << 127
"""The limit of a value. Sizes and operation counts of real programs are far smaller, but products in a
hostile file may be of any size.
"""


@lru_cache(256)
def _parsed(text: str) -> ast.expr:
    try:
        return parse_expression(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormatError(F0108, f"dimension {text[:80]!r} is no scalar expression") from error


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a size text. Raises: FormatError F0108 for a malformed text."""
    return _names(_parsed(text))


def _names(tree: ast.expr) -> tuple[str, ...]:
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return tuple(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called)


def evaluate_size(text: str, values: Mapping[str, int]) -> int | None:
    """Evaluate a size text. Return None if a name in it has no value.

    Raises: FormatError F0108 for a malformed text, and for numbers beyond `_LARGEST`; UsageError U0901 for a
    division by zero.
    """
    tree = _parsed(text)
    return _evaluate(tree, values, text) if all(name in values for name in _names(tree)) else None


def _evaluate(tree: ast.expr, values: Mapping[str, int], text: str) -> int:
    """Evaluate without recursion, because a sum may have thousands of nested terms."""
    order: list[tuple[ast.expr, int]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        operands = _operands(node, text)
        order.append((node, len(operands)))
        waiting.extend(operands)
    results: list[int] = []
    for node, count in reversed(order):
        start = len(results) - count
        result = _value(node, results[start:], values, text)
        if abs(result) > _LARGEST:
            raise FormatError(F0108, f"dimension {_shown(node, text)!r} is too large")
        results[start:] = [result]
    return results[0]


def _operands(node: ast.expr, text: str) -> Sequence[ast.expr]:
    """Return the operands of a node. Raises: FormatError F0108 for a node of another form."""
    if isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and type(node.value) is int):
        return ()
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return (node.operand,)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return (node.left, node.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if len(node.args) == _NUM_ARGUMENTS.get(node.func.id):
            return node.args
    raise FormatError(F0108, f"dimension {_shown(node, text)!r} is no sum, product or quotient")


def _value(node: ast.expr, operands: Sequence[int], values: Mapping[str, int], text: str) -> int:
    """The number of one node of a form that `_operands` accepts."""
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return node.value
    if isinstance(node, ast.UnaryOp):
        return -operands[0]
    if isinstance(node, ast.BinOp):
        if operands[1] == 0 and isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            raise UsageError(U0901, f"dimension {_shown(node, text)} divides by zero")
        return _OPERATORS[type(node.op)](*operands)
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return _FUNCTIONS[node.func.id](*operands)


def _shown(node: ast.expr, text: str) -> str:
    return (ast.get_source_segment(text, node) or text)[:80]
