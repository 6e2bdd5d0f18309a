"""Parse symbolic sizes given as text: `R.Tensor(("n", "n * 2"), "float32")` in Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from heddle.prim.nodes import PrimExpr, SizeVar
from heddle.relax.codes import R0401
from heddle.support.diagnostics import ParseError
from heddle.support.syntax import parse_expression

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class NamedDims:
    """Converts texts to sizes. Equal names give the same variable, but each object has its own variables."""

    def __init__(self) -> None:
        self._vars: dict[str, PrimExpr] = {}

    def __call__(self, value: Any) -> Any:
        """Convert a text to a size; other values are returned unchanged. Raises: ParseError R0401."""
        if not isinstance(value, str):
            return value
        try:
            return self._made(parse_expression(value), value)
        except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError) as error:
            if isinstance(error, ParseError):
                raise
            raise self._refused(value) from error

    def _made(self, tree: ast.expr, text: str) -> Any:
        if isinstance(tree, ast.Name):
            return self._vars.setdefault(tree.id, SizeVar(tree.id))
        if isinstance(tree, ast.Constant) and type(tree.value) is int:
            return tree.value
        if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
            return _BINARY[type(tree.op)](self._made(tree.left, text), self._made(tree.right, text))
        raise self._refused(text)

    def _refused(self, text: str) -> ParseError:
        return ParseError(
            R0401, f"dimension {text!r} is no expression", help="names and integers with + - * // %"
        )
