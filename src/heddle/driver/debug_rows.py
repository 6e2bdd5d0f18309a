"""What the panes of the debugger's page hold (`heddle.driver.debug_view`), as rows of text."""

from __future__ import annotations

import re
from pathlib import Path

from heddle.vm.insight.debugger import Debugger
from heddle.vm.insight.summary import Memory, Summary

Row = tuple[str, ...]
LINES_AROUND = 4
_IN_FILE = re.compile(r"(?P<file>.+):(?P<line>\d+):\d+\Z", re.DOTALL)
_MAX_SOURCE_BYTES = 1 << 20


def source_lines(debugger: Debugger) -> list[str]:
    """Where the instruction that comes next is from: nodes of a model, or lines around a place in a text."""
    site = debugger.next_site
    if site is None:
        return []
    shown: list[str] = []
    for place in site.sources:
        shown.append(place)
        shown += _lines_at(place)
    return shown


def _lines_at(place: str) -> list[str]:
    """The lines of a file around a place in it; none where there is no such file."""
    found = _IN_FILE.match(place)
    if found is None:
        return []
    path = Path(found["file"])
    try:
        if not path.is_file() or path.stat().st_size > _MAX_SOURCE_BYTES:
            return []
        lines, number = path.read_text().splitlines(), int(found["line"])
    except (OSError, UnicodeDecodeError, ValueError):
        return []
    first, last = max(1, number - LINES_AROUND), min(len(lines), number + LINES_AROUND)
    return [f"{'>' if n == number else ' '} {n:4} | {lines[n - 1]}" for n in range(first, last + 1)]


def code_rows(debugger: Debugger) -> tuple[list[Row], int | None]:
    """The instructions of the function that is running: a mark, the place, the text; and the row that comes
    next. `>` marks it, `*` a breakpoint."""
    site = debugger.next_site
    function = site.function if site is not None else debugger.recording.function
    stops = {point.text for point in debugger.breakpoints.values()}
    rows: list[Row] = []
    here = None
    for number, each in enumerate(debugger.sites.of(function)):
        is_next = site is not None and each.place == site.place
        here = number if is_next else here
        mark = ("*" if each.place in stops else "") + (">" if is_next else "")
        rows.append((mark, each.place, each.text))
    return rows, here


def register_rows(debugger: Debugger) -> list[Row]:
    """The registers of the innermost call: a mark, the name, the value. `=` marks what the last step
    wrote."""
    if not debugger.stack():
        return []
    last, frame = debugger.last_step, debugger.frame()
    written = {write.register for write in last.writes if write.frame == frame.number} if last else set()
    return [
        ("=" if number in written else "", f"%{number}", str(summary))
        for number, summary in debugger.registers().items()
        if summary.kind != "none"
    ]


def memory_rows(debugger: Debugger) -> tuple[list[Row], int]:
    """Stretches of memory that registers of all calls hold, the largest first: bytes, who holds it, the first
    address; and how many bytes they are together, shared ones once."""
    held: dict[Memory, list[str]] = {}
    for level, frame in enumerate(debugger.stack()):
        for number, summary in sorted(frame.registers.items()):
            for memory in summary.memory:
                held.setdefault(memory, []).append(_holder(level, frame.function, number, summary))
    rows: list[Row] = [
        (f"{end - first:,}", ", ".join(holders), f"{first:#x}")
        for (first, end), holders in sorted(held.items(), key=lambda item: item[0][0] - item[0][1])
    ]
    return rows, _union_bytes(list(held))


def _holder(level: int, function: str, number: int, summary: Summary) -> str:
    name = f"%{number} of {function}" if level else f"%{number}"
    return f"{name} ({summary.kind})"


def _union_bytes(stretches: list[Memory]) -> int:
    """The bytes of stretches that may overlap."""
    ordered = sorted(stretches)
    total, end = 0, 0
    for first, last in ordered:
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total
