"""Convolutions of 3 × 3 taps at stride 1 by Winograd's minimal filtering: fewer multiplications.

A tile of m × m results needs (m + 2)² products instead of 9 m²:

    Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A,        d a tile of (m + 2)² data, g the 3 × 3 weights

Summed over input channels, each of the (m + 2)² positions is a matrix product of tiles × channels. The
function is

    for images, for bands of tiles that fit the cache:
        parallel:  V[position, tile, channel]  = Bᵀ d B
        parallel:  M[position, tile, out]      = Σ V[position, tile, channel] U[position, channel, out]
        parallel:  result tile = Aᵀ M A,  epilogue

Images may have any size: then the number of tiles in a band is found when the function runs, and the products
take them in register tiles of several sizes.

Source: A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks (2015), sections 4.1 and 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as replace_fields
from typing import Any

from heddle.ir.node import Map, replace
from heddle.prim.nodes import IntImm, PrimExpr, Var, constant
from heddle.prim.ops import all as all_of
from heddle.prim.ops import cast, floordiv, if_then_else, maximum, minimum
from heddle.prim.substitute import substitute
from heddle.tir.allocation import STORAGE
from heddle.tir.builder import StmtBuilder
from heddle.tir.grain import GRAIN_ELEMENTS
from heddle.tir.nodes import (
    AllocBuffer,
    Buffer,
    BufferLoad,
    ForKind,
    PrimFunc,
    Stmt,
    decl_buffer,
)
from heddle.tir.schedule.rules.convolution import NO_UNROLL
from heddle.tir.schedule.rules.convolution_tile import ConvolutionTile, TileCost
from heddle.tir.schedule.rules.ragged_tiles import Tiles, ragged_tiles, tile_sizes
from heddle.tir.schedule.rules.winograd_plan import BAND_BYTES, TAPS, WinogradPlan, ceildiv
from heddle.tir.substitute import StmtSubstituter

_B = {
    2: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    4: (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
}
_A = {
    2: ((1, 1, 1, 0), (0, 1, -1, -1)),
    4: ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
}
"""Bᵀ and Aᵀ for tiles of m × m results."""


# ---- the function


def winograd_function(func: PrimFunc, plan: WinogradPlan) -> PrimFunc:
    """The function with its weights in the form of `plan.weights`, in the type of the sums."""
    problem = plan.problem
    shape = (
        plan.reach**2,
        problem.outs // plan.panel,
        problem.ins // problem.lanes,
        problem.lanes,
        plan.panel,
    )
    weights = decl_buffer([constant(n, "int64") for n in shape], problem.sums.dtype, problem.weights.name)
    body = _Writer(plan, weights, func).body()
    mapping = {
        param: weights if buffer is problem.weights else buffer for param, buffer in func.buffer_map.items()
    }
    return replace(func, body=body, buffer_map=Map(mapping))


class _Writer:
    """Writes the loops."""

    def __init__(self, plan: WinogradPlan, weights: Buffer, func: PrimFunc) -> None:
        self.plan, self.problem, self.weights = plan, plan.problem, weights
        self.b = StmtBuilder()
        self.dtype = str(self.problem.sums.dtype)  # images may have fewer bits
        self.rows, self.columns = self._named("rows", plan.tiles[0]), self._named("columns", plan.tiles[1])
        self.band = plan.band if plan.band is not None else self._band()
        tiles = self._named("tiles", self.band * self.columns)
        positions, lanes = plan.reach**2, self.problem.lanes
        size = (plan.size * n + TAPS - 1 for n in (self.rows, self.columns))
        self.padded = self._buffer("padded", (self.problem.ins // lanes, *size, lanes))
        self.moved = self._buffer("transformed", (positions, self.problem.ins // lanes, tiles, lanes))
        self.products = self._buffer("products", (positions, self.problem.outs // lanes, tiles, lanes))

    def _named(self, name: str, value: Any) -> Any:
        """A number that is the same for the whole function."""
        return value if isinstance(value, int) else self.b.let(name, value)

    def _place(self, name: str, value: PrimExpr) -> PrimExpr:
        """A part of many indices. With free sizes it is computed once: passes take long over copies."""
        return self.b.let(name, value) if self.problem.is_free else value

    def _band(self) -> Var:
        """As many rows of tiles as fit the cache, at least one, at most all."""
        fitting = floordiv(
            constant(BAND_BYTES // self.plan.bytes_of_column, "int64"), maximum(self.columns, 1)
        )
        return self.b.let("band", minimum(maximum(fitting, 1), maximum(self.rows, 1)))

    def _buffer(self, name: str, shape: Sequence[Any], scope: str = "global") -> Buffer:
        dims = [constant(n, "int64") if isinstance(n, int) else n for n in shape]
        return decl_buffer(dims, self.dtype, name, scope=scope)

    def _local(self, name: str, *shape: int) -> Buffer:
        buffer = self._buffer(name, shape, "local")
        self.b.emit(AllocBuffer(buffer))
        return buffer

    def body(self) -> Stmt:
        # of any size: where they are put would take long to find, and is here
        notes = Map({STORAGE: "workspace"}) if self.problem.is_free else Map()
        for buffer in (self.padded, self.moved, self.products):
            self.b.emit(AllocBuffer(buffer, notes))
        with self.b.loop("n", self.problem.data.shape[0]) as n:
            self._pad(n)
            with self.b.loop("number", ceildiv(self.rows, self.band)) as number:
                first, rows = number * self.band, self.band
                if self.plan.band is None:  # the last band may be shorter
                    rows = self.b.let("band_rows", minimum(self.band, self.rows - first))
                self._transform(first, rows)
                self._multiply(rows)
                self._finish(n, first, rows)
        return self.b.func("winograd", ()).body

    def _lanes(self) -> Any:
        return self.b.loop("lane", self.problem.lanes, ForKind.VECTORIZED)

    def _parallel(self, name: str, extent: Any, work: Any) -> Any:
        """A loop on threads; of work that nobody knows, that of one column counts."""
        grain = max(1, GRAIN_ELEMENTS // max(1, work)) if isinstance(work, int) else 1
        return self.b.loop(name, extent, ForKind.PARALLEL, {"grain": grain})

    def _pad(self, n: Var) -> None:
        """The image with zeros around it, up to whole tiles."""
        data, (top, left) = self.problem.data, self.problem.before
        blocks, height, width, lanes = (
            dim.value if isinstance(dim, IntImm) else dim for dim in self.padded.shape
        )
        with self._parallel("line", blocks * height, width * lanes) as line, self.b.loop("x", width) as x:
            block, y = line // height, line % height
            inside = all_of(y >= top, y < data.shape[2] + top, x >= left, x < data.shape[3] + left)
            with self._lanes() as lane:
                pixel = cast(self.dtype, data[n, block, y - top, x - left, lane])
                value = if_then_else(inside, pixel, constant(0, self.dtype))
                self.b.store(self.padded, (block, y, x, lane), value)

    def _transform(self, first: PrimExpr, rows: Any) -> None:
        """V = Bᵀ d B, for some rows of tiles."""
        plan, reach, columns = self.plan, self.plan.reach, self.columns
        blocks, matrix = self.problem.ins // self.problem.lanes, _B[plan.size]
        tasks = self._parallel("task", blocks * rows, columns * reach**2 * 2 * self.problem.lanes)
        with tasks as task, self.b.loop("column", columns) as column:
            block, row = self._place("block", task // rows), self._place("row", task % rows)
            y, x = self._place("y", (first + row) * plan.size), self._place("x", column * plan.size)
            tile = self._place("tile", row * columns + column)
            with self._lanes() as lane:
                values = self._sandwich(
                    matrix, reach, lambda r, s: self.padded[block, y + r, x + s, lane], "d"
                )
                for r in range(reach):
                    for s in range(reach):
                        at = (r * reach + s, block, tile, lane)
                        self.b.store(self.moved, at, values(r, s))

    def _sandwich(
        self, matrix: Sequence[Sequence[int]], size: int, element: Callable[[int, int], PrimExpr], name: str
    ) -> Callable[[int, int], PrimExpr]:
        """The elements of matrix · x · matrixᵀ for x of size × size; the inner product is taken once."""
        columns = [[self.b.let(f"{name}_{r}_{s}", element(r, s)) for r in range(size)] for s in range(size)]
        inner = [
            [self.b.let(f"{name}t_{k}_{s}", _combination(row, columns[s])) for s in range(size)]
            for k, row in enumerate(matrix)
        ]
        return lambda k, other: _combination(matrix[other], inner[k])

    def _multiply(self, rows: Any) -> None:
        """M = V · U at every position."""
        plan, tile = self.plan, self.plan.product
        panels, tiles = self.problem.outs // plan.panel, rows * self.columns
        parts: list[Tiles] = []
        if self.problem.is_free:
            parts, binds = ragged_tiles(tiles, tile_sizes(tile.pixels), TileCost(tile.vectors))
            for bind in binds:
                self.b.emit(bind)
        work = tiles * plan.panel * self.problem.ins // 8
        with self._parallel("task", plan.reach**2 * panels, work) as task:
            position, panel = self._place("position", task // panels), self._place("panel", task % panels)
            if not parts:
                with self.b.loop("tile", tiles // tile.pixels) as number:
                    self._product(position, panel, number * tile.pixels, tile)
            for part in parts:
                with self.b.loop("tile", part.count) as number:
                    first = self._place("first", minimum(part.begin + number * part.size, tiles - part.size))
                    self._product(position, panel, first, replace_fields(tile, pixels=part.size))

    def _product(self, position: PrimExpr, panel: PrimExpr, first: PrimExpr, tile: ConvolutionTile) -> None:
        """The product of one register tile."""
        lanes = self.problem.lanes
        sums = self._local("sums", tile.pixels, tile.vectors, lanes)
        with self._each(tile) as (pixel, vector, lane):
            self.b.store(sums, (pixel, vector, lane), constant(0, self.dtype))
        with (
            self.b.loop("block", self.problem.ins // lanes, notes={NO_UNROLL: True}) as block,
            self.b.loop("channel", lanes, notes={NO_UNROLL: True}) as channel,
            self._each(tile) as (pixel, vector, lane),
        ):
            data = self.moved[position, block, first + pixel, channel]
            weight = self.weights[position, panel, block, channel, vector * lanes + lane]
            self.b.store(sums, (pixel, vector, lane), sums[pixel, vector, lane] + data * weight)
        with self._each(tile) as (pixel, vector, lane):
            at = (position, panel * tile.vectors + vector, first + pixel, lane)
            self.b.store(self.products, at, sums[pixel, vector, lane])

    def _each(self, tile: ConvolutionTile) -> _Nest:
        unrolled = ForKind.UNROLLED
        return _Nest(
            self.b.loop("pixel", tile.pixels, unrolled),
            self.b.loop("vector", tile.vectors, unrolled),
            self._lanes(),
        )

    def _finish(self, n: Var, first: PrimExpr, rows: Any) -> None:
        """Y = Aᵀ M A, and what follows the convolution."""
        plan, problem, size, columns = self.plan, self.problem, self.plan.size, self.columns
        blocks = problem.outs // problem.lanes
        tasks = self._parallel("task", blocks * rows, columns * plan.reach**2 * 2 * problem.lanes)
        with tasks as task, self.b.loop("column", columns) as column:
            block, row = self._place("block", task // rows), self._place("row", task % rows)
            y, x = self._place("y", (first + row) * size), self._place("x", column * size)
            tile = self._place("tile", row * columns + column)
            result = self._local("result", size, size, problem.lanes)
            with self._lanes() as lane:

                def product(r: int, s: int) -> Any:
                    return self.products[r * plan.reach + s, block, tile, lane]

                values = self._sandwich(_A[size], plan.reach, product, "m")
                for i in range(size):
                    for j in range(size):
                        self.b.store(result, (i, j, lane), values(i, j))
            for i in range(size):
                for j in range(size):
                    with self._guard(y + i, x + j), self._lanes() as lane:
                        self._store((n, block, y + i, x + j, lane), result[i, j, lane])

    def _guard(self, y: PrimExpr, x: PrimExpr) -> Any:
        """A condition on pixels of tiles that reach over the image's edge."""
        problem, size = self.problem, self.plan.size
        is_whole = all(isinstance(n, int) and n % size == 0 for n in (problem.rows, problem.columns))
        return _Nest() if is_whole else self.b.when(all_of(y < problem.rows, x < problem.columns))

    def _store(self, index: tuple[PrimExpr, ...], value: PrimExpr) -> None:
        epilogue = self.problem.epilogue
        if epilogue is None:
            self.b.store(self.problem.sums, index, value)
            return
        axes = dict(zip((axis.var for axis in epilogue.iter_vars), index, strict=True))
        conditions = [substitute(condition, axes) for condition in self.problem.conditions]
        with self.b.when(all_of(*conditions)) if conditions else _Nest():
            self.b.emit(_Following(axes, self.problem.sums, value).visit(epilogue.body))


class _Following(StmtSubstituter):
    """The epilogue at one pixel, with the convolution's value in place."""

    def __init__(self, axes: dict[Var, PrimExpr], sums: Buffer, value: PrimExpr) -> None:
        super().__init__(axes)
        self._sums, self._value = sums, value

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        return self._value if node.buffer is self._sums else super().visit_BufferLoad(node)


class _Nest:
    """Contexts entered one inside the other."""

    def __init__(self, *contexts: Any) -> None:
        self._contexts = contexts

    def __enter__(self) -> tuple[Any, ...]:
        return tuple(context.__enter__() for context in self._contexts)

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*error)


def _combination(factors: Sequence[int], values: Sequence[PrimExpr]) -> PrimExpr:
    """The sum of values times whole factors, without the zeros."""
    total: PrimExpr | None = None
    for factor, value in zip(factors, values, strict=True):
        if not factor:
            continue
        term = value if abs(factor) == 1 else value * constant(float(abs(factor)), value.dtype)
        if total is None:
            total = term if factor > 0 else constant(0.0, value.dtype) - term
        else:
            total = total + term if factor > 0 else total - term
    assert total is not None
    return total
