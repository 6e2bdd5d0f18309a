"""The site's diagrams: rows of boxes with arrows between them, as SVG that follows the page's colours."""

from __future__ import annotations

import configparser
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_WIDE, _HIGH, _GAP, _ROW = 168, 44, 24, 86
_LETTER = 7.2


@dataclass(frozen=True, slots=True)
class Diagram:
    """Rows from top to bottom. A box is "name" or "name|small text"; arrows are (from, to, text) by names."""

    title: str
    rows: Sequence[Sequence[str]]
    arrows: Sequence[tuple[str, str, str]] = field(default_factory=tuple)


def house(root: Path) -> Diagram:
    """The order of rooms, from the contract that import-linter checks."""
    config = configparser.ConfigParser()
    config.read(root / ".importlinter")
    layers = config["importlinter:contract:rooms"]["layers"].split("\n")
    rows = [[room.strip() for room in layer.split("|")] for layer in layers if layer.strip()]
    boxes = [[room.strip("()") for room in row] for row in rows]
    boxes = [[room for room in row if (root / "src" / "heddle" / room).is_dir()] for row in boxes]
    return Diagram("A room imports only rooms below it", [row for row in boxes if row])


FIXED: Mapping[str, Diagram] = {
    "road": Diagram(
        "The road of a model",
        [
            ["model.onnx", "module of PyTorch", "script text"],
            ["IRModule|graph functions"],
            ["fused functions|loops of several operators"],
            ["scheduled loops|tiles, vectors, threads"],
            ["LLVM IR|or C", "bytecode|four instructions"],
            ["object code", "line table|places in the model"],
            ["model.heddle|one file"],
        ],
        [
            ("model.onnx", "IRModule", "import"),
            ("module of PyTorch", "IRModule", ""),
            ("script text", "IRModule", ""),
            ("IRModule", "fused functions", "legalise, fuse"),
            ("fused functions", "scheduled loops", "schedule"),
            ("scheduled loops", "LLVM IR", "lower"),
            ("LLVM IR", "object code", "LLVM"),
            ("scheduled loops", "bytecode", "calls of kernels"),
            ("object code", "model.heddle", ""),
            ("bytecode", "line table", ""),
            ("line table", "model.heddle", "save"),
        ],
    ),
    "machine": Diagram(
        "The Relax machine",
        [
            ["caller|numpy, torch, DLPack"],
            ["function|bytecode or machine code"],
            ["frame|registers, return address"],
            ["builtins|allocation, shapes, caches", "kernels|object code", "closures|other functions"],
            ["storages|planned memory", "constants|in the mapped file"],
        ],
        [
            ("caller", "function", "arguments, without copies"),
            ("function", "frame", "call"),
            ("frame", "builtins", ""),
            ("frame", "kernels", "invoke"),
            ("frame", "closures", ""),
            ("builtins", "storages", ""),
            ("kernels", "constants", "read"),
        ],
    ),
    "memory-plan": Diagram(
        "The plan of memory",
        [
            ["a = conv(x)", "b = relu(a)", "c = pool(b)", "d = conv(c)"],
            ["storage 0|a, then c", "storage 1|b, then d"],
            ["one allocation|kept for a set of sizes"],
        ],
        [
            ("a = conv(x)", "storage 0", ""),
            ("b = relu(a)", "storage 1", ""),
            ("c = pool(b)", "storage 0", "a is dead"),
            ("d = conv(c)", "storage 1", "b is dead"),
            ("storage 0", "one allocation", ""),
            ("storage 1", "one allocation", ""),
        ],
    ),
    "thread-pool": Diagram(
        "A parallel loop",
        [
            ["kernel|calls heddle_parallel_for"],
            ["pool|one job at a time"],
            ["caller|takes parts too", "worker 1", "worker 2"],
            ["join|the caller waits for the last part"],
        ],
        [
            ("kernel", "pool", "loop body, number of parts"),
            ("pool", "caller", ""),
            ("pool", "worker 1", "wakes"),
            ("pool", "worker 2", ""),
            ("caller", "join", ""),
            ("worker 1", "join", "counter of parts"),
            ("worker 2", "join", ""),
        ],
    ),
}


def svg(diagram: Diagram) -> str:
    """The picture. Its text is text, and a reader without a picture gets the title."""
    widest = max(len(row) for row in diagram.rows)
    width = widest * (_WIDE + _GAP) + _GAP
    height = len(diagram.rows) * _ROW + _GAP
    places = _places(diagram, width)
    parts = [_arrow(places[start], places[end], text) for start, end, text in diagram.arrows]
    parts += [_box(box, *places[box.partition("|")[0]]) for row in diagram.rows for box in row]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'style="max-width: {width}px; width: 100%" font-family="sans-serif" font-size="13">'
        f"<title>{html.escape(diagram.title)}</title>"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="currentColor"/></marker></defs>'
        f"{''.join(parts)}</svg>"
    )


def _places(diagram: Diagram, width: int) -> dict[str, tuple[float, float]]:
    """The middle of each box."""
    places = {}
    for number, row in enumerate(diagram.rows):
        left = (width - len(row) * (_WIDE + _GAP) + _GAP) / 2
        for column, box in enumerate(row):
            middle = left + column * (_WIDE + _GAP) + _WIDE / 2
            places[box.partition("|")[0]] = middle, number * _ROW + _GAP + _HIGH / 2
    return places


def _box(box: str, x: float, y: float) -> str:
    name, _, small = box.partition("|")
    assert len(name) * _LETTER < _WIDE, f"{name!r} is wider than a box"
    rows = [(name, 13, -4 if small else 5)] + ([(small, 10.5, 12)] if small else [])
    texts = "".join(
        f'<text x="{x:g}" y="{y + down:g}" font-size="{size}" text-anchor="middle" fill="currentColor">'
        f"{html.escape(text)}</text>"
        for text, size, down in rows
    )
    return (
        f'<rect x="{x - _WIDE / 2:g}" y="{y - _HIGH / 2:g}" width="{_WIDE}" height="{_HIGH}" rx="6" '
        f'fill="none" stroke="currentColor"/>{texts}'
    )


def _arrow(start: tuple[float, float], end: tuple[float, float], text: str) -> str:
    (x1, y1), (x2, y2) = start, end
    y1, y2 = y1 + _HIGH / 2, y2 - _HIGH / 2
    line = (
        f'<path d="M{x1:g},{y1:g} L{x2:g},{y2:g}" fill="none" stroke="currentColor" opacity="0.6" '
        'marker-end="url(#tip)"/>'
    )
    if not text:
        return line
    x, y = (x1 + x2) / 2, (y1 + y2) / 2 + 4
    return (
        f'{line}<text x="{x + 6:g}" y="{y:g}" font-size="10.5" fill="currentColor" opacity="0.8">'
        f"{html.escape(text)}</text>"
    )
