"""What this machine can do at most, measured: float32 arithmetic and memory traffic.

The probes are loop functions of our own, so that a kernel and its ceiling come from one code generator:
chains of `fma` that stay in registers, and a scaled copy over working sets of several sizes. The best of
several runs counts: a ceiling is what was reached once.

**Source**: Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heddle.runtime.native.library import native_library, set_num_threads
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.span import Source

_CHAINS, _STEPS, _ROW = 12, 20_000, 1024
_REPEATS, _LEAST_S = 7, 2e-3
_WORKING_SETS = (1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 27)
_PROBES = """
@I.ir_module
class Probes:
    @T.prim_func
    def arithmetic(
        a: T.Buffer(({lanes},), "float32"), y: T.Buffer(({threads}, {chains}, {lanes}), "float32")
    ):
        T.func_attr({{"global_symbol": "arithmetic", "tir.noalias": True}})
        for p in T.parallel({threads}):
            acc = T.alloc_buffer(({chains}, {lanes}), "float32")
            for i in T.unroll({chains}):
                for j in T.vectorized({lanes}):
                    acc[i, j] = T.float32(0)
            for k in T.serial({steps}):
                for i in T.unroll({chains}):
                    for j in T.vectorized({lanes}):
                        acc[i, j] = T.fma(acc[i, j], a[j], a[j])
            for i in T.unroll({chains}):
                for j in T.vectorized({lanes}):
                    y[p, i, j] = acc[i, j]

    @T.prim_func
    def traffic(x: T.handle, y: T.handle):
        T.func_attr({{"global_symbol": "traffic", "tir.noalias": True}})
        n = T.int64()
        A = T.match_buffer(x, (n, {row}), "float32")
        B = T.match_buffer(y, (n, {row}), "float32")
        for p in T.parallel(n):
            for j in T.vectorized({row}):
                B[p, j] = A[p, j] * T.float32(2)
"""


@dataclass(frozen=True, slots=True)
class Ceilings:
    """`traffic` holds pairs of a working set in bytes (read and written together) and GB/s."""

    num_threads: int
    gflops: float
    traffic: tuple[tuple[int, float], ...]

    def gbytes_per_s(self, size_bytes: int) -> float:
        """The bandwidth of the smallest measured working set that holds so many bytes."""
        return next((rate for size, rate in self.traffic if size >= size_bytes), self.traffic[-1][1])

    def least_s(self, flops: int | None, size_bytes: int | None) -> float:
        """The time that work takes at the roofline, in seconds."""
        arithmetic = (flops or 0) / (self.gflops * 1e9)
        moved = (size_bytes or 0) / (self.gbytes_per_s(size_bytes or 0) * 1e9)
        return max(arithmetic, moved)


def measure_ceilings(target: Any = None, num_threads: int | None = None) -> Ceilings:
    """Measure with so many threads, by default those in use; about a second."""
    from heddle.driver.compile import as_target, compile
    from heddle.script.parser import DEFAULT_NAMES, parse_source

    chosen = as_target(target)
    if num_threads is not None:
        set_num_threads(num_threads)
    threads = native_library().num_threads
    lanes = max(4, chosen.vector_width_bits // 32)
    text = _PROBES.format(lanes=lanes, threads=threads, chains=_CHAINS, steps=_STEPS, row=_ROW)
    kernels = compile(parse_source(Source("ceilings.py", text), DEFAULT_NAMES), target=chosen)
    factors = tensor(np.full(lanes, 0.5, np.float32))
    sums = tensor(np.zeros((threads, _CHAINS, lanes), np.float32))
    seconds = best_s(lambda: kernels["arithmetic"](factors, sums))
    gflops = 2.0 * threads * _CHAINS * lanes * _STEPS / seconds / 1e9
    return Ceilings(threads, gflops, tuple((size, _traffic(kernels, size)) for size in _WORKING_SETS))


def _traffic(kernels: Any, size_bytes: int) -> float:
    rows = size_bytes // (2 * 4 * _ROW)
    source, result = (_zeros((rows, _ROW)) for _ in range(2))
    return size_bytes / best_s(lambda: kernels["traffic"](source, result)) / 1e9


def _zeros(shape: tuple[int, ...]) -> Tensor:
    return tensor(np.zeros(shape, np.float32))


def best_s(call: Callable[[], Any], repeats: int = _REPEATS) -> float:
    """Seconds of one call: the least of several means over at least two milliseconds."""
    call()
    number, best = 1, float("inf")
    for _ in range(repeats):
        while True:
            start = time.perf_counter()
            for _ in range(number):
                call()
            elapsed = time.perf_counter() - start
            if elapsed >= _LEAST_S:
                break
            number *= 2
        best = min(best, elapsed / number)
    return best
