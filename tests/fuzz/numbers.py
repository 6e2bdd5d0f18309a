"""Every scalar operation, with every dtype, at the edges of numbers, in every engine.

| engine | what computes |
|---|---|
| fold | the builders of `prim.ops`, of constants |
| simplify | the arith simplifier, of constants put for variables |
| evaluate | the evaluator of scalar expressions |
| loops | the loop interpreter |
| scalar | machine code for one element at a time |
| body | machine code for a loop that LLVM makes vectors of, and its tail |
| vector | machine code for a loop of 16 lanes, as the schedules make them |
| parallel | machine code of a parallel loop, in parts of a few elements |
| reference | the operator's numpy reference |

Each is compared with the table's oracle (`tests/fuzz/number_rows.py`); the four kinds of machine code must
give the same bits as well. `python -m tests.fuzz.numbers [--seed N] [--rows NAME ...] [--dtypes NAME ...]
[--target T]` runs the whole table; tests/fuzz/test_numbers.py runs a fixed sample of it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from heddle.arith import Analyzer
from heddle.codegen import build, compile_kernels
from heddle.ir.op import OP_RECORDS
from heddle.ops import load
from heddle.prim.evaluate import evaluate
from heddle.prim.nodes import FloatImm, IntImm, PrimExpr, Ramp, SizeVar, Var, constant
from heddle.prim.ops import cast
from heddle.prim.substitute import substitute
from heddle.prim.values import convert, int_range
from heddle.runtime.dtype import DataType
from heddle.support.diagnostics import IRTypeError, TrapValueError
from heddle.target import Target
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, PrimFunc, Stmt, decl_buffer, seq
from tests.fuzz.number_rows import ALL, Row, rows_of
from tests.unit.codegen.kernel_runner import Kernels

load()
LANES = 16
MOST_POINTS = 700
SLOW_POINTS = 60
"""How many points the engines in Python compute."""


_FLOATS = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 3.5, 7.0, 1e-3, 30.5, 127.5, 128.0, 255.5, 256.0, 448.0, 464.0]
_LARGE_FLOATS = [57344.0, 65519.0, 65520.0, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e9, 3e38, np.inf, np.nan]
_NEAR_TIES = [tie * (1 + off) for tie in (1 + 2.0**-11, 65520.0, 2.0**-25) for off in (2.0**-40, -(2.0**-40))]
"""Numbers that are ties of float16 only after they were rounded to float32."""


def int_values(dtype: DataType, rng: Any) -> Any:
    """The ends of the range and their neighbours, small numbers, counts of bits, and some at random."""
    low, high = int_range(dtype)
    near = {low, low + 1, low // 2, high, high - 1, high // 2 + 1}
    small = {-3, -2, -1, 0, 1, 2, 3, 7, 8, dtype.bits - 1, dtype.bits, dtype.bits + 1}
    known = sorted(v for v in near | small if low <= v <= high)
    drawn = rng.integers(low, high, 6, np.int64 if low else np.uint64, endpoint=True)
    return np.array([*known, *map(int, drawn)], dtype.numpy())


def edge_values(dtype: DataType, rng: Any) -> Any:
    """The values of a dtype at which operations change, and some at random."""
    kind, words = dtype.numpy(), f"u{dtype.itemsize}"
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_int:
        return int_values(dtype, rng)
    known = [*_FLOATS, *_LARGE_FLOATS, *(_NEAR_TIES if dtype.bits == 64 else ())]
    with np.errstate(all="ignore"):
        wide = np.array([*known, *(-v for v in known)])
        made = (wide.astype(np.float32) if dtype.bits < 32 else wide).astype(kind)
    subnormal = np.array([1, 2, (1 << dtype.bits - 1) | 1], words).view(kind)
    drawn = rng.integers(0, (1 << dtype.bits) - 1, 12, np.uint64, endpoint=True).astype(words).view(kind)
    return np.concatenate([made, subnormal, drawn])


def points_of(row: Row, dtype: DataType, rng: Any, most: int) -> list[Any]:
    """Arguments: all combinations of edge values, or as many of them as `most`."""
    values = edge_values(dtype, rng)
    grid = (
        list(itertools.product(range(len(values)), repeat=row.arity))
        if row.arity < 3
        else rng.integers(0, len(values), (most, row.arity)).tolist()
    )
    if len(grid) > most:
        grid = [grid[k] for k in sorted(rng.choice(len(grid), most, replace=False))]
    chosen = np.array(grid).T
    return [values[index] for index in chosen]


def stored(dtype: str) -> DataType:
    """The dtype in memory: 4-bit integers are kept and given as bytes."""
    return DataType(dtype.replace("int4", "int8"))


def result_dtype(row: Row, dtype: str) -> str:
    return row.result or dtype


def kernel(row: Row, dtype: str) -> PrimFunc:
    """Three loops over the same arguments into three results: plain, of lanes, parallel."""
    n, out_dtype = SizeVar("n"), result_dtype(row, dtype)
    args = [decl_buffer((n,), stored(dtype), f"x{k}") for k in range(row.arity)]
    outs = [decl_buffer((n,), stored(out_dtype), name) for name in ("plain", "lanes", "parts")]

    def store(out: Buffer, at: PrimExpr, lanes: int = 1) -> Stmt:
        loads = [cast(DataType(dtype).with_lanes(lanes), BufferLoad(x, (at,))) for x in args]
        return BufferStore(out, cast(stored(out_dtype).with_lanes(lanes), row.build(*loads)), (at,))

    i, j, k, m = (Var(name, "int64") for name in "ijkm")
    one = constant(1, "int64")
    body = (
        For(i, 0, n, ForKind.SERIAL, store(outs[0], i)),
        For(j, 0, n // LANES, ForKind.SERIAL, store(outs[1], Ramp(j * LANES, one, LANES), LANES)),
        For(m, 0, n % LANES, ForKind.SERIAL, store(outs[1], n // LANES * LANES + m)),
        For(k, 0, n, ForKind.PARALLEL, store(outs[2], k)),
    )
    return PrimFunc(
        (*args, *outs), seq(*body), attrs={"global_symbol": f"{row.name}__{dtype}", "tir.noalias": True}
    )


def machine_results(
    kernels: Kernels, name: str, args: Sequence[Any], out: DataType
) -> Iterator[tuple[str, Any]]:
    """By every kind of machine code. Scalars by calls for one element, which no vector body takes."""
    size = len(args[0])
    made = [np.zeros(size, out.numpy()) for _ in range(3)]
    kernels(name, *args, *made)
    yield from zip(("body", "vector", "parallel"), made, strict=True)
    single = [np.zeros(size, out.numpy()) for _ in range(3)]
    for at in range(size):
        kernels(name, *(x[at : at + 1] for x in args), *(y[at : at + 1] for y in single))
    yield "scalar", single[0]


def python_results(
    row: Row, func: PrimFunc, dtype: DataType, args: Sequence[Any], out: DataType
) -> Iterator[tuple[str, Any]]:
    """By the engines in Python."""
    variables = [Var(f"x{k}", dtype) for k in range(row.arity)]
    expr = row.build(*variables)
    points = list(zip(*args, strict=True))
    bound = [dict(zip(variables, point, strict=True)) for point in points]
    yield "evaluate", np.array([_value(lambda env=env: evaluate(expr, env), out) for env in bound])
    given = [[_constant(v, dtype) for v in point] for point in points]
    yield "fold", np.array([_value(lambda p=p: row.build(*p), out) for p in given])
    simplify = Analyzer().simplify
    yield (
        "simplify",
        np.array(
            [
                _value(lambda p=p: simplify(substitute(expr, dict(zip(variables, p, strict=True)))), out)
                for p in given
            ]
        ),
    )
    made = [np.zeros(len(points), stored(str(out)).numpy()) for _ in range(3)]
    run_primfunc(func, *(x.copy() for x in args), *made)
    yield "loops", made[0]
    yield "loops, lanes", made[1]


def _constant(value: Any, dtype: DataType) -> PrimExpr:
    return constant(float(value) if dtype.is_float else int(value), dtype)


def _value(make: Any, dtype: DataType) -> Any:
    """A value, or that of an expression without variables. A divisor of 0 that is refused counts as 0."""
    try:
        made = make()
        if isinstance(made, (IntImm, FloatImm)):
            made = made.value
        return convert(evaluate(made) if isinstance(made, PrimExpr) else made, dtype)
    except (IRTypeError, TrapValueError) as error:
        if error.code != "K0104":
            raise
        return dtype.numpy().type(0)


def differing(row: Row, want: Any, got: Any, ulps: float) -> Any:
    """Where results are not those wanted. Any NaN is as good as another."""
    if want.dtype.kind in "biu":
        return np.asarray(want != got)
    exact, kind = want.astype(np.longdouble), got.dtype
    with np.errstate(all="ignore"):
        rounded = exact.astype(kind) if kind.itemsize > 2 else exact.astype(np.float32).astype(kind)
        both_nan = np.isnan(exact) & np.isnan(got)
        same = rounded == got
        if row.zero_sign:
            same &= np.signbit(rounded.astype(np.float32)) == np.signbit(got.astype(np.float32))
        if ulps:
            spacing = np.spacing(np.abs(rounded).astype(kind)).astype(np.longdouble)
            near = np.abs(exact - got.astype(np.longdouble)) <= ulps * spacing
            same |= near | (rounded == got)
    return ~(both_nan | same)


def check(
    row: Row, dtype: str, kernels: Kernels, func: PrimFunc, rng: Any, most: int, slow: int
) -> list[str]:
    """What engines get wrong for one row and dtype, a line each."""
    kind, out = DataType(dtype), DataType(result_dtype(row, dtype))
    args = points_of(row, kind, rng, most)
    few = [x[:: max(1, len(x) // slow)] for x in args]
    found: list[str] = []

    def compare(engine: str, given: Sequence[Any], got: Any) -> None:
        with np.errstate(all="ignore"):
            want = row.oracle(kind, *given)
        wrong = np.flatnonzero(differing(row, want, np.asarray(got), row.ulps))
        if len(wrong):
            at = wrong[0]
            found.append(
                f"{row.name} {dtype} {engine}: {len(wrong)} of {len(want)}, e.g. "
                f"({', '.join(repr(x[at].item()) for x in given)}): expected {want[at]!r}, got {got[at]!r}"
            )

    first: Any = None
    for engine, got in machine_results(kernels, f"{row.name}__{dtype}", args, stored(str(out))):
        compare(engine, args, got)
        first = got if first is None else first
        unlike = np.flatnonzero((first != got) & ~((first != first) & (got != got)))
        if len(unlike):
            found.append(
                f"{row.name} {dtype} {engine}: other bits than the body, at {[x[unlike[0]] for x in args]}"
            )
    for engine, got in python_results(row, func, kind, few, out):
        compare(engine, few, got)
    if row.operator and "int4" not in dtype:
        with np.errstate(all="ignore"):
            compare(
                "reference",
                args,
                np.asarray(OP_RECORDS[f"relax.{row.operator}"].reference(SimpleNamespace(), *args)),
            )
    return found


def compiled_for(named: dict[str, PrimFunc], target: Target) -> Any:
    """One object with all functions, and their names."""
    if target.kind.name == "llvm":
        return compile_kernels(named, target)
    module = build(named, target)
    return SimpleNamespace(object_code=module.objects[0], functions=module.names)


def run(
    dtype: str,
    keep: Callable[[Row], bool],
    seed: int,
    most: int = MOST_POINTS,
    slow: int = SLOW_POINTS,
    target: str = "llvm",
) -> list[str]:
    """Check the rows of a dtype that are to be kept. One object holds their kernels."""
    funcs = {row: kernel(row, dtype) for row in rows_of(dtype) if keep(row)}
    if not funcs:
        return []
    named = {str(func.attrs["global_symbol"]): func for func in funcs.values()}
    kernels = Kernels(compiled_for(named, Target(target)))
    rng = np.random.default_rng(seed)
    return [line for row, func in funcs.items() for line in check(row, dtype, kernels, func, rng, most, slow)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", nargs="*", default=[], help="names of rows; all by default")
    parser.add_argument("--dtypes", nargs="*", default=list(ALL))
    parser.add_argument("--target", default="llvm", help="such as 'llvm -mcpu=x86-64'")
    given = parser.parse_args()
    total = 0
    for dtype in given.dtypes:
        begin = time.perf_counter()
        found = run(
            dtype, lambda row: not given.rows or row.name in given.rows, given.seed, target=given.target
        )
        print(f"{dtype}: {len(found)} differences, {time.perf_counter() - begin:.1f} s", flush=True)
        print(*(f"  {line}" for line in found), sep="\n", end="\n" if found else "", flush=True)
        total += len(found)
    print(f"{total} differences, seed {given.seed}")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
