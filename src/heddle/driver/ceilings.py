"""Measure the machine's peak rates: float32 arithmetic and memory traffic.

The probes are compiled loop functions, so kernels and ceilings come from the same code generator: chains of
`fma` in registers, and loops that copy, read or fill working sets from 64 KiB to 128 MiB. Each thread repeats
its own part within one call, so the cost of the call and of waking threads does not count, and cached data
stays cached. Rates count the bytes that the program requests. (Caches also fetch lines before they are
overwritten, which lowers the rates of copies and fills.) The best of several runs counts.

**Source**: Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from heddle.runtime.native.library import native_library, set_num_threads
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.frozen import frozen
from heddle.support.span import Source
from heddle.target import Target

_CHAINS, _STEPS, _ROW, _SUMS = 12, 20_000, 1024, 128
_REPEATS, _LEAST_S = 7, 2e-3
_WORKING_SETS = tuple(1 << power for power in range(16, 28))
_BYTES_A_CALL = 1 << 23
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
    def copying(x: T.handle, y: T.handle, rounds: T.int64):
        T.func_attr({{"global_symbol": "copying", "tir.noalias": True}})
        n = T.int64()
        A = T.match_buffer(x, (n, {row}), "float32")
        B = T.match_buffer(y, (n, {row}), "float32")
        for p in T.parallel({threads}):
            for k in T.serial(rounds):
                for i in T.serial(n * (p + 1) // {threads} - n * p // {threads}):
                    for j in T.vectorized({row}):
                        B[n * p // {threads} + i, j] = A[n * p // {threads} + i, j] * T.float32(2)

    @T.prim_func
    def reading(x: T.handle, y: T.Buffer(({threads}, {sums}), "float32"), rounds: T.int64):
        T.func_attr({{"global_symbol": "reading", "tir.noalias": True}})
        n = T.int64()
        A = T.match_buffer(x, (n, {row}), "float32")
        for p in T.parallel({threads}):
            acc = T.alloc_buffer(({sums},), "float32")
            for j in T.vectorized({sums}):
                acc[j] = T.float32(0)
            for k in T.serial(rounds):
                for i in T.serial(n * (p + 1) // {threads} - n * p // {threads}):
                    for c in T.unroll({row} // {sums}):
                        for j in T.vectorized({sums}):
                            acc[j] = acc[j] + A[n * p // {threads} + i, c * {sums} + j]
            for j in T.vectorized({sums}):
                y[p, j] = acc[j]

    @T.prim_func
    def filling(x: T.Buffer((1,), "float32"), y: T.handle, rounds: T.int64):
        T.func_attr({{"global_symbol": "filling", "tir.noalias": True}})
        n = T.int64()
        B = T.match_buffer(y, (n, {row}), "float32")
        for p in T.parallel({threads}):
            for k in T.serial(rounds):
                for i in T.serial(n * (p + 1) // {threads} - n * p // {threads}):
                    for j in T.vectorized({row}):
                        B[n * p // {threads} + i, j] = x[0] + T.Cast("float32", k)
"""
Rates = tuple[tuple[int, float], ...]
"""Pairs of a working set in bytes and GB/s, the smallest set first."""


@frozen
class Ceilings:
    """Peak rates. `copying` is for traffic that is half reads and half writes, `reading` and `filling` for
    pure reads and pure writes; without these two, all traffic counts as copies."""

    num_threads: int
    gflops: float
    copying: Rates
    reading: Rates = ()
    filling: Rates = ()

    def memory_s(self, size_bytes: int, written_bytes: int | None = None) -> float:
        """Return the minimum time in seconds to move `size_bytes`, of which `written_bytes` are written
        (default: half). The rates are those of a working set of that size."""
        written = size_bytes / 2 if written_bytes is None else min(written_bytes, size_bytes)
        read = size_bytes - written
        copied = 2 * min(read, written)
        parts = (
            (copied, self.copying),
            (read - copied / 2, self.reading or self.copying),
            (written - copied / 2, self.filling or self.copying),
        )
        return sum(part / (rate_at(rates, size_bytes) * 1e9) for part, rates in parts)

    def arithmetic_s(self, flops: int) -> float:
        """Return the minimum time in seconds for so many operations, without memory stalls."""
        return flops / (self.gflops * 1e9)

    def least_s(self, flops: int | None, size_bytes: int | None, written_bytes: int | None = None) -> float:
        """Return the minimum time in seconds by the roofline model."""
        return max(self.arithmetic_s(flops or 0), self.memory_s(size_bytes or 0, written_bytes))


def rate_at(rates: Rates, size_bytes: int) -> float:
    """Return the rate for a working set, interpolated by the logarithm of the size; outside the measured
    range, the nearest rate."""
    known = [math.log2(size) for size, _ in rates]
    return float(np.interp(math.log2(max(size_bytes, 1)), known, [rate for _, rate in rates]))


def measure_ceilings(target: Any = None, num_threads: int | None = None) -> Ceilings:
    """Measure the peak rates with so many threads (default: those in use). This takes one or two seconds.

    The probes run on this machine; by default they are compiled for it, whatever the current target is.
    """
    from heddle.driver.targets import as_target  # ceilings that are kept are read without the compiler

    chosen = as_target("llvm" if target is None else target)
    if num_threads is not None:
        set_num_threads(num_threads)
    threads = native_library().num_threads
    lanes = _lanes(chosen)
    kernels = compile_probes(chosen, threads)
    factors = tensor(np.full(lanes, 0.5, np.float32))
    sums = tensor(np.zeros((threads, _CHAINS, lanes), np.float32))
    seconds = best_s(lambda: kernels["arithmetic"](factors, sums))
    gflops = 2.0 * threads * _CHAINS * lanes * _STEPS / seconds / 1e9
    return Ceilings(threads, gflops, *_traffic(kernels, threads))


def compile_probes(target: Target, threads: int) -> Any:
    """The kernels `arithmetic`, `copying`, `reading` and `filling` for so many threads."""
    from heddle.driver.compile import compile  # ceilings that are kept are read without the compiler
    from heddle.script.parser import DEFAULT_NAMES, parse_source

    text = _PROBES.format(
        lanes=_lanes(target), threads=threads, chains=_CHAINS, steps=_STEPS, row=_ROW, sums=_SUMS
    )
    return compile(parse_source(Source("ceilings.py", text), DEFAULT_NAMES), target=target)


def _lanes(target: Target) -> int:
    return max(4, target.vector_width_bits // 32)


def _traffic(kernels: Any, threads: int) -> tuple[Rates, Rates, Rates]:
    """The rates of copies, reads and fills of all working sets."""
    sums, seed = _zeros((threads, _SUMS)), _zeros((1,))
    found: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for size in _WORKING_SETS:
        rows = size // (4 * _ROW)
        whole, source, result = _zeros((rows, _ROW)), _zeros((rows // 2, _ROW)), _zeros((rows // 2, _ROW))
        pairs = (("copying", (source, result)), ("reading", (whole, sums)), ("filling", (seed, whole)))
        for rates, (name, operands) in zip(found, pairs, strict=True):
            rates.append((size, _rate(kernels[name], operands, size)))
    copying, reading, filling = map(tuple, found)
    return copying, reading, filling


def _rate(kernel: Any, operands: tuple[Tensor, Tensor], size_bytes: int) -> float:
    rounds = max(1, _BYTES_A_CALL // size_bytes)
    return rounds * size_bytes / best_s(lambda: kernel(*operands, rounds)) / 1e9


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
