"""Expressions of a source: from Python's syntax tree to the typed tree."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NoReturn

from heddle.support.diagnostics import Code, did_you_mean
from heddle.systems import nodes as t
from heddle.systems.codes import Y0101, Y0201, Y0202, Y0203, Y0204, Y0301
from heddle.systems.scope import Scope, symbol_of
from heddle.systems.types import (
    BOOL,
    SCALARS,
    Address,
    ArrayType,
    FloatType,
    FunctionType,
    IntType,
    PointerType,
    Sized,
    StructType,
    TupleType,
    Type,
    sized,
    u8,
)
from heddle.systems.words import Global, NativeFunction, PlatformValue, Text, null

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_NOTHING = TupleType(())


class ExpressionReader(ABC):
    """Reads the expressions of one function. `types` has the locals seen so far, `assigned` those of them
    that have a value here. Calls are `CallReader`'s."""

    def __init__(self, scope: Scope, types: dict[str, Type]) -> None:
        self.scope = scope
        self.types = types
        self.assigned = set(types)
        self.callees: set[NativeFunction] = set()
        self.memory: list[Global | Text] = []

    def refuse(self, code: Code, message: str, node: ast.AST, help: str | None = None) -> NoReturn:
        """Raises: VerifyError with the code, at the place of a part of the syntax tree."""
        self.scope.refuse(code, message, node, help)

    def value(self, node: ast.expr, wanted: Type | None = None) -> t.Expr:
        """An expression; a constant takes the type that is wanted. Raises: VerifyError with a Y code."""
        constant = self.scope.constant(node)
        if constant is not None and not (isinstance(node, ast.Name) and node.id in self.types):
            return self._constant(constant, wanted, node)
        read = self._read(node, wanted)
        return read if wanted is None else self.fit(read, wanted, node)

    def fit(self, read: t.Expr, wanted: Type, node: ast.AST) -> t.Expr:
        """The expression, if it has the type; an address may be passed where any address will do."""
        if read.type == wanted:
            return read
        if wanted == Address and isinstance(read.type, PointerType):
            return t.Convert(type=Address, line=read.line, operand=read)
        got = "nothing" if read.type == _NOTHING else repr(read.type)
        self.refuse(Y0202, f"expected {wanted!r}, got {got}", node)

    def condition(self, node: ast.expr) -> t.Expr:
        """An expression of type bool. Raises: VerifyError with a Y code."""
        return self.value(node, BOOL)

    def _constant(self, value: int, wanted: Type | None, node: ast.expr) -> t.Expr:
        if wanted is None:
            self.refuse(Y0203, "a constant needs a type", node, f"write its type, as in u64({value})")
        if not isinstance(wanted, IntType):
            self.refuse(Y0202, f"expected {wanted!r}, got an integer", node)
        if not wanted.least <= value <= wanted.most:
            self.refuse(Y0203, f"{value} does not fit into {wanted!r}", node)
        return t.Const(type=wanted, line=node.lineno, value=value)

    def _read(self, node: ast.expr, wanted: Type | None) -> t.Expr:
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return t.Const(type=BOOL, line=node.lineno, value=int(node.value))
        if isinstance(node, ast.Name):
            return self._name(node, wanted)
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            return self._loaded(node)
        if isinstance(node, ast.BinOp):
            return self._binary(node, wanted)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, wanted)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.BoolOp):
            return self._logic(node)
        if isinstance(node, ast.IfExp):
            return self._select(node, wanted)
        if isinstance(node, ast.Call):
            return self.call(node, wanted)
        if isinstance(node, ast.Tuple):
            return self._tuple(node, wanted)
        self.refuse(Y0101, f"{type(node).__name__} is not part of the systems language", node)

    @abstractmethod
    def call(self, node: ast.Call, wanted: Type | None) -> t.Expr:
        """A call. Raises: VerifyError with a Y code."""

    def _tuple(self, node: ast.Tuple, wanted: Type | None) -> t.Expr:
        if not isinstance(wanted, TupleType) or len(wanted.elements) != len(node.elts):
            self.refuse(Y0202, f"expected {wanted!r}, got {len(node.elts)} values", node)
        items = tuple(self.value(item, kind) for item, kind in zip(node.elts, wanted.elements, strict=True))
        return t.MakeTuple(type=wanted, line=node.lineno, items=items)

    # ---- names

    def _name(self, node: ast.Name, wanted: Type | None) -> t.Expr:
        if node.id in self.types:
            if node.id not in self.assigned:
                self.refuse(Y0301, f"{node.id!r} has no value on some way to here", node)
            return t.Local(type=self.types[node.id], line=node.lineno, name=node.id)
        found, line = self.scope.find(node), node.lineno
        if isinstance(found, (Global, Text)):
            self.memory.append(found)
        if isinstance(found, Global):
            return t.GlobalAddress(type=PointerType(found.type), line=line, name=symbol_of(found), of=found)
        if isinstance(found, Text):
            return t.TextAddress(type=PointerType(u8), line=line, name=symbol_of(found), of=found)
        if isinstance(found, PlatformValue):
            return t.PlatformConst(type=found.word, line=line, of=found)
        if found is null:
            if not isinstance(wanted, (PointerType, FunctionType)):
                self.refuse(Y0202, f"expected {wanted!r}, got null" if wanted else "null needs a type", node)
            return t.Null(type=wanted, line=line)
        if isinstance(found, NativeFunction):
            return self._function_address(found, node, wanted)
        if found is None:
            self.scope.unknown(node, [*self.types])
        self.refuse(Y0201, f"{node.id!r} is no value", node)

    def _function_address(self, found: NativeFunction, node: ast.Name, wanted: Type | None) -> t.Expr:
        if found.is_inline or found.text:
            self.refuse(Y0202, f"{found.name} is put in place of its calls: it has no address", node)
        self.callees.add(found)
        signature = self.signature_of(found, node)
        return t.FunctionAddress(type=signature, line=node.lineno, of=found)

    @abstractmethod
    def signature_of(self, found: NativeFunction, node: ast.AST) -> FunctionType:
        """The parameters and the result of a declared function."""

    # ---- places

    def place(self, node: ast.expr) -> tuple[t.Expr, Sized]:
        """The address of a place, and what lies there."""
        if isinstance(node, ast.Attribute):
            return self._field(node)
        if isinstance(node, ast.Subscript):
            return self._element(node)
        self.refuse(Y0101, "expected a field, an element or pointer.value", node)

    def _target_of(self, base: t.Expr, node: ast.AST) -> Sized:
        if not isinstance(base.type, PointerType):
            self.refuse(Y0202, f"expected a pointer, got {base.type!r}", node)
        if base.type.target is None or isinstance(base.type.target, str):
            self.refuse(
                Y0202, "nobody knows what lies at an Address", node, "cast it to a Pointer[...] first"
            )
        return sized(base.type.target)

    def _field(self, node: ast.Attribute) -> tuple[t.Expr, Sized]:
        base = self.value(node.value)
        target = self._target_of(base, node.value)
        if isinstance(target, StructType):
            if node.attr not in target.fields:
                hint = did_you_mean(node.attr, target.fields)
                self.refuse(Y0204, f"{target!r} has no field {node.attr!r}", node, hint)
            item = target.fields[node.attr]
            made = t.FieldAddress(
                type=PointerType(item.type), line=node.lineno, base=base, struct=target.name, field=item
            )
            return made, item.type
        if node.attr != "value":
            self.refuse(
                Y0204, f"{target!r} has no field {node.attr!r}", node, "pointer.value is what it points to"
            )
        return base, target

    def _element(self, node: ast.Subscript) -> tuple[t.Expr, Sized]:
        base = self.value(node.value)
        target = self._target_of(base, node.value)
        element, count = (
            (sized(target.element), target.count) if isinstance(target, ArrayType) else (target, None)
        )
        return self.element(base, self.index(node.slice), element, count, node), element

    def index(self, node: ast.expr) -> t.Expr:
        """An index: of any integer type, i64 if it is a constant."""
        constant = self.scope.constant(node)
        is_local = isinstance(node, ast.Name) and node.id in self.types
        index = self.value(node, IntType("i64", 64, True) if constant is not None and not is_local else None)
        if not isinstance(index.type, IntType):
            self.refuse(Y0202, f"expected an integer, got {index.type!r}", node)
        return index

    def element(
        self, base: t.Expr, index: t.Expr, element: Sized, count: int | None, node: ast.expr
    ) -> t.Expr:
        """The address of an element; `count` is the array's length, None where a pointer does not tell it."""
        return t.ElementAddress(
            type=PointerType(element), line=node.lineno, base=base, index=index, element=element, count=count
        )

    def _loaded(self, node: ast.expr) -> t.Expr:
        """What lies at a place; for a structure, an array or an atomic, its address."""
        pointer, kind = self.place(node)
        return t.Load(type=kind, line=node.lineno, pointer=pointer) if isinstance(kind, SCALARS) else pointer

    # ---- operators

    def _pair(self, left: ast.expr, right: ast.expr, wanted: Type | None) -> tuple[t.Expr, t.Expr]:
        """Two operands of one type; a constant takes the other's."""
        if self._is_open(left) and not self._is_open(right):
            second = self.value(right, wanted)
            return self.value(left, second.type), second
        first = self.value(left, wanted)
        return first, self.value(right, first.type)

    def _is_open(self, node: ast.expr) -> bool:
        """Whether an expression has no type of its own."""
        if isinstance(node, ast.Name) and node.id in self.types:
            return False
        return self.scope.constant(node) is not None or self.scope.find(node) is null

    def _binary(self, node: ast.BinOp, wanted: Type | None) -> t.Expr:
        left, right = self._pair(node.left, node.right, wanted)
        op = self.operator(node.op, left.type, node)
        return t.Binary(type=left.type, line=node.lineno, op=op, left=left, right=right)

    def operator(self, given: ast.operator, kind: Type, node: ast.AST) -> str:
        """The operator's sign, if it computes with the type."""
        op = _OPERATORS.get(type(given))
        if op is None:
            self.refuse(Y0101, f"operator {type(given).__name__} is not part of the systems language", node)
        if op in "&|^" and kind == BOOL:
            return op
        if not isinstance(kind, IntType):
            self.refuse(Y0202, f"expected integers, got {kind!r}", node)
        if op in ("//", "%") and kind.is_signed:
            self.refuse(
                Y0202, f"{op} takes unsigned integers, got {kind!r}", node, "Python and C round differently"
            )
        return op

    def _unary(self, node: ast.UnaryOp, wanted: Type | None) -> t.Expr:
        if isinstance(node.op, ast.Not):
            return t.Not(type=BOOL, line=node.lineno, operand=self.condition(node.operand))
        operand = self.value(node.operand, wanted)
        if not isinstance(operand.type, IntType) or isinstance(node.op, ast.UAdd):
            self.refuse(Y0202, f"expected an integer, got {operand.type!r}", node)
        value = 0 if isinstance(node.op, ast.USub) else operand.type.wrap(-1)
        left = t.Const(type=operand.type, line=node.lineno, value=value)
        op = "-" if isinstance(node.op, ast.USub) else "^"
        return t.Binary(type=operand.type, line=node.lineno, op=op, left=left, right=operand)

    def _compare(self, node: ast.Compare) -> t.Expr:
        if len(node.ops) > 1:
            self.refuse(Y0101, "comparisons are not chained", node, "join two of them with `and`")
        op = _COMPARISONS.get(type(node.ops[0]))
        if op is None:
            self.refuse(Y0101, f"{type(node.ops[0]).__name__} is not part of the systems language", node)
        left, right = self._pair(node.left, node.comparators[0], None)
        is_bool = left.type == BOOL and op not in ("==", "!=")
        if is_bool or isinstance(left.type, (TupleType, FloatType)):
            self.refuse(Y0202, f"{op} does not compare {left.type!r}", node)
        return t.Compare(type=BOOL, line=node.lineno, op=op, left=left, right=right)

    def _logic(self, node: ast.BoolOp) -> t.Expr:
        op = "and" if isinstance(node.op, ast.And) else "or"
        operands: Sequence[t.Expr] = [self.condition(item) for item in node.values]
        made = operands[-1]
        for operand in reversed(operands[:-1]):
            made = t.Logic(type=BOOL, line=node.lineno, op=op, left=operand, right=made)
        return made

    def _select(self, node: ast.IfExp, wanted: Type | None) -> t.Expr:
        test = self.condition(node.test)
        then, other = self._pair(node.body, node.orelse, wanted)
        return t.Select(type=then.type, line=node.lineno, test=test, then=then, other=other)
