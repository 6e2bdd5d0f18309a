"""Random expressions of integers, conditions and casts between all of them, in every engine.

`tests.fuzz.numbers` has each operation by itself. Here they stand inside each other: what a compiler knows of
an operand (that it is not negative, fits a narrower type, is a multiple of four) must be so. The oracle is
the evaluator of scalar expressions, which that table holds to its own.

`python -m tests.fuzz.expressions [--seed N] [--count N] [--target T] [--minutes M]`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from heddle.arith import Analyzer
from heddle.ir.expr import Call
from heddle.ir.node import children
from heddle.ir.visitor import post_order
from heddle.prim import intrinsics, ops
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import Broadcast, Mul, PrimExpr, Var, constant
from heddle.prim.values import int_range
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import TrapValueError
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from tests.fuzz.number_rows import Row
from tests.fuzz.numbers import compiled_for, kernel, machine_results
from tests.unit.codegen.kernel_runner import Kernels

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
BATCH = 24
"""Expressions in one object."""
POINTS = 37
"""Two vectors of 16 lanes and a rest."""
MOST_DEPTH = 5


class Grower:
    """Makes one expression of its numbers: again and again the same, of scalars or of lanes."""

    def __init__(self, seed: int, operands: Sequence[PrimExpr]) -> None:
        self.rng = random.Random(seed)
        self.operands = operands
        self.lanes = operands[0].dtype.lanes

    def constant(self, dtype: str) -> PrimExpr:
        """A small number, a power of two, or one near an end of the type."""
        low, high = int_range(DataType(dtype))
        near = self.rng.choice((0, 1, 2, 3, 4, 7, 8, 16, -1, -2, -4, low, low + 1, high, high - 1, high // 2))
        return self._in_lanes(constant(min(high, max(low, near)), dtype))

    def _in_lanes(self, value: PrimExpr) -> PrimExpr:
        return Broadcast(value, self.lanes) if self.lanes > 1 else value

    def divisor(self, dtype: str, depth: int) -> PrimExpr:
        """A number that is not 0."""
        made = self.constant(dtype) if self.rng.random() < 0.7 else self.number(dtype, depth)
        one = self._in_lanes(constant(1, dtype))
        return ops.select(ops.equal(made, self._in_lanes(constant(0, dtype))), one, made)

    def number(self, dtype: str, depth: int) -> PrimExpr:
        """An expression of integers of a type."""
        if depth <= 0 or self.rng.random() < 0.1:
            own = [each for each in self.operands if each.dtype.element == dtype]
            return self.rng.choice(own) if own and self.rng.random() < 0.7 else self.constant(dtype)
        choice = self.rng.randrange(13)
        if choice <= 2:
            return self.converted(dtype, depth)
        if choice <= 4:
            divide = self.rng.choice((ops.floordiv, ops.floormod, ops.truncdiv, ops.truncmod))
            left = self.number(dtype, depth - 1)
            return divide(left, self.divisor(dtype, depth - 2))
        if choice == 5:
            shift = self.rng.choice((ops.shift_left, ops.shift_right))
            left = self.number(dtype, depth - 1)
            return shift(left, self.constant(dtype) if self.rng.random() < 0.7 else self.number(dtype, 1))
        if choice == 6:
            condition = self.condition(depth - 1)
            choose = ops.select if self.rng.random() < 0.7 or self.lanes > 1 else ops.if_then_else
            return choose(condition, self.number(dtype, depth - 1), self.number(dtype, depth - 1))
        if choice == 7:
            return self.rng.choice((ops.bitwise_not, ops.negative, intrinsics.abs))(
                self.number(dtype, depth - 1)
            )
        function = self.rng.choice(
            (
                ops.add,
                ops.subtract,
                ops.multiply,
                ops.minimum,
                ops.maximum,
                ops.bitwise_and,
                ops.bitwise_or,
                ops.bitwise_xor,
            )
        )
        left = self.number(dtype, depth - 1)
        return function(left, self.number(dtype, depth - 1))

    def converted(self, dtype: str, depth: int) -> PrimExpr:
        """A cast of a number of another type, a condition, or a float between."""
        lot, target = self.rng.random(), DataType(dtype).with_lanes(self.lanes)
        if lot < 0.1:
            return ops.cast(target, self.condition(depth - 1))
        source = self.number(self.rng.choice(INTS), depth - 1)
        if lot < 0.25:
            source = ops.cast(
                DataType(self.rng.choice(("float32", "float64"))).with_lanes(self.lanes), source
            )
        return ops.cast(target, source)

    def condition(self, depth: int) -> PrimExpr:
        """A comparison, or several."""
        if depth > 1 and self.rng.random() < 0.3:
            join = self.rng.choice((ops.logical_and, ops.logical_or))
            return join(self.condition(depth - 1), self.condition(depth - 1))
        if depth > 1 and self.rng.random() < 0.1:
            return ops.logical_not(self.condition(depth - 1))
        dtype = self.rng.choice(INTS)
        function = self.rng.choice(
            (ops.less, ops.less_equal, ops.greater, ops.greater_equal, ops.equal, ops.not_equal)
        )
        left = self.number(dtype, depth - 1)
        return function(left, self.number(dtype, depth - 1))


def row_of(seed: int, dtype: str) -> Row:
    """An expression of three numbers, as a row of the table of numbers."""

    def build(*operands: PrimExpr) -> PrimExpr:
        grower = Grower(seed, operands)
        return grower.number(dtype, grower.rng.randint(2, MOST_DEPTH))

    return Row(f"e{seed}", 3, build, lambda *_: None, (dtype,))


def points_of(dtype: str, rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """Numbers of all sizes, the ends of the type among them."""
    low, high = int_range(DataType(dtype))
    few = np.array([low, low + 1, high, high - 1, 0, 1, max(low, -1)], dtype)
    columns = []
    for _ in range(3):
        narrow = rng.integers(max(low, -9), 17, POINTS)
        wide = rng.integers(low, high, POINTS, dtype, endpoint=True)
        made = np.where(rng.random(POINTS) < 0.5, narrow.astype(dtype), wide)
        columns.append(np.where(rng.random(POINTS) < 0.3, rng.choice(few, POINTS), made))
    return columns


def value_at(expr: PrimExpr, variables: Sequence[Var], points: Sequence[Any]) -> list[int]:
    """What an expression is at each point."""
    return [int(evaluate(expr, dict(zip(variables, point, strict=True)))) for point in points]


def are_indices(expr: PrimExpr, env: Mapping[Var, Any]) -> bool:
    """Whether all parts of an expression that have at least 32 bits and a sign are, at a point, far from the
    ends of their types, products and shifts too. Index arithmetic does not overflow: the simplifier takes it
    for that of whole numbers."""
    for node in post_order(expr, children):
        if not isinstance(node, PrimExpr) or not node.dtype.is_signed or node.dtype.bits < 32:
            continue
        value = int(evaluate(node, env))
        if isinstance(node, Mul):
            value = int(evaluate(node.a, env)) * int(evaluate(node.b, env))
        elif isinstance(node, Call) and node.op.name == "tir.shift_left":
            number, count = (int(evaluate(part, env)) for part in node.args)
            value = number << count if 0 <= count < node.dtype.bits else 0
        if abs(value) > int_range(node.dtype)[1] // 4:
            return False
    return True


def simplified_faults(
    row: Row, dtype: str, expr: PrimExpr, variables: Sequence[Var], points: Any
) -> list[str]:
    """Where the simplified expression is another number, at points of numbers that indices have."""
    simple = Analyzer().simplify(expr)
    for point in points:
        env = dict(zip(variables, point, strict=True))
        wanted = int(evaluate(expr, env))
        try:
            got = int(evaluate(simple, env))
        except TrapValueError:  # a divisor of 0
            got = None
        if wanted != got and are_indices(expr, env):
            at = ", ".join(map(str, point))
            return [f"{row.name} {dtype} simplify: ({at}): expected {wanted}, got {got}: {expr} -> {simple}"]
    return []


def faults_of(row: Row, dtype: str, func: Any, kernels: Kernels, rng: np.random.Generator) -> list[str]:
    """What engines get wrong for one expression, a line each."""
    args = points_of(dtype, rng)
    variables = [Var(f"x{k}", DataType(dtype)) for k in range(3)]
    expr, points = row.build(*variables), list(zip(*args, strict=True))
    wanted = np.array(value_at(expr, variables, points), dtype)
    try:
        found = simplified_faults(row, dtype, expr, variables, points)
        made = [np.zeros(POINTS, dtype) for _ in range(3)]
        run_primfunc(func, *(x.copy() for x in args), *made)
        results = [("loops", made[0]), ("loops, lanes", made[1])]
        results += machine_results(kernels, f"{row.name}__{dtype}", args, DataType(dtype))
    except Exception as error:  # whatever it is, it is a fault of this expression
        return [f"{row.name} {dtype}: {type(error).__name__}: {str(error)[:200]}: {expr}"]
    for engine, got in results:
        wrong = np.flatnonzero(wanted != got)
        if len(wrong):
            at = wrong[0]
            found.append(
                f"{row.name} {dtype} {engine}: {len(wrong)} of {POINTS}, e.g. "
                f"({', '.join(str(x[at]) for x in args)}): expected {wanted[at]}, got {got[at]}: {expr}"
            )
    return found


def run(
    seed: int, count: int, target: str = "llvm", is_over: Callable[[], bool] = lambda: False
) -> tuple[int, list[str]]:
    """How many expressions were tried from `seed` on, and what engines got wrong."""
    found: list[str] = []
    for begin in range(seed, seed + count, BATCH):
        if is_over():
            return begin - seed, found
        dtype = INTS[begin // BATCH % len(INTS)]
        rows = [row_of(number, dtype) for number in range(begin, min(begin + BATCH, seed + count))]
        funcs = {row: kernel(row, dtype) for row in rows}
        kernels = Kernels(
            compiled_for({str(func.attrs["global_symbol"]): func for func in funcs.values()}, Target(target))
        )
        rng = np.random.default_rng(begin)
        for row, func in funcs.items():
            found += faults_of(row, dtype, func, kernels, rng)
    return count, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--target", default="llvm -opt-level=1", help="such as 'c' or 'llvm -mcpu=x86-64'")
    given = parser.parse_args()
    end = time.monotonic() + 60 * given.minutes
    tried, found = run(given.seed, given.count, given.target, lambda: time.monotonic() > end)
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{tried} expressions, {len(found)} differences, seed {given.seed}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
