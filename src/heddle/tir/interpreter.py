"""The loop interpreter: runs a PrimFunc of any stage on numpy buffers. It is the oracle of schedules and
lowering.

It checks what the loop IR promises: every access lies in its buffer, blocks touch only the regions they
declare, assertions hold. Fresh memory holds NaN (floats) or a pattern (integers), so that reading it shows.

Parallel, vectorised and thread loops run serially; `reverse_parallel` runs them backwards, which a program
that keeps its promise of independence does not notice.

Over 450 lines: one class, with a method for each node.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heddle.ir.expr import StringImm
from heddle.ir.op import OP_RECORDS
from heddle.prim.evaluate import Evaluator
from heddle.prim.intrinsics import is_prefetch
from heddle.prim.nodes import BinaryExpr, Call, IntImm, PrimExpr, Range, Var
from heddle.prim.substitute import free_vars
from heddle.prim.values import convert
from heddle.runtime.dtype import DataType, dtype_of
from heddle.support.diagnostics import Trap, TrapIndexError, TrapTypeError, TrapValueError
from heddle.tir.codes import T0601, T0602, T0603, T0604, T0605
from heddle.tir.nodes import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterType,
    PrimFunc,
    SBlock,
    SBlockRealize,
    SeqStmt,
    Stmt,
    While,
)

_ERRORS: dict[str, type[Trap]] = {
    "ValueError": TrapValueError,
    "TypeError": TrapTypeError,
    "IndexError": TrapIndexError,
    "BoundsError": TrapIndexError,
    "StepsError": Trap,
}
_PATTERN = 0x55
_C_NAMES = {"fabsf": "fabs", "powf": "pow"}


@dataclass(slots=True)
class _Regions:
    """What a block under way may touch: buffer → boxes of (begin, end) a dimension."""

    block: str
    reads: dict[Buffer, list[list[tuple[int, int]]]]
    writes: dict[Buffer, list[list[tuple[int, int]]]]
    own: set[Buffer] = field(default_factory=set)


class _ReturnError(Exception):
    """`ret` was reached."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Interpreter(Evaluator):
    """Runs statements. `env` maps variables to values, `memory` pointer variables to flat arrays."""

    def __init__(self, reverse_parallel: bool = False) -> None:
        super().__init__()
        self.memory: dict[Any, np.ndarray[Any, Any]] = {}
        self._loops: list[tuple[str, int]] = []
        self._regions: list[_Regions] = []
        self._reverse = reverse_parallel
        self._empty: list[Var] = []

    def run(self, stmt: Stmt) -> None:
        """Run a statement. Raises: Trap for what it may not do."""
        self._method(type(stmt))(self, stmt)

    def default(self, node: Any) -> Any:
        """Raises: Trap T0604: nothing says how such a node runs."""
        raise Trap(T0604, f"{type(node).__name__} cannot be interpreted", span=node.span)

    # ---- memory

    def number(self, expr: PrimExpr) -> int:
        """The value of an integer expression."""
        return expr.value if type(expr) is IntImm else int(self.eval(expr))

    def zero_divisor(self, node: BinaryExpr) -> None:
        """A program that divides by zero gets 0, as from machine code."""

    def fail_access(self, buffer: Buffer, index: Any, shape: Any, what: str) -> TrapIndexError:
        """The error of an access outside of a buffer (T0601), with the loops around it."""
        where = ", ".join(f"{name} = {value}" for name, value in self._loops)
        return TrapIndexError(
            T0601,
            f"{what} {buffer.name}[{', '.join(map(str, index))}] is outside its shape "
            f"({', '.join(map(str, shape))})",
            notes=(f"in loops {where}",) if where else (),
        )

    def _positions(self, node: Any, what: str) -> tuple[Any, Any]:
        """Flat positions of the lanes of an access, checked, and which lanes are accessed. Where it is of one
        element, as most are, a plain number and None."""
        buffer: Buffer = node.buffer
        values = [self.eval(i) for i in node.indices]
        shape = [self.number(dim) for dim in buffer.shape]
        offset = 0 if buffer.elem_offset is None else self.number(buffer.elem_offset)
        strides = self._strides(buffer, shape)
        if node.predicate is None and not any(isinstance(value, np.ndarray) for value in values):
            point = [int(value) for value in values]
            self._check(buffer, point, shape, what)
            return offset + sum(i * stride for i, stride in zip(point, strides, strict=True)), None
        indices = [np.atleast_1d(np.asarray(value)).astype(np.int64) for value in values]
        lanes = max((len(index) for index in indices), default=1)
        active = np.ones(lanes, dtype=bool)
        if node.predicate is not None:
            active = np.broadcast_to(np.asarray(self.eval(node.predicate), dtype=bool), (lanes,))
        for lane in np.flatnonzero(active):
            point = [int(index[lane if len(index) > 1 else 0]) for index in indices]
            self._check(buffer, point, shape, what)
        flat = np.full(lanes, offset, dtype=np.int64)
        for index, stride in zip(indices, strides, strict=True):
            flat = flat + index * stride
        return flat, active

    def _check(self, buffer: Buffer, point: list[int], shape: list[int], what: str) -> None:
        if any(not 0 <= i < dim for i, dim in zip(point, shape, strict=True)):
            raise self.fail_access(buffer, point, shape, what)
        self._check_regions(buffer, point, what)

    def _strides(self, buffer: Buffer, shape: list[int]) -> list[int]:
        if buffer.strides:
            return [self.number(stride) for stride in buffer.strides]
        strides = [1] * len(shape)
        for position in range(len(shape) - 2, -1, -1):
            strides[position] = strides[position + 1] * shape[position + 1]
        return strides

    def _memory_of(self, buffer: Buffer) -> np.ndarray[Any, Any]:
        """The flat array of a buffer's element type."""
        array = self.memory.get(buffer.data)
        if array is None:
            raise Trap(T0604, f"buffer {buffer.name!r} has no memory here")
        wanted = buffer.dtype.numpy()
        return array if array.dtype == wanted else array.view(wanted)

    def _cells(self, node: Any, what: str) -> tuple[Any, Any, Any]:
        """The flat array of a buffer's element type, the positions of an access in it and which of them are
        accessed; one position and None for one element. The memory may be smaller than the buffer says."""
        flat, active = self._positions(node, f"{what} of")
        buffer: Buffer = node.buffer
        array, width = self._memory_of(buffer), buffer.dtype.lanes
        if active is None and width == 1:
            if not 0 <= flat < len(array):
                raise self.fail_access(buffer, [flat], [len(array)], f"{what} of memory behind")
            return array, flat, None
        if active is None:
            flat, active = np.asarray([flat]), np.ones(1, dtype=bool)
        if width > 1:
            flat = (flat[:, None] * width + np.arange(width)).reshape(-1)
            active = np.repeat(active, width)
        bad = active & ((flat < 0) | (flat >= len(array)))
        if bad.any():
            raise self.fail_access(buffer, [int(flat[bad][0])], [len(array)], f"{what} of memory behind")
        return array, flat, active

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        """Integers of less than a byte come as bytes: numpy computes little with arrays of their own types,
        whose high bits may be anything."""
        value = self._loaded(node)
        is_narrow = node.dtype.is_int and node.dtype.bits < 8
        return convert(value.astype(node.dtype.numpy()), node.dtype) if is_narrow else value

    def _is_passed_over(self, node: BufferLoad | BufferStore) -> bool:
        """Whether the predicate of an access is a condition that does not hold."""
        predicate = node.predicate
        return predicate is not None and predicate.dtype.lanes == 1 and not bool(self.eval(predicate))

    def _loaded(self, node: BufferLoad) -> Any:
        if self._is_passed_over(node):
            made: Any = np.zeros(node.dtype.lanes, self._memory_of(node.buffer).dtype)
            return made if node.dtype.lanes > 1 else made[0]
        array, flat, active = self._cells(node, "read")
        if active is None:
            return array[flat] if node.dtype.lanes == 1 else np.full(node.dtype.lanes, array[flat])
        values = np.zeros(len(flat), dtype=array.dtype)
        values[active] = array[flat[active]]
        return values if node.dtype.lanes > 1 else values[0]

    def visit_BufferStore(self, node: BufferStore) -> None:
        if self._is_passed_over(node):
            return
        value = convert(self.eval(node.value), node.value.dtype)
        array, flat, active = self._cells(node, "write")
        if active is None and np.ndim(value) == 0:
            array[flat] = value
            return
        if active is None:
            flat, active = np.asarray([flat]), np.ones(1, dtype=bool)
        array[flat[active]] = np.broadcast_to(np.asarray(value), flat.shape)[active]

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        self.allocate(node.buffer)

    def allocate(self, buffer: Buffer) -> None:
        """Make memory for a buffer."""
        size = buffer.dtype.lanes
        for dim in buffer.shape:
            size *= self.number(dim)
        if buffer.strides and buffer.shape:
            reach = [
                (self.number(d) - 1) * self.number(s)
                for d, s in zip(buffer.shape, buffer.strides, strict=True)
            ]
            size = sum(reach) + 1 if size else 0
        if buffer.elem_offset is not None:
            size += self.number(buffer.elem_offset)
        self.memory[buffer.data] = fresh_memory(size, buffer.dtype)
        for regions in self._regions:
            regions.own.add(buffer)

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        for regions in self._regions:
            regions.own.add(node.buffer)

    # ---- control

    def visit_SeqStmt(self, node: SeqStmt) -> None:
        for stmt in node.seq:
            self.run(stmt)

    def visit_Bind(self, node: Bind) -> None:
        value = self.eval(node.value)
        if isinstance(value, np.ndarray) and node.var.dtype.is_handle:
            self.memory[node.var] = value
        self.env[node.var] = value

    def visit_Evaluate(self, node: Evaluate) -> None:
        value = node.value
        if isinstance(value, Call) and value.op.name == "tir.ret":
            raise _ReturnError(self.eval(value.args[0]))
        if is_prefetch(value):
            return
        if isinstance(value, Call) and value.op.name == "tir.assume":
            if not self.eval(value.args[0]):
                raise Trap(T0605, f"assumption does not hold: {value.args[0]}", span=node.span)
            return
        self.eval(value)

    def visit_Call(self, node: Call) -> Any:
        if node.op.name in ("tir.call_pure_extern", "tir.call_extern"):
            return self._call_c(node)
        return super().visit_Call(node)

    def _call_c(self, node: Call) -> Any:
        """A function of C's math library, by the intrinsic of its name."""
        name = node.args[0]
        assert isinstance(name, StringImm)
        record = OP_RECORDS.get(f"tir.{_C_NAMES.get(name.value, name.value)}")
        if record is None or record.evaluate is None:
            raise Trap(T0604, f"extern function {name.value!r} cannot be interpreted", span=node.span)
        return convert(record.evaluate(*(self.eval(arg) for arg in node.args[1:])), node.dtype)

    def _if_then_else(self, node: Call) -> Any:
        chosen = self.eval(node.args[0])
        if np.ndim(chosen) == 0:
            return self.eval(node.args[1 if chosen else 2])
        return super()._if_then_else(node)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        if bool(self.eval(node.condition)):
            self.run(node.then_case)
        elif node.else_case is not None:
            self.run(node.else_case)

    def visit_While(self, node: While) -> None:
        while bool(self.eval(node.condition)):
            self.run(node.body)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        self.run(node.body)

    def visit_For(self, node: For) -> None:
        low, extent, as_value = (
            self.number(node.min),
            self.number(node.extent),
            node.loop_var.dtype.numpy().type,
        )
        steps: Any = range(low, low + extent)
        if extent <= 0:
            self._empty_loop(node, as_value(low))
            return
        if self._reverse and node.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            steps = reversed(steps)
        for value in steps:
            self._loops.append((node.loop_var.name, value))
            self.env[node.loop_var] = as_value(value)
            self.run(node.body)
            self._loops.pop()

    def _empty_loop(self, node: For, first: Any) -> None:
        """Run the `init` of reductions that have no iterations because of this loop."""
        self._empty.append(node.loop_var)
        self.env[node.loop_var] = first
        for realize in _outer_realizes(node.body):
            self._init_alone(realize, node)
        self._empty.pop()

    def _init_alone(self, node: SBlockRealize, loop: For) -> None:
        """`init` for every spatial point that the loops between `loop` and the block go over."""
        block = node.block
        values = list(zip(block.iter_vars, node.iter_values, strict=True))
        spatial = [value for axis, value in values if axis.iter_type is not IterType.CommReduce]
        if block.init is None or any(var in self._empty for value in spatial for var in free_vars(value)):
            return
        self._init_loops(node, loop.body)

    def _init_loops(self, node: SBlockRealize, stmt: Stmt) -> None:
        """Run the loops around a block, those of its reductions once, and its `init` inside."""
        block = node.block
        spatial = {
            var
            for axis, value in zip(block.iter_vars, node.iter_values, strict=True)
            if axis.iter_type is not IterType.CommReduce
            for var in free_vars(value)
        }
        if stmt is node:
            for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
                self.env[axis.var] = convert(self.eval(value), axis.var.dtype)
            assert block.init is not None
            if self._is_first(block):
                with self._declared(block):
                    self.run(block.init)
        elif isinstance(stmt, For):
            low, extent = self.number(stmt.min), self.number(stmt.extent)
            for step in range(low, low + extent) if stmt.loop_var in spatial else (low,):
                self.env[stmt.loop_var] = stmt.loop_var.dtype.numpy().type(step)
                self._init_loops(node, stmt.body)
        elif isinstance(stmt, SeqStmt):
            for item in stmt.seq:
                if any(realize is node for realize in _outer_realizes(item)):
                    self._init_loops(node, item)

    def visit_AssertStmt(self, node: AssertStmt) -> None:
        if bool(self.eval(node.condition)):
            return
        text = node.message
        for mark, expr in (("%e", node.expected), ("%g", node.got)):
            text = text if expr is None else text.replace(mark, str(self.eval(expr)))
        raise _ERRORS.get(node.error_kind, Trap)(T0605, text, span=node.span)

    # ---- blocks

    def visit_SBlockRealize(self, node: SBlockRealize) -> None:
        if not bool(self.eval(node.predicate)):
            return
        block = node.block
        for iter_var, value in zip(block.iter_vars, node.iter_values, strict=True):
            self.env[iter_var.var] = convert(self.eval(value), iter_var.var.dtype)
            low, high = self._bounds(iter_var.dom)
            if not low <= int(self.env[iter_var.var]) < high:
                raise TrapIndexError(
                    T0603,
                    f"block {block.name_hint!r}: expected {iter_var.var.name} in {low}..{high}, "
                    f"got {self.env[iter_var.var]}",
                    span=node.span,
                )
        self.visit_SBlock(block)

    def _bounds(self, dom: Range) -> tuple[int, int]:
        low = self.number(dom.min)
        return low, low + self.number(dom.extent)

    def visit_SBlock(self, node: SBlock) -> None:
        with self._declared(node):
            for buffer in node.alloc_buffers:
                self.allocate(buffer)
            for match in node.match_buffers:
                self._match(match.buffer, match.source)
            if node.init is not None and self._is_first(node):
                self.run(node.init)
            self.run(node.body)

    def _is_first(self, block: SBlock) -> bool:
        """Whether a reduction begins."""
        reductions = [v for v in block.iter_vars if v.iter_type is IterType.CommReduce]
        return all(int(self.env[v.var]) == self.number(v.dom.min) for v in reductions)

    @contextmanager
    def _declared(self, block: SBlock) -> Iterator[None]:
        """Check accesses against the block's regions while it runs. A block that declares none (the root) is
        free.
        """
        if not block.reads and not block.writes:
            yield
            return
        writes = self._boxes(block.writes)
        reads = self._boxes(block.reads)
        for buffer, boxes in writes.items():
            reads.setdefault(buffer, []).extend(boxes)
        self._regions.append(_Regions(block.name_hint, reads, writes))
        yield
        self._regions.pop()

    def _boxes(self, regions: tuple[BufferRegion, ...]) -> dict[Buffer, list[list[tuple[int, int]]]]:
        found: dict[Buffer, list[list[tuple[int, int]]]] = {}
        for region in regions:
            found.setdefault(region.buffer, []).append([self._bounds(dim) for dim in region.region])
        return found

    def _check_regions(self, buffer: Buffer, point: list[int], what: str) -> None:
        for regions in self._regions:
            if buffer in regions.own:
                continue
            boxes = (regions.reads if what.startswith("read") else regions.writes).get(buffer, [])
            if not any(all(lo <= i < hi for i, (lo, hi) in zip(point, box, strict=True)) for box in boxes):
                raise TrapIndexError(
                    T0603,
                    f"block {regions.block!r} does not declare its {what} {buffer.name}"
                    f"[{', '.join(map(str, point))}]",
                )

    def _match(self, buffer: Buffer, source: BufferRegion) -> None:
        """Bind a buffer to a region of another: pointer, shape, strides and offset."""
        origin = source.buffer
        shape = [self.number(dim) for dim in origin.shape]
        strides = self._strides(origin, shape)
        bounds = [self._bounds(dim) for dim in source.region]
        offset = 0 if origin.elem_offset is None else self.number(origin.elem_offset)
        offset += sum(low * stride for (low, _), stride in zip(bounds, strides, strict=True))
        extents = [high - low for low, high in bounds][len(bounds) - len(buffer.shape) :]
        kept = strides[len(strides) - len(buffer.shape) :]
        memory = self.memory[origin.data]
        if buffer.elem_offset is None:
            memory, offset = memory[offset:], 0
        self.memory[buffer.data] = memory
        given = [
            *zip(buffer.shape, extents, strict=True),
            *zip(buffer.strides, kept, strict=bool(buffer.strides)),
        ]
        if buffer.elem_offset is not None:
            given.append((buffer.elem_offset, offset))
        self.bind_dims(given, f"match_buffer {buffer.name}")
        for regions in self._regions:
            regions.own.add(buffer)

    def bind_dims(self, given: list[tuple[PrimExpr, int]], where: str) -> None:
        """Bind variables that stand alone, then compare the other expressions."""
        for expr, value in given:
            if isinstance(expr, Var) and expr not in self.env:
                self.env[expr] = convert(value, expr.dtype)
        for expr, value in given:
            if any(var not in self.env for var in free_vars(expr)):
                raise TrapValueError(T0602, f"{where}: {expr} cannot be determined from the arguments")
            if self.number(expr) != value:
                raise TrapValueError(T0602, f"{where}: expected {expr} = {self.number(expr)}, got {value}")


def _outer_realizes(stmt: Stmt) -> list[SBlockRealize]:
    """The blocks under loops and sequences that no other block encloses."""
    if isinstance(stmt, SBlockRealize):
        return [stmt]
    inner = stmt.seq if isinstance(stmt, SeqStmt) else (stmt.body,) if isinstance(stmt, For) else ()
    return [found for item in inner for found in _outer_realizes(item)]


def fresh_memory(size: int, dtype: DataType) -> np.ndarray[Any, Any]:
    """Memory whose use before it is written shows."""
    array = np.empty(size, dtype=dtype.numpy())
    if dtype.is_float:
        array.fill(np.nan)
    else:
        array.view(np.uint8).fill(1 if dtype.is_bool else _PATTERN)
    return array


def flat_memory(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The memory of an array from its first element to its last, without a copy."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    extent = 1 + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) // array.itemsize
    return np.lib.stride_tricks.as_strided(array, shape=(extent,), strides=(array.itemsize,))


def run_primfunc(func: PrimFunc, *args: Any, reverse_parallel: bool = False) -> Any:
    """Run a function on numpy arrays (written in place) and scalars; the value of `ret`, else None.

    Raises: TrapValueError, TrapTypeError T0602 for arguments that do not fit; TrapIndexError T0601, T0603;
    Trap T0605 and its kin for a failed assertion.
    """
    if len(args) != len(func.params):
        raise TrapTypeError(T0602, f"expected {len(func.params)} arguments, got {len(args)}")
    machine = Interpreter(reverse_parallel)
    given: list[tuple[PrimExpr, int]] = []
    for param, arg in zip(func.params, args, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            given += _bind_buffer(machine, buffer, arg)
        elif isinstance(arg, np.ndarray) and param.dtype.is_handle:
            machine.memory[param] = flat_memory(arg)
        else:
            machine.env[param] = convert(arg, param.dtype)
    try:
        with np.errstate(all="ignore"):
            machine.bind_dims(given, "arguments")
            machine.run(func.body)
    except _ReturnError as result:
        return result.value
    return None


def _bind_buffer(machine: Interpreter, buffer: Buffer, arg: Any) -> list[tuple[PrimExpr, int]]:
    """Give a parameter buffer its memory; the dimensions and strides to be bound."""
    if not isinstance(arg, np.ndarray):
        raise TrapTypeError(T0602, f"argument {buffer.name!r}: expected an array, got {type(arg).__name__}")
    if dtype_of(arg.dtype) != buffer.dtype:
        raise TrapTypeError(T0602, f"argument {buffer.name!r}: expected {buffer.dtype}, got {arg.dtype}")
    if arg.ndim != len(buffer.shape):
        raise TrapValueError(
            T0602, f"argument {buffer.name!r}: expected rank {len(buffer.shape)}, got {arg.ndim}"
        )
    machine.memory[buffer.data] = flat_memory(arg)
    given: list[tuple[PrimExpr, int]] = list(zip(buffer.shape, arg.shape, strict=True))
    if buffer.strides:
        given += zip(buffer.strides, (s // arg.itemsize for s in arg.strides), strict=True)
    elif not arg.flags.c_contiguous:
        raise TrapValueError(T0602, f"argument {buffer.name!r}: expected a dense array")
    if isinstance(buffer.elem_offset, Var):
        given.append((buffer.elem_offset, 0))
    return given
