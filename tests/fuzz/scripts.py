"""Random loop programs and random schedule primitives: what a program computes before and after.

    python -m tests.fuzz.scripts --seed 0 --count 2000                      2,000 programs for each primitive
    python -m tests.fuzz.scripts --primitive parallel --minutes 5

A primitive applies and the program computes the same in the loop interpreter (integers bit by bit; floats
too, unless reductions were reordered), or it refuses with a coded ScheduleError and changes nothing. Anything
else is a fault. Loops whose iterations may run in any order (parallel, vectorised, bound to threads) are
interpreted from their end, which shows what iterations share. With `--machine` some scheduled programs
also run as machine code.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heddle.codegen.build import build
from heddle.codegen.cache import KernelCache
from heddle.ir.module import IRModule
from heddle.ir.node import replace
from heddle.ir.visitor import walk
from heddle.prim.evaluate import evaluate
from heddle.prim.substitute import free_vars
from heddle.runtime import tensor
from heddle.tir.interpreter import run_primfunc
from heddle.tir.nodes import For, ForKind, PrimFunc
from heddle.tir.schedule import Schedule, ScheduleError
from heddle.tir.schedule.nests.loops import reduces
from heddle.tir.substitute import StmtSubstituter
from heddle.tir.verify import verify_prim_func
from tests.fuzz.loop_programs import random_program
from tests.fuzz.steered import STEERED, steered_program
from tests.unit.schedule.test_random_schedules import STEPS

FREE_SIZES = (0, 1, 3, 4)


def _block(sch: Schedule, rng: random.Random) -> str:
    return str(rng.choice(sch.blocks()).name)


def _loop(sch: Schedule, rng: random.Random) -> Any:
    return rng.choice(sch.get_loops(_block(sch, rng)))


def _nest(sch: Schedule, rng: random.Random) -> list[Any]:
    loops = list(sch.get_loops(_block(sch, rng)))
    rng.shuffle(loops)
    return loops[: rng.choice([2, 3])]


def _fused_and_parallel(sch: Schedule, rng: random.Random) -> None:
    loops = sch.get_loops(_block(sch, rng))
    sch.parallel(sch.fuse(*loops[: rng.choice([2, 3])]))


def _split_and_vectorized(sch: Schedule, rng: random.Random) -> None:
    sch.vectorize(sch.split(_loop(sch, rng), [None, rng.choice([2, 3])])[1])


def _annotated(sch: Schedule, rng: random.Random) -> None:
    sch.annotate(_loop(sch, rng), "grain", 3)


def _unannotated(sch: Schedule, rng: random.Random) -> None:
    loop = _loop(sch, rng)
    sch.annotate(loop, "grain", 3)
    sch.unannotate(loop, "grain")


def _cached_by_index(sch: Schedule, rng: random.Random, method: str) -> None:
    block = _block(sch, rng)
    getattr(sch, method)(block, 0, "local", lambda *axes: axes[: rng.choice([1, 2, 2, 2, 3])])


def _layout(sch: Schedule, rng: random.Random) -> None:
    block = _block(sch, rng)
    if sch.get(sch.get_sblock(block)).writes[0].buffer in sch.func.buffers:
        raise IndexError("a buffer of the caller's changes what the caller passes")
    maps: list[Callable[..., Any]] = [
        lambda i, j: (j, i),
        lambda i, j: (j, i // 2, i % 2),
        lambda i, j: (i // 3, j, i % 3),
        lambda i, j: (i * 8 + j.astype(i.dtype),),
    ]
    sch.transform_layout(block, 0, rng.choice(maps))


def _block_layout(sch: Schedule, rng: random.Random) -> None:
    block = _block(sch, rng)
    maps: list[Callable[..., Any]] = [
        lambda *i: i[::-1],
        lambda i, j: (i * 4 + j.astype(i.dtype),),
        lambda i, *j: (*j, i),
    ]
    sch.transform_block_layout(block, rng.choice(maps))


def _axes_in_another_order(sch: Schedule, rng: random.Random) -> None:
    block = _block(sch, rng)
    order = list(range(len(sch.get(sch.get_sblock(block)).iter_vars)))
    rng.shuffle(order)
    sch.reorder_block_iter_var(block, order)


def _padded(sch: Schedule, rng: random.Random) -> None:
    block = _block(sch, rng)
    count = len(sch.get(sch.get_sblock(block)).iter_vars)
    sch.pad_einsum(block, [rng.choice([1, 2, 3]) for _ in range(count)])


PRIMITIVES: dict[str, Callable[[Schedule, random.Random], Any]] = {
    **{name: step for name, step in STEPS.items() if name != "sample_compute_location"},
    "reorder": lambda s, r: s.reorder(*_nest(s, r)),
    "vectorize": lambda s, r: s.vectorize(_loop(s, r)),
    "split and vectorize": _split_and_vectorized,
    "fuse and parallel": _fused_and_parallel,
    "bind": lambda s, r: s.bind(_loop(s, r), r.choice(["blockIdx.x", "threadIdx.x", "vthread"])),
    "split_overlapping": lambda s, r: s.split_overlapping(_loop(s, r), r.choice([2, 3])),
    "annotate": _annotated,
    "unannotate": _unannotated,
    "cache_inplace": lambda s, r: s.cache_inplace(_block(s, r), 0, "local"),
    "cache_read": lambda s, r: s.cache_read(_block(s, r), r.choice([0, 1]), "local"),
    "cache_write": lambda s, r: s.cache_write(_block(s, r), 0, "local"),
    "reindex_cache_read": lambda s, r: _cached_by_index(s, r, "reindex_cache_read"),
    "reindex_cache_write": lambda s, r: _cached_by_index(s, r, "reindex_cache_write"),
    "transform_layout": _layout,
    "transform_block_layout": _block_layout,
    "reorder_block_iter_var": _axes_in_another_order,
    "pad_einsum": _padded,
    "rfactor": lambda s, r: s.rfactor(_loop(s, r), r.choice([0, 1, 2])),
    "set_scope": lambda s, r: s.set_scope(_block(s, r), 0, "local"),
    "storage_align": lambda s, r: s.storage_align(_block(s, r), 0, 0, 8, 1),
    "share_output": lambda s, r: s.share_output(_block(s, r), r.choice([0, 1])),
    "prefetch": lambda s, r: s.prefetch(_block(s, r), 0, _loop(s, r), lambda *i: (i[0], 0)),
    "sample_compute_location": STEPS["sample_compute_location"],
}
"""A random use of each primitive. `narrow` and `unsafe_set_dtype` are the caller's word, and `tensorize` and
`clamp_padding` take only what other primitives made: they have tests of their own."""

ASSOCIATING = {"rfactor", "reorder", "transform_block_layout"}


@dataclass
class Tally:
    """What became of the uses of one primitive."""

    applied: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        codes = ", ".join(f"{code} {count}" for code, count in self.refused.most_common())
        return f"applied {self.applied}, refused {self.refused.total()} ({codes}), faults {len(self.faults)}"


class _FromTheEnd(StmtSubstituter):
    """Runs loops without an order from their last iteration."""

    def visit_For(self, node: For) -> Any:
        if node.kind in (ForKind.SERIAL, ForKind.UNROLLED) or reduces(node):
            return self.default(node)
        last = node.min + node.min + node.extent - 1
        body = StmtSubstituter({node.loop_var: last - node.loop_var}).visit(node.body)
        return replace(node, body=self.visit(body))


def from_the_end(func: PrimFunc) -> PrimFunc:
    return func.with_body(_FromTheEnd({}).visit(func.body))


def arguments(func: PrimFunc, n: int, seed: int) -> list[np.ndarray]:
    """Small whole numbers, which floats add up exactly; the buffer `I` holds rows."""
    rng = np.random.default_rng(seed)
    arrays = []
    for buffer in func.buffers:
        shape = tuple(int(evaluate(dim, dict.fromkeys(free_vars(dim), n))) for dim in buffer.shape)
        top = shape[0] if buffer.name.startswith("I") else 5
        arrays.append(rng.integers(0, max(top, 1), shape).astype(buffer.dtype.numpy()))
    return arrays


def interpreted(func: PrimFunc, n: int, seed: int) -> list[np.ndarray]:
    arrays = arguments(func, n, seed)
    run_primfunc(func, *arrays)
    return arrays


def compiled(func: PrimFunc, sizes: tuple[int, ...], seed: int) -> list[list[np.ndarray]]:
    """The results as machine code, for each size."""
    marked = func.with_attr({"tir.is_scheduled": True, "global_symbol": "main"})
    module = build(marked, "llvm", KernelCache(None))
    found = []
    for n in sizes:
        tensors = [tensor(array) for array in arguments(func, n, seed)]
        module["main"](*tensors)
        found.append([t.numpy() for t in tensors])
    return found


def agree(wanted: list[np.ndarray], got: list[np.ndarray], is_exact: bool) -> bool:
    pairs = zip(wanted, got, strict=True)
    return all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        if is_exact or a.dtype.kind != "f"
        else np.allclose(a, b, rtol=1e-4, equal_nan=True)
        for a, b in pairs
    )


def try_one(name: str, seed: int, tally: Tally, machine: bool = False) -> None:
    """One program, up to two random steps, then the primitive. Of those that seldom apply, three programs in
    four suit them."""
    rng = random.Random(f"{name} {seed}")
    suits = name in STEERED and rng.random() < 0.75
    before = steered_program(rng, rng.choice(STEERED[name][0])) if suits else random_program(rng)
    sch = Schedule(before, seed=seed)
    applied: list[str] = []
    counts = (0, 0, 0, 1) if suits else (0, 0, 1, 2)
    choices = [rng.choice(list(PRIMITIVES)) for _ in range(rng.choice(counts))]
    for step in [*choices, name]:
        use = STEERED[name][1] if suits and step is name else PRIMITIVES[step]
        try:
            use(sch, rng)
            applied.append(step)
        except ScheduleError as error:
            if step is name:
                tally.refused[error.diagnostics[0].code.name] += 1
        except (IndexError, ValueError, TypeError, StopIteration) as error:
            if not _is_choice(error):
                tally.faults.append(f"{name} {seed}: {step} after {applied}: {type(error).__name__}: {error}")
                return
            if step is name:
                tally.refused["no choice"] += 1
        except Exception as error:
            tally.faults.append(f"{name} {seed}: {step} after {applied}: {type(error).__name__}: {error}")
            return
    if not applied:
        return
    found = _difference(before, sch.func, applied, seed, machine)
    if found:
        tally.faults.append(f"{name} {seed}: {applied}: {found}")
    elif applied[-1] is name:
        tally.applied += 1


def _is_choice(error: Exception) -> bool:
    """Whether chance found nothing to choose from: the error comes from this file or the steps."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None
    return "heddle" not in trace.tb_frame.f_globals["__name__"]


def _is_bound(func: PrimFunc) -> bool:
    """Whether loops are threads of a device, which machine code for processors has none of."""
    return any(isinstance(node, For) and node.kind is ForKind.THREAD_BINDING for node in walk(func.body))


def _difference(before: PrimFunc, after: PrimFunc, applied: list[str], seed: int, machine: bool) -> str:
    """What is wrong with a scheduled program; nothing where it is right."""
    findings = verify_prim_func(after, IRModule.from_expr(after))
    if findings:
        return f"not well formed: {findings[0].message}"
    is_exact = not ASSOCIATING & set(applied)
    sizes = FREE_SIZES if any(free_vars(*buffer.shape) for buffer in before.buffers) else (0,)
    turned = from_the_end(after)
    try:
        for n in sizes:
            wanted = interpreted(before, n, seed)
            for func in (after, turned) if turned is not after else (after,):
                if not agree(wanted, interpreted(func, n, seed), is_exact):
                    return f"another result{' from the end' if func is not after else ''}, n = {n}"
        if machine and not _is_bound(after):
            for n, got in zip(sizes, compiled(after, sizes, seed), strict=True):
                if not agree(interpreted(before, n, seed), got, is_exact):
                    return f"another result as machine code, n = {n}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def run(
    names: list[str], seed: int, count: int, minutes: float | None = None, machine: int = 0
) -> dict[str, Tally]:
    """`count` programs for each primitive, or as many as some minutes allow; every `machine`-th as machine
    code too."""
    tallies = {name: Tally() for name in names}
    end = None if minutes is None else time.monotonic() + minutes * 60
    for k in range(seed, seed + count):
        for name in names:
            try_one(name, k, tallies[name], machine > 0 and k % machine == 0)
        if end is not None and time.monotonic() > end:
            break
    return tallies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000, help="programs for each primitive")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--primitive", choices=sorted(PRIMITIVES), action="append")
    parser.add_argument("--machine", type=int, default=0, help="compile every so many programs too")
    given = parser.parse_args()
    tallies = run(given.primitive or list(PRIMITIVES), given.seed, given.count, given.minutes, given.machine)
    for name, tally in tallies.items():
        print(f"{name}: {tally}")
        for fault in tally.faults[:5]:
            print("   ", fault.splitlines()[0][:400])
    return 1 if any(tally.faults for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
