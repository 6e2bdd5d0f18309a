"""Determinants."""

from __future__ import annotations

from collections.abc import Sequence

from heddle import te
from heddle.prim.intrinsics import abs as absolute
from heddle.prim.nodes import PrimExpr, constant
from heddle.prim.ops import cast, not_equal
from heddle.tir.nodes import AllocBuffer, Buffer, IfThenElse, Stmt, decl_buffer, seq
from heddle.topi.loops import Cell, load, loop, nest, on_threads, store
from heddle.topi.reduce import accumulator


def det(x: te.Tensor) -> te.Tensor:
    """Return the determinants of matrices (the last two axes), by Gaussian elimination with partial
    pivoting.
    """
    wide, size = accumulator(x.dtype), x.shape[-1]

    def body(inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> Stmt:
        work = decl_buffer((size, size), wide, "work")
        result, factor, kept = Cell("result", wide), Cell("factor", wide), Cell("kept", wide)
        best = Cell("best")

        def find_pivot(k: PrimExpr) -> Stmt:
            def compare(step: PrimExpr) -> Stmt:
                row = k + 1 + step
                greater = absolute(load(work, (row, k))) > absolute(load(work, (best.get(), k)))
                return IfThenElse(greater, best.set(row))

            return seq(best.set(k), loop("f", size - k - 1, compare))

        def swap(k: PrimExpr) -> Stmt:
            def element(column: PrimExpr) -> Stmt:
                return seq(
                    kept.set(load(work, (k, column))),
                    store(work, load(work, (best.get(), column)), (k, column)),
                    store(work, kept.get(), (best.get(), column)),
                )

            exchange = seq(loop("s", size, element), result.set(constant(0, wide) - result.get()))
            return IfThenElse(not_equal(best.get(), k), exchange)

        def eliminate(k: PrimExpr) -> Stmt:
            def row(step: PrimExpr) -> Stmt:
                at = k + 1 + step

                def element(column: PrimExpr) -> Stmt:
                    value = load(work, (at, column)) - factor.get() * load(work, (k, column))
                    return store(work, value, (at, column))

                quotient = factor.set(load(work, (at, k)) / load(work, (k, k)))
                return seq(quotient, loop("e", size, element))

            has_pivot = not_equal(load(work, (k, k)), constant(0, wide))
            return IfThenElse(has_pivot, loop("r", size - k - 1, row))

        def column(k: PrimExpr) -> Stmt:
            return seq(find_pivot(k), swap(k), result.set(result.get() * load(work, (k, k))), eliminate(k))

        def matrix(index: tuple[PrimExpr, ...]) -> Stmt:
            return seq(
                AllocBuffer(work),
                *(cell.declare() for cell in (result, factor, kept, best)),
                nest(
                    "c", (size, size), lambda at: store(work, cast(wide, load(inputs[0], (*index, *at))), at)
                ),
                result.set(constant(1, wide)),
                loop("k", size, column),
                store(outputs[0], cast(x.dtype, result.get()), index),
            )

        return on_threads("m", x.shape[:-2], size * size * size, matrix)

    made: te.Tensor = te.extern(tuple(x.shape[:-2]), [x], body, name="det", dtype=x.dtype)
    return made
