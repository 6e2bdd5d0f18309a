"""Calls of a source: of functions, of conversions, of atomic memory, and of the language's own words."""

from __future__ import annotations

import ast
from collections.abc import Callable

from heddle.systems import nodes as t
from heddle.systems.codes import Y0101, Y0202, Y0204, Y0205, Y0304
from heddle.systems.expressions import ExpressionReader
from heddle.systems.types import (
    SCALARS,
    Address,
    ArrayType,
    AtomicType,
    BoolType,
    FunctionType,
    IntType,
    PointerType,
    Sized,
    TupleType,
    Type,
    i32,
    i64,
    sized,
    u8,
    u32,
    u64,
)
from heddle.systems.words import NativeFunction, Order, Word

_NOTHING = TupleType(())
_ATOMICS = {
    "load": (0, 1),
    "store": (1, 1),
    "exchange": (1, 1),
    "add": (1, 1),
    "sub": (1, 1),
    "compare_exchange": (2, 2),
}
"""Methods of atomic memory: how many values and how many orders they take."""


class CallReader(ExpressionReader):
    """`signatures` gives the signature of a declared function. `may_run_again`: whether what is being
    read may run more than once while its memory lives."""

    signatures: Callable[[NativeFunction], FunctionType]
    may_run_again = False

    def signature_of(self, found: NativeFunction, node: ast.AST) -> FunctionType:
        return self.signatures(found)

    def call(self, node: ast.Call, wanted: Type | None) -> t.Expr:
        if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            self.refuse(Y0205, "arguments are given by position", node)
        func = node.func
        is_local = isinstance(func, ast.Name) and func.id in self.types
        found = None if is_local else self.scope.find(func)
        if isinstance(found, NativeFunction):
            return self._function(found, node)
        if isinstance(found, IntType):
            return self._convert(found, node)
        if isinstance(found, Word):
            self._count(node, *_WORDS[found.name][0])
            return _WORDS[found.name][1](self, node)
        if found is min or found is max:
            return self._min_max(node, wanted)
        if found is abs:
            return self._magnitude(node)
        if isinstance(func, ast.Attribute):
            base = self.value(func.value)
            if isinstance(base.type, PointerType) and isinstance(base.type.target, AtomicType):
                return self._atomic(func.attr, base, base.type.target, node)
        if found is not None or (isinstance(func, ast.Name) and not is_local):
            if found is None and isinstance(func, ast.Name):
                self.scope.unknown(func, [*self.types])
            self.refuse(Y0205, f"{ast.unparse(func)} is no function of the systems language", node)
        return self._address(node)

    def _count(self, node: ast.Call, *counts: int) -> None:
        if len(node.args) not in counts:
            name, wanted = ast.unparse(node.func), " or ".join(map(str, counts))
            self.refuse(Y0205, f"{name} takes {wanted} arguments, got {len(node.args)}", node)

    def _arguments(self, node: ast.Call, params: tuple[Type, ...]) -> tuple[t.Expr, ...]:
        self._count(node, len(params))
        return tuple(self.value(arg, kind) for arg, kind in zip(node.args, params, strict=True))

    def _function(self, found: NativeFunction, node: ast.Call) -> t.Expr:
        signature = self.signature_of(found, node)
        self.callees.add(found)
        args = self._arguments(node, signature.params)
        return t.Call(type=signature.result or _NOTHING, line=node.lineno, callee=found, args=args)

    def _address(self, node: ast.Call) -> t.Expr:
        callee = self.value(node.func)
        if not isinstance(callee.type, FunctionType):
            self.refuse(Y0205, f"{ast.unparse(node.func)} is {callee.type!r}, not a function", node)
        args = self._arguments(node, callee.type.params)
        return t.CallAddress(
            type=callee.type.result or _NOTHING,
            line=node.lineno,
            callee=callee,
            signature=callee.type,
            args=args,
        )

    def _convert(self, to: IntType, node: ast.Call) -> t.Expr:
        self._count(node, 1)
        constant = self.scope.constant(node.args[0])
        is_local = isinstance(node.args[0], ast.Name) and node.args[0].id in self.types
        operand = self.value(node.args[0], to if constant is not None and not is_local else None)
        if not isinstance(operand.type, (IntType, BoolType)):
            self.refuse(Y0202, f"expected an integer or a bool, got {operand.type!r}", node)
        return t.Convert(type=to, line=node.lineno, operand=operand)

    def _min_max(self, node: ast.Call, wanted: Type | None) -> t.Expr:
        self._count(node, 2)
        left, right = self._pair(node.args[0], node.args[1], wanted)
        if not isinstance(left.type, IntType):
            self.refuse(Y0202, f"expected integers, got {left.type!r}", node)
        return t.MinMax(type=left.type, line=node.lineno, op=ast.unparse(node.func), left=left, right=right)

    def _magnitude(self, node: ast.Call) -> t.Expr:
        self._count(node, 1)
        operand = self.value(node.args[0])
        results: dict[Type, IntType] = {i32: u32, i64: u64}
        if operand.type not in results:
            self.refuse(Y0202, f"abs takes i32 or i64, got {operand.type!r}", node)
        return t.Magnitude(type=results[operand.type], line=node.lineno, operand=operand)

    # ---- atomic memory

    def _atomic(self, op: str, base: t.Expr, kind: AtomicType, node: ast.Call) -> t.Expr:
        if op not in _ATOMICS:
            self.refuse(
                Y0204, f"{kind!r} has no method {op!r}", node, f"its methods are {', '.join(_ATOMICS)}"
            )
        num_values, num_orders = _ATOMICS[op]
        self._count(node, num_values + num_orders)
        if op in ("add", "sub") and not isinstance(kind.element, IntType):
            self.refuse(Y0202, f"{op} takes integers, got {kind.element!r}", node)
        args = tuple(self.value(arg, kind.element) for arg in node.args[:num_values])
        orders = tuple(map(self._order, node.args[num_values:]))
        loads = [orders[-1]] if op in ("load", "compare_exchange") else []
        if Order.ACQ_REL in loads or Order.RELEASE in loads:
            self.refuse(Y0304, f"{op} reads with order {orders[-1].name}: a load cannot release", node)
        if op == "store" and orders[0] in (Order.ACQUIRE, Order.ACQ_REL):
            self.refuse(Y0304, f"store with order {orders[0].name}: a store cannot acquire", node)
        results: dict[str, Type] = {"store": _NOTHING, "compare_exchange": _BOOL}
        gives = results.get(op, kind.element)
        return t.AtomicOp(
            type=gives, line=node.lineno, op=op, pointer=base, element=kind.element, args=args, orders=orders
        )

    def _order(self, node: ast.expr) -> Order:
        found = self.scope.find(node)
        if not isinstance(found, Order):
            self.refuse(Y0205, f"expected a memory order, got {ast.unparse(node)}", node)
        return found

    # ---- words

    def _pointer(self, node: ast.expr) -> tuple[t.Expr, PointerType]:
        read = self.value(node)
        if not isinstance(read.type, PointerType):
            self.refuse(Y0202, f"expected a pointer, got {read.type!r}", node)
        return read, read.type

    def word_ref(self, node: ast.Call) -> t.Expr:
        """`ref(place)`: the address of a field, an element or `pointer.value`."""
        return self.place(node.args[0])[0]

    def word_cast(self, node: ast.Call) -> t.Expr:
        """`cast(type, pointer)`: a pointer, a function's address or a u64 as another pointer or function."""
        to = self.scope.type(node.args[0])
        if not isinstance(to, (PointerType, FunctionType)):
            self.refuse(Y0202, f"expected a pointer type, got {to!r}", node.args[0])
        operand = self.value(node.args[1])
        if not isinstance(operand.type, (PointerType, FunctionType)) and operand.type != u64:
            self.refuse(Y0202, f"expected a pointer or u64, got {operand.type!r}", node.args[1])
        return t.Convert(type=to, line=node.lineno, operand=operand)

    def word_offset(self, node: ast.Call) -> t.Expr:
        """`offset(pointer, count)`: the address so many elements further; so many bytes for an Address."""
        base, kind = self._pointer(node.args[0])
        if isinstance(kind.target, str):
            self.refuse(Y0202, f"nobody knows the size of {kind.target}", node)
        element = u8 if kind.target is None else sized(kind.target)
        made = self.element(base, self.index(node.args[1]), element, None, node)
        return t.Convert(type=Address, line=node.lineno, operand=made) if kind.target is None else made

    def word_address(self, node: ast.Call) -> t.Expr:
        """`address(pointer)`: the address as u64."""
        operand = self.value(node.args[0])
        if not isinstance(operand.type, (PointerType, FunctionType)):
            self.refuse(Y0202, f"expected a pointer, got {operand.type!r}", node)
        return t.Convert(type=u64, line=node.lineno, operand=operand)

    def word_copy(self, node: ast.Call) -> t.Expr:
        """`copy(to, source, count)`: elements of the pointers' type, by default one; bytes for an Address."""
        to, kind = self._pointer(node.args[0])
        source, count = self.value(node.args[1], kind), self._element_count(node, 2)
        if isinstance(kind.target, str) or (kind.target is None and count is None):
            self.refuse(Y0202, "nobody knows the size of what lies at an Address", node)
        size = u8.size_bytes if kind.target is None else sized(kind.target).size_bytes
        return t.Copy(type=_NOTHING, line=node.lineno, to=to, source=source, size_bytes=size, count=count)

    def _element_count(self, node: ast.Call, at: int) -> t.Expr | None:
        """The argument that a word takes or leaves out."""
        return self.index(node.args[at]) if len(node.args) > at else None

    def word_fill(self, node: ast.Call) -> t.Expr:
        """`fill(to, byte, count)`: `count` bytes get the value `byte`."""
        to, _ = self._pointer(node.args[0])
        byte, count = self.value(node.args[1], u8), self.value(node.args[2], u64)
        return t.Fill(type=_NOTHING, line=node.lineno, to=to, byte=byte, count=count)

    def word_local(self, node: ast.Call) -> t.Expr:
        """`local(type, count)`: memory of the call, by default for one element. Raises: VerifyError Y0101
        where memory of a free size could be taken again and again."""
        kind, count = self._sized_type(node.args[0]), self._element_count(node, 1)
        if count is not None and self.may_run_again:
            message = "memory of a free size would be taken again and again here"
            self.refuse(Y0101, message, node, "take it outside of loops and of inline functions")
        return t.Room(type=PointerType(kind), line=node.lineno, of=kind, count=count)

    def word_size_of(self, node: ast.Call) -> t.Expr:
        """`size_of(type)`: its bytes, a constant of type u64."""
        return t.Const(type=u64, line=node.lineno, value=self._sized_type(node.args[0]).size_bytes)

    def _sized_type(self, node: ast.expr) -> Sized:
        kind = self.scope.type(node)
        if not isinstance(kind, (*SCALARS, ArrayType, AtomicType)) and not hasattr(kind, "fields"):
            self.refuse(Y0202, f"{kind!r} cannot be in memory", node)
        return sized(kind)

    def word_leading_zeros(self, node: ast.Call) -> t.Expr:
        """`leading_zeros(x)`: the zero bits above the highest one, of x's type; all bits for 0."""
        operand = self.value(node.args[0])
        if not isinstance(operand.type, IntType) or operand.type.is_signed:
            self.refuse(Y0202, f"leading_zeros takes unsigned integers, got {operand.type!r}", node)
        return t.LeadingZeros(type=operand.type, line=node.lineno, operand=operand)

    def word_cycle_counter(self, node: ast.Call) -> t.Expr:
        """`cycle_counter()`: the processor's count of cycles, u64."""
        return t.CycleCounter(type=u64, line=node.lineno)


_BOOL = BoolType()
_WORDS: dict[str, tuple[tuple[int, ...], Callable[[CallReader, ast.Call], t.Expr]]] = {
    "ref": ((1,), CallReader.word_ref),
    "cast": ((2,), CallReader.word_cast),
    "offset": ((2,), CallReader.word_offset),
    "address": ((1,), CallReader.word_address),
    "copy": ((2, 3), CallReader.word_copy),
    "fill": ((3,), CallReader.word_fill),
    "local": ((1, 2), CallReader.word_local),
    "size_of": ((1,), CallReader.word_size_of),
    "leading_zeros": ((1,), CallReader.word_leading_zeros),
    "cycle_counter": ((0,), CallReader.word_cycle_counter),
}
