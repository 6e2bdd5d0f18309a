"""A run of a model for a page: the time line, memory on loan, and kernels against the roofline."""

from __future__ import annotations

from typing import Any

from heddle.driver.explain import Explanation, advice_of
from heddle.driver.page.facts import KernelPoint, Roofline, RunFacts, Span
from heddle.driver.page.tables import Tables
from heddle.runtime.profiling import Report
from heddle.support.span import TextSpan


def run_facts(tables: Tables, report: Report, dims: dict[str, int]) -> RunFacts:
    """A profile as a page shows it. `dims` are the values of free sizes in the run."""
    threads = ["virtual machine", *report.part_rows()]
    spans = [
        Span(
            event.name,
            0,
            event.start_ns / 1e3,
            event.duration_ns / 1e3,
            0,
            event.is_function,
            _set_of(tables, event.source),
        )
        for event in report.events
    ]
    spans += [
        Span(
            part.name,
            1 + part.thread,
            part.start_ns / 1e3,
            part.duration_ns / 1e3,
            0,
            False,
            _set_of(tables, part.source),
        )
        for part in report.parts
    ]
    return RunFacts(
        str(report.configuration.get("function", "")),
        dims,
        report.duration_ns / 1e3,
        report.dispatch_ns / 1e3,
        report.peak_bytes,
        report.num_dropped_events,
        report.num_dropped_parts,
        threads,
        nested(spans),
        [(at / 1e3, size) for at, size in report.bytes_in_use],
    )


def nested(spans: list[Span]) -> list[Span]:
    """The spans in order of time, those inside of others of their thread one deeper than these."""
    ends: dict[int, list[float]] = {}
    ordered = sorted(spans, key=lambda span: (span.start_us, -span.duration_us))
    for span in ordered:
        open_ends = ends.setdefault(span.thread, [])
        while open_ends and open_ends[-1] <= span.start_us:
            open_ends.pop()
        span.depth = len(open_ends)
        open_ends.append(span.start_us + span.duration_us)
    return ordered


def _set_of(tables: Tables, source: str | None) -> int:
    """The set of the places that a profile wrote into one text."""
    return tables.set(*(TextSpan(part) for part in (source or "").split("; ") if part))


def roofline_facts(explanation: Explanation) -> Roofline:
    """What `heddle explain` found, with an advice for each kernel."""
    ceilings = explanation.ceilings
    kernels = []
    for row in explanation.rows:
        advice: Any = advice_of(row)
        kernels.append(
            KernelPoint(
                row.name,
                [list(shape) for shape in row.shapes],
                row.count,
                row.time_us,
                row.flops,
                row.size_bytes,
                row.least_us,
                row.is_memory_bound,
                row.rule,
                list(row.operators),
                advice.text,
                max(advice.gain_us, 0.0),
            )
        )
    return Roofline(
        ceilings.gflops, list(ceilings.copying), kernels, [item.text for item in explanation.advice]
    )
