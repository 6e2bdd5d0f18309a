"""Reports on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from heddle.driver.explain import Explanation
from heddle.driver.run import RunReport, ValueSummary
from heddle.runtime.needs import listed
from heddle.runtime.variants import VariantInfo
from heddle.support.printable import printable, printable_lines

_SHOWN_WORKING_SETS = tuple(1 << power for power in (16, 18, 20, 22, 24, 27))
_ROW = "{:>5} {:>9} {:>6} {:>8} {:>7} {:>8}  {:<12} {}"
PHASES = ("import", "optimize", "legalize", "finalize", "machine code")


def _console(stderr: bool = False) -> Console:
    """A console for text as it is: words in brackets and colons are names, not markup."""
    return Console(stderr=stderr, soft_wrap=not stderr, markup=False, emoji=False, highlight=False)


def _say(console: Console, line: str, style: str | None = None) -> None:
    console.print(printable(line), style=style)


def show_text(text: str) -> None:
    """Print what a file says, or what was made of it."""
    typer.echo(printable_lines(text))


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[Any], None]]:
    """A bar on stderr that follows the phases of a compilation; nothing where stderr is no terminal."""
    console = _console(stderr=True)
    if not console.is_terminal:
        yield lambda _progress: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(title), total=len(PHASES), detail="")

        def follow(step: Any) -> None:
            reached = PHASES.index(step.phase) if step.phase in PHASES else 0
            part = step.done / step.total if step.total and step.phase == PHASES[-1] else 0.0
            count = f" {step.done}/{step.total}" if step.phase == PHASES[-1] else ""
            bar.update(
                task, completed=reached + part, detail=printable(f"{step.phase}{count}: {step.detail}")
            )

        yield follow


def show_report(report: RunReport) -> None:
    """Print what a run gave."""
    console = _console()
    precision = "" if report.precision == "fp32" else f", {report.precision}"
    variant = f" (variant {report.variant})" if report.variant else ""
    where = report.target or "this machine"
    _say(
        console,
        f"{report.model} on {where}{variant}, {report.num_threads} threads{precision}",
        style="bold",
    )
    for name in report.assumed_dims:
        _say(console, f"note: dimension {name!r} was not given; it is 1 (--dim {name}=VALUE)")
    console.print(_values("inputs", report.inputs))
    console.print(_values("outputs", report.outputs))
    phases = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in report.phases_s.items())
    kernels = ", ".join(f"{count} {what}" for what, count in report.kernels.items())
    lines = [
        (
            "compile time" if "load" not in report.phases_s else "load time",
            f"{report.compile_s:.2f} s ({phases})",
        )
    ]
    if kernels:
        lines.append(("kernels", kernels))
    if report.latency_ms:
        lines.append(
            (
                "latency",
                "median {median:.3f} ms (min {min:.3f}, max {max:.3f}; ".format(**report.latency_ms)
                + f"{report.repeat} calls)",
            )
        )
    bound = report.peak_bound_bytes
    at_most = "" if bound is None else f"; a call allocates at most {_size(bound)}"
    tensors = f"{_size(report.peak_tensor_bytes)} of tensors"
    lines.append(("peak memory", f"{_size(report.peak_memory_bytes)} ({tensors}{at_most})"))
    for name, text in lines:
        _say(console, f"{name:<13} {text}")
    if report.comparison is not None:
        _show_comparison(console, report.comparison)


def _show_comparison(console: Console, found: dict[str, Any]) -> None:
    if "refused" in found:
        _say(console, f"{found['engine']:<13} refused {found['refused']}", style="red")
        return
    verdict = "outputs agree" if found["agrees"] else "outputs differ"
    _say(console, f"{found['engine']:<13} {verdict}", style="green" if found["agrees"] else "red")
    for row in found["outputs"]:
        _say(console, f"  {row['name']}: {row.get('reason') or _errors(row)}")
    if found["latency_ms"]:
        ratio = "" if found["speedup"] is None else f"; heddle is {found['speedup']:.2f} times as fast"
        _say(console, f"  latency: median {found['latency_ms']['median']:.3f} ms{ratio}")


def _errors(row: dict[str, Any]) -> str:
    largest, mean = (_figure(row[f"{which}_relative_error"]) or "infinite" for which in ("max", "mean"))
    return (
        f"max error {row['max_abs_error']} at magnitude {row['max_magnitude']} "
        f"(relative to the scale: max {largest}, mean {mean})"
    )


def show_explanation(found: Explanation) -> None:
    """Print a table of kernels, why fusion ended with them, and what would help most."""
    console = _console()
    ceilings = found.ceilings
    copied = [(size, rate) for size, rate in ceilings.copying if size in _SHOWN_WORKING_SETS]
    traffic = ", ".join(f"{rate:.0f} in {size / 2**20:g} MiB" for size, rate in copied)
    dims = "".join(f", {name}={value}" for name, value in found.dims.items())
    _say(console, f"{found.model} {found.function}{dims}", style="bold")
    _say(
        console,
        f"ceilings of {ceilings.num_threads} threads: {ceilings.gflops:.0f} GFLOP/s; "
        f"GB/s of a copy: {traffic}",
    )
    _say(
        console,
        f"one call {found.call_us / 1e3:.3f} ms, its kernels by themselves {found.kernels_us / 1e3:.3f} ms",
    )
    _say(console, _ROW.format("calls", "µs each", "share", "GFLOP/s", "GB/s", "roofline", "rule", "kernel"))
    for row in found.rows:
        share = f"{row.total_us / max(found.kernels_us, 1e-9):.1%}"
        rates = [_figure_or_none(value) for value in (row.gflops, row.gbytes_per_s)]
        part = f"{row.roofline:.0%}" if row.least_us else ""
        kernel = " ".join([row.name, *("×".join(map(str, shape)) or "scalar" for shape in row.shapes)])
        figures = (str(row.count), f"{row.time_us:.1f}", share, *rates, part, row.rule)
        _say(console, _ROW.format(*figures, kernel))
    _say(console, "why not fused further", style="bold")
    for name, reasons in {row.name: row.boundaries for row in found.rows if row.boundaries}.items():
        _say(console, f"  {name}: {'; '.join(reasons)}")
    failed = {row.name: row.failed_rules for row in found.rows if row.failed_rules}
    if failed:
        _say(console, "schedule rules that failed and gave way", style="bold")
    for name, reasons in failed.items():
        _say(console, f"  {name}: {'; '.join(reasons)}")
    _say(console, "what would gain most, at most", style="bold")
    for item in found.advice:
        _say(console, f"  {item.gain_us:9.1f} µs  {item.text}")


def show_variants(rows: Sequence[VariantInfo]) -> None:
    """Print the variants of a file in the order in which a machine looks for one that it can run."""
    console = _console()
    for row in rows:
        verdict = (
            f"lacks {listed(row.missing)}" if row.missing else "taken here" if row.is_chosen else "runs here"
        )
        _say(console, f"{row.name}: {verdict}", style="bold")
        own = f"{_size(row.size_bytes)}, of which {_size(row.own_bytes)} are its own"
        _say(console, f"  target {row.target}; {own}")
        _say(console, f"  needs {row.needs.platform}: {', '.join(sorted(row.needs.features))}")


def _figure_or_none(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _values(title: str, rows: list[ValueSummary]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in ("name", "dtype", "shape", "mean", "std", "min", "max"):
        table.add_column(column)
    for row in rows:
        figures = [_figure(value) for value in (row.mean, row.std, row.min, row.max)]
        note = f" ({row.num_not_finite} not finite)" if row.num_not_finite else ""
        table.add_row(*map(printable, (row.name, row.dtype, str(row.shape) + note)), *figures)
    return table


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.1f} MiB"
