"""`python -m benchmarks.index_checks [PATTERN ...] [--zoo]`: what checks of indices cost.

Each model is compiled as it is and with all checks of indices left out. Where no kernel has a check, because
there is no index or because `ProveIndices` proved it, the two are the same code and nothing is timed; else
calls are timed in turn, on one thread, and the ratio of the least times of the processor is told.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import heddle
from benchmarks.measure import least_in_turn
from benchmarks.workloads import WORKLOADS
from benchmarks.zoo.catalogue import chosen as chosen_networks
from heddle.driver.pipeline import default_pipeline
from heddle.driver.sources import module_of
from heddle.driver.targets import as_target
from heddle.ir.module import IRModule
from heddle.ir.transform import Pass, PassContext, Sequential
from heddle.ir.visitor import Rewriter, walk_distinct
from heddle.lower.prove_indices import ProveIndices
from heddle.ops.load import load as load_operators
from heddle.prim.checked_index import is_index_check
from heddle.runtime.native.library import set_num_threads
from heddle.tir.nodes import Buffer, PrimFunc

Calls = list[list[Any]]
_MOST_REQUESTS = 4
"""A round of a hundred requests of other lengths takes minutes, and is repeated."""


@dataclass(frozen=True)
class BelieveIndices(Pass):
    """Indices are taken as they are, whatever they are: for this comparison alone."""

    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        table = {
            var: func.with_body(_Believer().visit(func.body)) if isinstance(func, PrimFunc) else func
            for var, func in mod.functions.items()
        }
        return mod.with_functions(table)


class _Believer(Rewriter):
    def visit_Buffer(self, node: Buffer) -> Buffer:
        return node

    def visit_Call(self, node: Any) -> Any:
        made = self.default(node)
        return made.args[0] if is_index_check(made) else made


@dataclass(frozen=True)
class CountChecks(Pass):
    """Counts the checks that are left, by loop function."""

    found: list[str]
    dialects: ClassVar[tuple[str, ...] | None] = ("tir",)

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        for var, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                count = sum(map(is_index_check, walk_distinct(func.body)))
                self.found.extend([var.name_hint] * count)
        return mod


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.index_checks")
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--zoo", action="store_true", help="the networks of the zoo too")
    options = parser.parse_args()
    set_num_threads(1)
    load_operators()
    ratios = []
    for name, mod, calls in _models(options.patterns, options.zoo):
        ratio = _ratio(name, mod, calls)
        if ratio is not None:
            ratios.append(ratio)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{len(ratios)} models with checks: geometric mean {mean:.3f}, most {max(ratios):.3f}")


def _models(patterns: list[str], zoo: bool) -> Iterator[tuple[str, IRModule, Calls]]:
    for workload in WORKLOADS.values():
        if _is_wanted(workload.name, patterns):
            yield workload.name, module_of(str(workload.path())), workload.requests()[:_MOST_REQUESTS]
    for network in chosen_networks([], "all") if zoo else ():
        if _is_wanted(network.name, patterns):
            yield f"zoo/{network.name}", module_of(str(network.path())), [network.arrays(network.sizes[0])]


def _is_wanted(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _ratio(name: str, mod: IRModule, calls: Calls) -> float | None:
    target = as_target()
    passes = list(default_pipeline(target).passes)
    at = next(k for k, step in enumerate(passes) if isinstance(step, ProveIndices)) + 1
    found: list[str] = []
    checked = Sequential([*passes[:at], CountChecks(found), *passes[at:]], "checked")
    made = heddle.compile(mod, target, relax_pipeline=checked)
    if not found:
        print(f"{name}: no check is left", flush=True)
        return None
    believed = Sequential([*passes[:at], BelieveIndices(), *passes[at:]], "believed")
    bare = heddle.compile(mod, target, relax_pipeline=believed)
    with_checks, without = least_in_turn(_caller(made, calls), _caller(bare, calls), clock=time.process_time)
    ratio = with_checks / without
    print(
        f"{name}: {len(found)} checks in {', '.join(sorted(set(found)))}: {1e6 * with_checks:.1f} us with, "
        f"{1e6 * without:.1f} us without, {ratio:.3f}",
        flush=True,
    )
    return ratio


def _caller(made: Any, calls: Calls) -> Callable[[], None]:
    main_function = heddle.relax.VirtualMachine(made, heddle.cpu())["main"]
    tensors = [[heddle.tensor(array) for array in call] for call in calls]

    def run() -> None:
        for args in tensors:
            main_function(*args)

    return run


if __name__ == "__main__":
    main()
