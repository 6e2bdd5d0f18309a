"""What names of a source mean: the source's text as a syntax tree, and its declarations as objects."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from heddle.support.diagnostics import Code, VerifyError, did_you_mean
from heddle.support.span import Source, SourceSpan
from heddle.systems.codes import Y0201, Y0206
from heddle.systems.types import Type, type_of_word
from heddle.systems.words import Global, NativeFunction, Text

_BUILTINS = {"bool": bool, "min": min, "max": max, "abs": abs}


class Scope:
    """One source module: `functions` maps the names of its native functions to their syntax trees."""

    def __init__(self, module: ModuleType) -> None:
        assert module.__file__ is not None
        self.module = module
        path = Path(module.__file__)
        text = path.read_text(encoding="utf-8")
        self.source = Source(str(path), text)
        body = ast.parse(text).body
        self.functions = {
            node.name: node
            for node in body
            if isinstance(node, ast.FunctionDef) and isinstance(vars(module).get(node.name), NativeFunction)
        }
        self._assignments = {
            target.id: node
            for node in body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def refuse(self, code: Code, message: str, node: ast.AST, help: str | None = None) -> NoReturn:
        """Raises: VerifyError with the code, at the place of a part of the syntax tree."""
        raise VerifyError(code, message, span=self.span(node), help=help)

    def span(self, node: Any) -> SourceSpan:
        """Where a part of the syntax tree stands; of several lines, the first."""
        line = self.source.line(node.lineno)
        ends = (node.end_lineno, node.end_col_offset) if node.end_lineno == node.lineno else (None, None)
        end = len(line) if ends[1] is None else ends[1]
        return SourceSpan(self.source, node.lineno, node.col_offset + 1, node.lineno, end + 1)

    def place_of(self, name: str) -> SourceSpan | None:
        """Where the module gives a function, a text or a global its name; None for what another way made."""
        node = self.functions.get(name) or self._assignments.get(name)
        return None if node is None else self.span(node)

    def find(self, node: ast.expr) -> Any:
        """The object that a name, or a dotted name, of the module means; None where there is none."""
        if isinstance(node, ast.Name):
            return vars(self.module).get(node.id, _BUILTINS.get(node.id))
        if isinstance(node, ast.Attribute):
            base = self.find(node.value)
            if isinstance(base, ModuleType) or (isinstance(base, type) and issubclass(base, Enum)):
                return getattr(base, node.attr, None)
        return None

    def unknown(self, node: ast.Name, local_names: Sequence[str] = ()) -> NoReturn:
        """Raises: VerifyError Y0201, with the known name that is most like it."""
        known = [*local_names, *vars(self.module)]
        self.refuse(Y0201, f"name {node.id!r} is not defined", node, did_you_mean(node.id, known))

    def constant(self, node: ast.expr) -> int | None:
        """The value of an expression of integer constants, or None."""
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if isinstance(node, (ast.Name, ast.Attribute)):
            found = self.find(node)
            return int(found) if isinstance(found, int) and not isinstance(found, bool) else None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Invert)):
            operand = self.constant(node.operand)
            if operand is None:
                return None
            return -operand if isinstance(node.op, ast.USub) else ~operand
        if isinstance(node, ast.BinOp):
            left, right = self.constant(node.left), self.constant(node.right)
            return None if left is None or right is None else _fold(node.op, left, right)
        return None

    def type(self, node: ast.expr) -> Type:
        """The type that an annotation or an argument of `cast` names."""
        try:
            return type_of_word(self._type_word(node))
        except TypeError as error:
            self.refuse(Y0206, str(error), node)

    def _type_word(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Subscript):
            maker = self.find(node.value)
            item = node.slice
            if maker is not None and isinstance(maker, type):
                if isinstance(item, ast.Tuple):
                    return maker[tuple(map(self._type_word, item.elts))]  # type: ignore[index]
                return maker[self._type_word(item)]  # type: ignore[index]
        if isinstance(node, ast.List):
            return [self.type(item) for item in node.elts]
        if isinstance(node, ast.Constant) and node.value is None:
            return None
        number = self.constant(node)
        if number is not None:
            return number
        found = self.find(node)
        if found is None:
            self.refuse(Y0206, f"{ast.unparse(node)} is not a type", node)
        return found

    def tuple_types(self, node: ast.expr) -> tuple[Type, ...] | None:
        """The elements of `tuple[...]`, a result; None for another annotation."""
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "tuple":
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return tuple(map(self.type, items))
        return None


def symbol_of(declared: Global | Text) -> str:
    """The name of a global or a text in its home module. Raises: VerifyError Y0201 where it has none."""
    for name, value in vars(sys.modules[declared.module]).items():
        if value is declared:
            return name
    raise VerifyError(Y0201, f"{declared!r} has no name in {declared.module}: assign it to one")


def _fold(op: ast.operator, left: int, right: int) -> int | None:
    """What Python's operator gives; None where it gives nothing, or a shift is as wide as no type is."""
    if isinstance(op, ast.Add):
        return left + right
    if isinstance(op, ast.Sub):
        return left - right
    if isinstance(op, ast.Mult):
        return left * right
    if isinstance(op, ast.BitOr):
        return left | right
    if isinstance(op, ast.BitAnd):
        return left & right
    if isinstance(op, ast.BitXor):
        return left ^ right
    if isinstance(op, ast.LShift) and 0 <= right < 64:
        return left << right
    if isinstance(op, ast.RShift) and 0 <= right < 64:
        return left >> right
    if isinstance(op, ast.FloorDiv) and right:
        return left // right
    if isinstance(op, ast.Mod) and right:
        return left % right
    return None
