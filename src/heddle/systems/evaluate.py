"""Expressions in the interpreter. Integers are Python's, pointers are addresses, several results a tuple."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heddle.systems import nodes as t
from heddle.systems.codes import Y0401, Y0407, Y0409
from heddle.systems.running import Running, Value
from heddle.systems.simulated_threads import Frame
from heddle.systems.types import IntType, TupleType, Type, sized
from heddle.systems.words import Order

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_COMPUTE: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}
_ADDRESS_MASK = (1 << 64) - 1


class Evaluator:
    """Computes expressions for a machine."""

    def __init__(self, machine: Running) -> None:
        self._machine = machine

    def value(self, node: t.Expr, frame: Frame) -> Value:
        """The value of an expression in a call."""
        frame.line = node.line
        found: Value = getattr(self, "_" + type(node).__name__)(node, frame)
        return found

    def number(self, node: t.Expr, frame: Frame) -> int:
        """The value of an expression that is no tuple."""
        found = self.value(node, frame)
        assert isinstance(found, int)
        return found

    def write(self, node: t.Store | t.Update, frame: Frame) -> None:
        """Store a value, or what an operator makes of the value that lies there and of a second one."""
        kind = sized(node.value.type)
        pointer = self.number(node.pointer, frame)
        if isinstance(node, t.Store):
            new = self.number(node.value, frame)
        else:
            old = self._machine.load(pointer, kind)
            new = self.compute(node.op, kind, old, self.number(node.value, frame))
        frame.line = node.line
        self._machine.store(pointer, kind, new)

    def compute(self, op: str, kind: Type, left: int, right: int) -> int:
        """Fails with Y0407 where the operation has no value."""
        if op in ("//", "%") and right == 0:
            self._machine.fail(Y0407, f"division of {left} by zero")
        if isinstance(kind, IntType):
            if op in ("<<", ">>") and not 0 <= right < kind.bits:
                self._machine.fail(Y0407, f"{kind!r} is shifted by {right}")
            return kind.wrap(_COMPUTE[op](left, right))
        return _COMPUTE[op](left, right)

    # ---- names and memory

    def _Const(self, node: t.Const, frame: Frame) -> Value:
        return node.value

    def _Null(self, node: t.Null, frame: Frame) -> Value:
        return 0

    def _Local(self, node: t.Local, frame: Frame) -> Value:
        return frame.locals[node.name]

    def _GlobalAddress(self, node: t.GlobalAddress, frame: Frame) -> Value:
        return self._machine.global_at(node.name)

    def _TextAddress(self, node: t.TextAddress, frame: Frame) -> Value:
        return self._machine.text_at(node.name)

    def _FunctionAddress(self, node: t.FunctionAddress, frame: Frame) -> Value:
        return self._machine.address_of(node.of)

    def _PlatformConst(self, node: t.PlatformConst, frame: Frame) -> Value:
        if node.of.name not in self._machine.platform:
            self._machine.fail(Y0409, f"platform constant {node.of.name} has no value")
        return self._machine.platform[node.of.name]

    def _Load(self, node: t.Load, frame: Frame) -> Value:
        return self._machine.load(self.number(node.pointer, frame), sized(node.type))

    def _FieldAddress(self, node: t.FieldAddress, frame: Frame) -> Value:
        return self.number(node.base, frame) + node.field.offset_bytes

    def _ElementAddress(self, node: t.ElementAddress, frame: Frame) -> Value:
        base, index = self.number(node.base, frame), self.number(node.index, frame)
        if node.count is not None and not 0 <= index < node.count:
            self._machine.fail(Y0401, f"index {index} is outside an array of {node.count}")
        return (base + index * node.element.size_bytes) & _ADDRESS_MASK

    def _Room(self, node: t.Room, frame: Frame) -> Value:
        return self._machine.room(node.of, 1 if node.count is None else self.number(node.count, frame))

    def _Copy(self, node: t.Copy, frame: Frame) -> Value:
        to, source = self.number(node.to, frame), self.number(node.source, frame)
        count = 1 if node.count is None else self.number(node.count, frame)
        size = node.size_bytes * count
        if self._moves(size, f"cannot copy {count} elements"):
            if 0 < abs(to - source) < size:
                message = f"cannot copy {size} bytes from {source:#x} to {to:#x}: the two overlap"
                self._machine.fail(Y0407, message)
            self._machine.memory.copy(to, source, size)
            self._machine.touch(source, size, writes=False)
            self._machine.touch(to, size, writes=True)
        return 0

    def _Fill(self, node: t.Fill, frame: Frame) -> Value:
        to, byte = self.number(node.to, frame), self.number(node.byte, frame)
        count = self.number(node.count, frame)
        if self._moves(count, f"cannot fill {count} bytes"):
            self._machine.memory.range(to, count, 1, "write")
            self._machine.memory.write(to, bytes([byte]) * count)
            self._machine.touch(to, count, writes=True)
        return 0

    def _moves(self, size_bytes: int, refusal: str) -> bool:
        """Whether a copy or fill touches memory: no bytes may lie anywhere, at null, too. Fails with Y0401
        for a negative number of them."""
        self._machine.step()
        if size_bytes < 0:
            self._machine.fail(Y0401, refusal)
        return size_bytes > 0

    # ---- arithmetic

    def _Binary(self, node: t.Binary, frame: Frame) -> Value:
        left, right = self.number(node.left, frame), self.number(node.right, frame)
        return self.compute(node.op, node.type, left, right)

    def _Compare(self, node: t.Compare, frame: Frame) -> Value:
        return int(_COMPARE[node.op](self.value(node.left, frame), self.value(node.right, frame)))

    def _Not(self, node: t.Not, frame: Frame) -> Value:
        return 1 - self.number(node.operand, frame)

    def _Logic(self, node: t.Logic, frame: Frame) -> Value:
        left = self.value(node.left, frame)
        return self.value(node.right, frame) if bool(left) == (node.op == "and") else left

    def _Select(self, node: t.Select, frame: Frame) -> Value:
        return self.value(node.then if self.value(node.test, frame) else node.other, frame)

    def _MinMax(self, node: t.MinMax, frame: Frame) -> Value:
        left, right = self.number(node.left, frame), self.number(node.right, frame)
        return min(left, right) if node.op == "min" else max(left, right)

    def _Magnitude(self, node: t.Magnitude, frame: Frame) -> Value:
        return abs(self.number(node.operand, frame))

    def _LeadingZeros(self, node: t.LeadingZeros, frame: Frame) -> Value:
        assert isinstance(node.type, IntType)
        return node.type.bits - self.number(node.operand, frame).bit_length()

    def _CycleCounter(self, node: t.CycleCounter, frame: Frame) -> Value:
        count: int = self._machine.state.get("cycles", 0) + 100
        self._machine.state["cycles"] = count
        return count

    def _Convert(self, node: t.Convert, frame: Frame) -> Value:
        value = self.number(node.operand, frame)
        return node.type.wrap(value) if isinstance(node.type, IntType) else value

    # ---- calls

    def _MakeTuple(self, node: t.MakeTuple, frame: Frame) -> Value:
        return tuple(self.number(item, frame) for item in node.items)

    def _Call(self, node: t.Call, frame: Frame) -> Value:
        args = tuple(self.value(arg, frame) for arg in node.args)
        frame.line = node.line
        return self._machine.call_function(node.callee, args)

    def _CallAddress(self, node: t.CallAddress, frame: Frame) -> Value:
        callee = self.number(node.callee, frame)
        args = tuple(self.value(arg, frame) for arg in node.args)
        frame.line = node.line
        found = self._machine.call_address(callee, args, node.signature)
        return 0 if node.type == TupleType(()) else found

    def _AtomicOp(self, node: t.AtomicOp, frame: Frame) -> Value:
        machine, kind = self._machine, node.element
        pointer = self.number(node.pointer, frame)
        args = [self.number(arg, frame) for arg in node.args]
        frame.line = node.line
        if node.op == "store":
            machine.store(pointer, kind, args[0], is_atomic=True)
            self._synchronise(pointer, None, node.orders[0], False)
            return 0
        old = machine.load(pointer, kind, is_atomic=True)
        if node.op == "load" or (node.op == "compare_exchange" and old != args[0]):
            self._synchronise(pointer, node.orders[-1], None, False)
            return old if node.op == "load" else 0
        new = {"add": lambda: old + args[0], "sub": lambda: old - args[0]}.get(node.op, lambda: args[-1])()
        self._replace(pointer, node, new)
        return 1 if node.op == "compare_exchange" else old

    def _replace(self, pointer: int, node: t.AtomicOp, new: int) -> None:
        """The second half of a read-modify-write: no other thread comes between."""
        machine, kind = self._machine, node.element
        data = (new & (1 << 8 * kind.size_bytes) - 1).to_bytes(kind.size_bytes, "little")
        machine.memory.write(pointer, data, kind.align_bytes)
        machine.touch(pointer, kind.size_bytes, writes=True, is_atomic=True)
        self._synchronise(pointer, node.orders[0], node.orders[0], True)

    def _synchronise(self, key: int, read: Order | None, written: Order | None, is_rmw: bool) -> None:
        races, thread = self._machine.races, self._machine.scheduler.current.number
        if read is not None and read.acquires:
            races.acquire(thread, key)
        if written is not None:
            if written.releases:
                races.release(thread, key, keeps=is_rmw)
            elif not is_rmw:
                races.forget(key)
