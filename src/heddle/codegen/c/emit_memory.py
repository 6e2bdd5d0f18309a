"""Loads, stores and addresses in C, and the lanes of vector statements.

A pointer has the type of the elements that are read and written through it. Where those are of several
types, as in memory that is used twice, it points to bytes, and elements are copied in and out: C lets the
compiler assume that a float and an integer never share memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from heddle.codegen.c.emit_expr import ExprEmitter, Lane, Lanes
from heddle.codegen.c.types import element_type, memory_type, suffix
from heddle.codegen.c.writer import FunctionWriter, bare
from heddle.codegen.codes import G0101
from heddle.codegen.expressions import is_mask, is_speculatable
from heddle.ir.structural import structural_equal
from heddle.ir.visitor import walk
from heddle.prim.nodes import Broadcast, Call, IntImm, PrimExpr, Ramp, Shuffle, Var
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import UsageError
from heddle.tir.nodes import AllocBuffer, Buffer, BufferLoad, BufferStore, PrimFunc, Stmt

BYTES = "unsigned char"


class Pointers:
    """The C types of a function's pointers, by what is done through them; `read` are those read from."""

    def __init__(self, func: PrimFunc) -> None:
        self._types: dict[Var, set[str]] = {}
        self.read: set[Var] = set()
        for node in walk(func.body):
            if isinstance(node, (BufferLoad, BufferStore, AllocBuffer)):
                self._types.setdefault(node.buffer.data, set()).add(memory_type(node.buffer.dtype))
            if isinstance(node, BufferLoad):
                self.read.add(node.buffer.data)
        noalias = bool(func.attrs.get("tir.noalias"))
        params = {param for param in func.params if param.dtype.is_handle}
        self._may_alias = frozenset() if noalias else frozenset(params)
        self.restricted = frozenset(param for param in params if noalias and param.element_dtype is not None)

    def target(self, data: Var) -> str:
        """What a pointer points to."""
        types = self._types.get(data, set())
        return next(iter(types)) if len(types) == 1 else BYTES if types else "void"

    def is_punned(self, data: Var) -> bool:
        """Whether elements of several types are read and written through the pointer."""
        return len(self._types.get(data, ())) > 1

    def may_share(self, one: Var, other: Var) -> bool:
        """Whether what is written through one pointer may be read through the other."""
        return one is other or (one in self._may_alias and other in self._may_alias)


class MemoryEmitter(ExprEmitter):
    """Adds buffer accesses to expressions. Buffers are flat: one index each."""

    def __init__(self, out: FunctionWriter, pointers: Pointers) -> None:
        super().__init__(out)
        self.pointers = pointers

    def flat_index(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        """The only index. Raises: UsageError G0101 for a buffer that was not flattened."""
        if len(indices) != 1 or buffer.strides or buffer.elem_offset is not None:
            raise UsageError(G0101, f"buffer {buffer.name!r} was not flattened")
        return indices[0]

    def place(self, buffer: Buffer, index: PrimExpr) -> str:
        """The number of an element from the buffer's first, of the present lane."""
        inner, lane = buffer.dtype.lanes, self.lane
        if inner == 1:
            return self.emit_index(index)
        if index.dtype.lanes == 1:
            return f"({self.emit_lane_index(index, None)} * {inner} + {lane})"
        outer: Lane = lane // inner if isinstance(lane, int) else f"({lane} / {inner})"
        rest = lane % inner if isinstance(lane, int) else f"{lane} % {inner}"
        return f"({self.emit_lane_index(index, outer)} * {inner} + {rest})"

    def emit_lane_index(self, index: PrimExpr, lane: Lane) -> str:
        """One lane of an index, whose arithmetic does not overflow."""
        with self.in_lane(lane):
            return self.emit_index(index)

    def address(self, buffer: Buffer, index: PrimExpr) -> str:
        """The address of an element."""
        data, place = self.emit(buffer.data), self.place(buffer, index)
        if self.pointers.is_punned(buffer.data):
            return f"({data} + {place} * {buffer.dtype.element.itemsize})"
        return f"({data} + {place})"

    def element(self, buffer: Buffer, index: PrimExpr) -> str:
        """An element as an expression, as it lies in memory."""
        if self.pointers.is_punned(buffer.data):
            return f"heddle_load_{suffix(buffer.dtype)}{self.address(buffer, index)}"
        return f"{self.emit(buffer.data)}[{bare(self.place(buffer, index))}]"

    def visit_BufferLoad(self, node: BufferLoad) -> str:
        index, dtype = self.flat_index(node.buffer, node.indices), node.dtype.element
        if node.predicate is None:
            return self._loaded(node.buffer, index, dtype)
        is_condition = not is_mask(node.predicate, node.buffer.dtype, node.dtype)
        test, ty = self.predicate(node.predicate), element_type(dtype)
        if is_condition and not is_speculatable(index):
            made = self.out.declare("loaded", f"{ty} {{}} = 0;")
            with self.out.block(f"if ({bare(test)})"):
                self.out.line(f"{made} = {self._loaded(node.buffer, index, dtype)};")
            return made
        return f"({test} ? {self._loaded(node.buffer, index, dtype)} : ({ty})0)"

    def predicate(self, predicate: PrimExpr) -> str:
        """The predicate of an access, which is a value, also where the access is an index."""
        with self.arithmetic(in_index=False):
            return self.emit(predicate)

    def _loaded(self, buffer: Buffer, index: PrimExpr, dtype: DataType) -> str:
        found = self.element(buffer, index)
        if dtype.is_bool:
            return f"({found} != 0)"
        return found if dtype.bits >= 8 else self.wrapped(found, dtype)

    def store_lane(self, buffer: Buffer, index: PrimExpr, value: str) -> None:
        """Write a value, given as an expression of C, to the element of the present lane."""
        if self.pointers.is_punned(buffer.data):
            self.out.line(f"heddle_store_{suffix(buffer.dtype)}({self.address(buffer, index)}, {value});")
        else:
            self.out.line(f"{self.element(buffer, index)} = {bare(value)};")

    # ---- vectors

    @contextmanager
    def each_lane(self, count: int) -> Iterator[None]:
        """Statements for every lane, in a loop."""
        name = self.out.names.fresh("lane")
        with self.out.block(f"for (int32_t {name} = 0; {name} < {count}; ++{name})"), self.in_lane(name):
            yield

    def in_array(self, value: PrimExpr, hint: str) -> Lanes:
        """All lanes of a vector, computed before any of them is used."""
        count, ty = value.dtype.lanes, element_type(value.dtype)
        space = "" if ty.endswith("*") else " "
        array = self.out.declare(hint, f"{ty}{space}{{}}[{count}];")
        if any(isinstance(node, Shuffle) for node in walk(value)):
            for lane in range(count):
                text = self.emit_lane(value, lane)
                self.out.line(f"{array}[{lane}] = {text};")
        else:
            with self.each_lane(count):
                self.out.line(f"{array}[{self.lane}] = {self.emit(value)};")
        return Lanes(array)

    def store_vector(self, node: BufferStore, index: PrimExpr) -> None:
        """A store of several lanes: all operands are computed before the first is written."""
        value, predicate = node.value, node.predicate
        if self._reads_what_it_writes(node, index):
            value = self._computed(value, "lanes")
            with self.arithmetic(in_index=True):
                index = self._computed(index, "places")
            predicate = None if predicate is None else self._computed(predicate, "mask")
        with self.each_lane(value.dtype.lanes):
            text = self.emit(value)
            if predicate is None:
                self.store_lane(node.buffer, index, text)
                return
            with self.out.block(f"if ({bare(self.predicate(predicate))})"):
                self.store_lane(node.buffer, index, text)

    def _computed(self, expr: PrimExpr, hint: str) -> PrimExpr:
        """An operand as a variable that holds it; a ramp or the like that reads nothing as it is."""
        if isinstance(expr, (Ramp, Broadcast, IntImm)) and is_speculatable(expr):
            return expr
        held = Var(hint, expr.dtype)
        if expr.dtype.lanes > 1:
            self.env[held] = self.in_array(expr, hint)
        else:
            self.env[held] = self.out.value(element_type(expr.dtype), self.emit(expr), hint)
        return held

    def _reads_what_it_writes(self, node: BufferStore, index: PrimExpr) -> bool:
        """Whether a lane may read what another lane writes, or lanes have to be written out."""
        own_places = isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value != 0
        for part in (node.value, index, *(() if node.predicate is None else (node.predicate,))):
            for found in walk(part):
                if isinstance(found, Shuffle) or (isinstance(found, Call) and not found.op.record.is_pure):
                    return True
                if not isinstance(found, BufferLoad):
                    continue
                is_same = found.buffer is node.buffer and structural_equal(found.indices[0], index)
                shares = self.pointers.may_share(found.buffer.data, node.buffer.data)
                if shares and not (own_places and is_same):
                    return True
        return False


def has_lanes(stmt: Stmt) -> bool:
    """Whether a statement works on vectors."""
    return any(isinstance(node, PrimExpr) and node.dtype.lanes > 1 for node in walk(stmt))
