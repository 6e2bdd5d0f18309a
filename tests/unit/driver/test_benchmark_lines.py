"""What benchmarks say about memory: the part of the bandwidth, where memory is what bounds a workload."""

from __future__ import annotations

import pytest
from benchmarks.measure import OURS, Figure, Result
from benchmarks.report import lines_of


def result(roofline_ms: float, memory_ms: float, ours_ms: float = 2.0) -> Result:
    made = Result("softmax-far", "plain", 2, [Figure(OURS, median_ms=ours_ms)], roofline_ms=roofline_ms)
    made.memory_ms, made.memory_bytes = memory_ms, 60_000_000
    return made


def test_bandwidth_of_a_workload_that_memory_bounds() -> None:
    made = result(1.5, 1.5)
    assert made.bandwidth == pytest.approx(0.75)
    assert "1.33 × roofline  75% of bandwidth (30 GB/s)" in lines_of(made.as_dict())[0]


@pytest.mark.parametrize(("roofline_ms", "memory_ms"), [(0.0, 0.0), (1.5, 0.0), (1.5, 1.0)])
def test_no_bandwidth_where_arithmetic_bounds(roofline_ms: float, memory_ms: float) -> None:
    made = result(roofline_ms, memory_ms)
    assert made.bandwidth is None
    assert "bandwidth" not in lines_of(made.as_dict())[0]


def test_no_bandwidth_without_a_time_of_ours() -> None:
    made = result(1.5, 1.5)
    made.figures.clear()
    assert made.bandwidth is None
