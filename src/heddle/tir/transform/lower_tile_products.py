"""LowerTileProducts: products of tiles that schedules mark → the processor's tile registers.

    for panel in 0 .. 4 (parallel):                        for panel in 0 .. 4 (parallel):
        for k in 0 .. 24 {tile_product}:                       configure tiles
            for i in 0 .. 2:                                   t0, t1 = C[0:16, ...], C[16:32, ...]
                for q in 0 .. 16:                              for k in 0 .. 24:
                    for r in 0 .. 16:                 →            t2, t3 = A[0:16, k, ...], A[16:32, k, ...]
                        for l in 0 .. 16 (vectorized):             t4 = B[k, ...]
                            for p in 0 .. 2 {dot_product}:         t0 += t2 ⊗ t4; t1 += t3 ⊗ t4
                                C[...] = C[...] + A * B        C[0:16, ...], C[16:32, ...] = t0, t1
                                                               release tiles

Tiles are configured once in the body of a parallel loop, or of a function without one: every thread has
registers of its own. Where rows of the data repeat the last one (`min(i * 16 + r, last)`), tiles have the
rows up to that one: for the last block they are configured anew. A tile with none reads the last row again.

The function begins by asking for the registers, and fails where they are refused. Loops of any other form
stay, for LowerDotProducts. Registers are named by number, and the configuration is a statement: LLVM's other
form, values of a tile type, would place configurations itself, and the loop dialect has no such type.

Requires: flat buffers. Runs before LowerDotProducts.

**Source**: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18, and volume 2,
LDTILECFG: what the configuration's 64 bytes hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from typing import Any, ClassVar

from heddle.arith import Analyzer
from heddle.ir.expr import StringImm
from heddle.ir.node import Map, replace
from heddle.ir.transform import FunctionPass, PassContext
from heddle.ir.visitor import Rewriter, walk
from heddle.prim.intrinsics import call_llvm_intrin
from heddle.prim.nodes import IntImm, Min, PrimExpr, Var, is_const_int
from heddle.prim.ops import call_intrin, cast, const, maximum, minimum, shift_left
from heddle.prim.substitute import free_vars, substitute
from heddle.support.frozen import frozen
from heddle.tir.analysis.narrow_product import narrow_factors
from heddle.tir.dot_product import TILE_PRODUCT, DotProduct
from heddle.tir.nodes import (
    AllocBuffer,
    AssertStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
    decl_buffer,
    seq,
)
from heddle.tir.stmt_rewriter import StmtRewriter

_REGISTERS = 8
_PAIR, _WORD_BYTES = 2, 4
_CONFIG_WORDS, _ROWS_WORD = 8, 6
_REFUSED = (
    "the kernel needs tile registers (amx-tile), and this processor lacks them or the system refuses them: "
    "compile for another processor, or with -mattr=-amx-tile,-amx-bf16"
)


@frozen(slots=False)
class LowerTileProducts(FunctionPass):
    """`instruction` is the target's product of tiles; None leaves all as it is."""

    instruction: DotProduct | None = None
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        if self.instruction is None or not _has_tiles(func.body):
            return func
        if _is_parallel(func.body):
            body = _ParallelBodies(self.instruction).visit(func.body)
        else:
            body = _in_tiles(func.body, self.instruction)
        return func if body is func.body else func.with_body(seq(_permission(), body))


def _permission() -> Stmt:
    """The system gives tile registers to a process that asks; without, their first use would end it."""
    asked = call_intrin("int32", "call_extern", StringImm("heddle_request_tiles"))
    return AssertStmt(asked.equal(0), _REFUSED)


def _has_tiles(stmt: Stmt) -> bool:
    return any(isinstance(node, For) and TILE_PRODUCT in node.annotations for node in walk(stmt))


def _is_parallel(stmt: Stmt) -> bool:
    return any(isinstance(node, For) and node.kind is ForKind.PARALLEL for node in walk(stmt))


class _ParallelBodies(StmtRewriter):
    """Innermost parallel loops."""

    def __init__(self, instruction: DotProduct) -> None:
        self._instruction = instruction

    def visit_For(self, node: For) -> Any:
        if node.kind is not ForKind.PARALLEL or _is_parallel(node.body):
            return self.default(node)
        body = _in_tiles(node.body, self._instruction)
        return node if body is node.body else replace(node, body=body)


def _in_tiles(body: Stmt, instruction: DotProduct) -> Stmt:
    """A thread's work with its products in tiles, configured before and released after."""
    nests = _Nests(instruction)
    made = nests.visit(body)
    if nests.config is None:
        return body
    return seq(*nests.config.begin(), made, Evaluate(call_llvm_intrin("void", "llvm.x86.tilerelease")))


@frozen
class _Access:
    """Where a tile lies in a buffer: element `index` of its first row, and elements from row to row."""

    buffer: Buffer
    index: PrimExpr
    stride: PrimExpr

    def at(self, values: dict[Var, PrimExpr]) -> _Access:
        return _Access(self.buffer, substitute(self.index, values), self.stride)

    def operands(self) -> tuple[PrimExpr, PrimExpr]:
        """The address, and the stride in bytes."""
        stride = cast("int64", self.stride) * self.buffer.dtype.itemsize
        return _address(self.buffer, self.index), Analyzer().simplify(stride)


@frozen
class _Nest:
    """C += A ⊗ B over `steps`, for all values of `blocks`; A's rows up to `left`, if it is not None."""

    steps: For
    blocks: tuple[For, ...]
    sums: _Access
    data: _Access
    weights: _Access
    pairs: int
    left: PrimExpr | None


@frozen
class _Config:
    """Rows and bytes of a row for each register, in memory as the instruction takes them."""

    memory: Buffer
    rows: tuple[int, ...]
    row_bytes: tuple[int, ...]

    def begin(self) -> list[Stmt]:
        words = [0] * _CONFIG_WORDS
        words[0] = 1  # palette 1, from row 0 on
        for register, count in enumerate(self.row_bytes):
            words[2 + register // 4] |= count << 16 * (register % 4)
        stores = [self._store(place, const(word, "int64")) for place, word in enumerate(words)]
        return [AllocBuffer(self.memory), *stores, *self.with_rows(self.rows)]

    def with_rows(self, rows: Sequence[PrimExpr | int]) -> list[Stmt]:
        """Configure with other numbers of rows."""
        word: PrimExpr = const(0, "int64")
        for register, count in enumerate(rows):
            shift = const(8 * register, "int64")
            if isinstance(count, int):
                word = word + const(count << 8 * register, "int64")
            else:
                word = word + shift_left(cast("int64", count), shift)
        configure = call_llvm_intrin("void", "llvm.x86.ldtilecfg", _address(self.memory, const(0, "int64")))
        return [self._store(_ROWS_WORD, word), Evaluate(configure)]

    def _store(self, place: int, word: PrimExpr) -> Stmt:
        return BufferStore(self.memory, word, (const(place, "int64"),))


class _Nests(StmtRewriter):
    """Lowers the nests of one thread's work that one configuration fits; `config` is it."""

    def __init__(self, instruction: DotProduct) -> None:
        self._instruction = instruction
        self._analyzer = Analyzer()
        self.config: _Config | None = None

    def visit_For(self, node: For) -> Any:
        nest = self._nest(node) if TILE_PRODUCT in node.annotations else None
        registers = None if nest is None else _Registers.of(nest)
        if nest is None or registers is None:
            return self.default(node)
        row_bytes, rows = registers.sides(nest, self._instruction)
        if self.config is None:
            memory = decl_buffer((_CONFIG_WORDS,), "int64", "tile_config", scope="local")
            self.config = _Config(memory, rows, row_bytes)
        if (self.config.rows, self.config.row_bytes) != (rows, row_bytes):
            return self.default(node)
        multiplied = registers.product(nest, self._instruction)
        if nest.left is None:
            return multiplied
        return self._ragged(nest, registers, multiplied)

    def _ragged(self, nest: _Nest, registers: _Registers, multiplied: Stmt) -> Stmt:
        """With fewer rows where the data end in one of the tiles."""
        assert self.config is not None and nest.left is not None
        left = [substitute(nest.left, _at(nest, tile)) for tile in registers.data]
        side = self._instruction.rows
        counts = [maximum(minimum(count, side), 1) for count in left]
        rows = [*self.config.rows]
        changed: list[PrimExpr | int] = list(rows)
        for register in range(len(rows)):
            tile = registers.rows_like(nest, register)
            if tile is not None:
                changed[register] = counts[tile]
        is_ragged = self._analyzer.simplify(reduce(minimum, left) < side)
        return seq(
            IfThenElse(is_ragged, seq(*self.config.with_rows(changed))),
            multiplied,
            IfThenElse(is_ragged, seq(*self.config.with_rows(rows))),
        )

    def _nest(self, steps: For) -> _Nest | None:
        loops: list[For] = [steps]
        while isinstance(loops[-1].body, For):
            loops.append(loops[-1].body)
        store, blocks = loops[-1].body, tuple(loops[1:-4])
        if len(loops) < 5 or not isinstance(store, BufferStore) or not _has_sides(loops, self._instruction):
            return None
        factors = narrow_factors(store)
        if any(not is_const_int(loop.min, 0) for loop in loops):
            return None
        for data, weights in factors:
            if (str(data.dtype), str(weights.dtype)) != (self._instruction.data, self._instruction.weights):
                continue
            index, left = _without_clamp(data.indices[0], loops[-3].loop_var)
            accesses = [
                self._access(buffer, where, loops[-4:], fixed)
                for buffer, where, fixed in (
                    (store.buffer, store.indices[0], (0, None, 1, 0)),
                    (data.buffer, index, (_PAIR, None, 0, 1)),
                    (weights.buffer, weights.indices[0], (None, 0, _PAIR, 1)),
                )
            ]
            sums, first, second = accesses
            if sums is None or first is None or second is None or steps.loop_var in free_vars(sums.index):
                continue
            start = {loop.loop_var: const(0, loop.loop_var.dtype) for loop in loops[-4:]}
            clamped = _Access(data.buffer, substitute(data.indices[0], start), first.stride)
            count = loops[-4].extent
            assert isinstance(count, IntImm)
            return _Nest(steps, blocks, sums, clamped, second, count.value, left)
        return None

    def _access(
        self, buffer: Buffer, index: PrimExpr, loops: Sequence[For], strides: tuple[int | None, ...]
    ) -> _Access | None:
        """The access as a tile: the index grows by these strides with the four loops' variables, by the one
        that is None with any, which is the tile's own."""
        variables = [loop.loop_var for loop in loops]
        zero = {var: const(0, var.dtype) for var in variables}
        start = substitute(index, zero)
        own = variables[strides.index(None)]
        stride = self._analyzer.simplify(substitute(index, {**zero, own: const(1, own.dtype)}) - start)
        rebuilt = start
        for var, step in zip(variables, strides, strict=True):
            rebuilt = rebuilt + var * (stride if step is None else step)
        if not is_const_int(self._analyzer.simplify(index - rebuilt), 0):
            return None
        return _Access(buffer, self._analyzer.simplify(start), stride)


def _has_sides(loops: Sequence[For], row: DotProduct) -> bool:
    """Whether loops over pairs, rows, lanes and factors have the instruction's extents, and all loops but the
    first have constant ones."""
    extents = [loop.extent.value if isinstance(loop.extent, IntImm) else 0 for loop in loops[1:]]
    pairs, *sides = extents[-4:]
    return all(extents) and pairs <= row.depth // _PAIR and sides == [row.rows, row.lanes, _PAIR]


def _without_clamp(index: PrimExpr, row: Var) -> tuple[PrimExpr, PrimExpr | None]:
    """An index whose row `min(first + row, last)` is `first + row` instead, and how many rows there are from
    the first on: last - first + 1; None for an index without such a clamp."""
    found = [node for node in walk(index) if isinstance(node, Min) and row in free_vars(node)]
    if len(found) != 1:
        return index, None
    (clamp,) = found
    inside, last = (clamp.a, clamp.b) if row in free_vars(clamp.a) else (clamp.b, clamp.a)
    first = substitute(inside, {row: const(0, row.dtype)})
    if row in free_vars(last) or not is_const_int(Analyzer().simplify(inside - first - row), 0):
        return index, None
    return _Replace(clamp, inside).visit(index), last - first + 1


class _Replace(Rewriter):
    def __init__(self, old: Min, new: PrimExpr) -> None:
        self._old, self._new = old, new

    def visit_Min(self, node: Min) -> Any:
        return self._new if node is self._old else self.default(node)


_Values = tuple[int, ...]


@frozen
class _Registers:
    """Which tiles are held: for sums, data and weights the values of those block loops that they depend on,
    in the order of their registers."""

    sums: tuple[_Values, ...]
    data: tuple[_Values, ...]
    weights: tuple[_Values, ...]

    @staticmethod
    def of(nest: _Nest) -> _Registers | None:
        """None where there are too few registers, or tiles of sums are not all different."""
        found = [
            tuple(dict.fromkeys(_used(nest, access, values) for values in _block_values(nest)))
            for access in (nest.sums, nest.data, nest.weights)
        ]
        made = _Registers(*found)
        fits = sum(map(len, found)) <= _REGISTERS
        return made if fits and len(made.sums) == len(_block_values(nest)) else None

    def sides(self, nest: _Nest, row: DotProduct) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Bytes of a row and rows of each register."""
        wide = row.lanes * _WORD_BYTES
        counts = len(self.sums), len(self.data), len(self.weights)
        row_bytes = (wide, nest.pairs * _WORD_BYTES, wide)
        rows = (row.rows, row.rows, nest.pairs)
        return tuple(
            tuple(side for side, count in zip(sides, counts, strict=True) for _ in range(count))
            for sides in (row_bytes, rows)
        )  # type: ignore[return-value]  # two of them

    def rows_like(self, nest: _Nest, register: int) -> int | None:
        """The tile of data whose rows a register has; None for one of weights."""
        if register < len(self.sums):
            return self.data.index(_used(nest, nest.data, self.sums[register]))
        place = register - len(self.sums)
        return place if place < len(self.data) else None

    def product(self, nest: _Nest, row: DotProduct) -> Stmt:
        """Load the sums, add all steps to them, store them."""
        first_data = len(self.sums)
        first_weights = first_data + len(self.data)
        sums = [(k, nest.sums.at(_at(nest, tile))) for k, tile in enumerate(self.sums)]
        factors = [(first_data + k, nest.data.at(_at(nest, tile))) for k, tile in enumerate(self.data)]
        factors += [(first_weights + k, nest.weights.at(_at(nest, t))) for k, t in enumerate(self.weights)]
        steps = [_call("llvm.x86.tileloadd64", register, *tile.operands()) for register, tile in factors]
        for register, tile in enumerate(self.sums):
            data = first_data + self.data.index(_used(nest, nest.data, tile))
            weights = first_weights + self.weights.index(_used(nest, nest.weights, tile))
            steps.append(_call(row.llvm_intrinsic, register, _register(data), _register(weights)))
        loop = replace(nest.steps, body=seq(*steps), annotations=Map({"disable_unroll": True}))
        return seq(
            *(_call("llvm.x86.tileloadd64", register, *tile.operands()) for register, tile in sums),
            loop,
            *(_call("llvm.x86.tilestored64", register, *tile.operands()) for register, tile in sums),
        )


def _block_values(nest: _Nest) -> list[_Values]:
    return list(product(*(range(_extent(loop)) for loop in nest.blocks)))


def _extent(loop: For) -> int:
    assert isinstance(loop.extent, IntImm)
    return int(loop.extent.value)


def _used(nest: _Nest, access: _Access, values: _Values) -> _Values:
    """The values of block loops that an access depends on, 0 for those that it does not."""
    used = set(free_vars(access.index))
    return tuple(
        value if loop.loop_var in used else 0 for loop, value in zip(nest.blocks, values, strict=True)
    )


def _at(nest: _Nest, values: _Values) -> dict[Var, PrimExpr]:
    return {
        loop.loop_var: const(value, loop.loop_var.dtype)
        for loop, value in zip(nest.blocks, values, strict=True)
    }


def _address(buffer: Buffer, index: PrimExpr) -> PrimExpr:
    return call_intrin("handle", "address_of", BufferLoad(buffer, (index,)))


def _register(number: int) -> PrimExpr:
    return const(number, "int8")


def _call(name: str, register: int, *operands: PrimExpr) -> Stmt:
    return Evaluate(call_llvm_intrin("void", name, _register(register), *operands))
