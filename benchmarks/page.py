"""A run as one HTML file that needs nothing else: ratios to the best peer and to the roofline, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import Any

from benchmarks.report import lines_of, where

_WIDTH, _LEFT, _RIGHT, _ROW, _BAR = 920, 190, 90, 22, 12
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 960px; margin: 2em auto; padding: 0 1em;
       color: #1c2430; background: #fdfdfb; }
h1, h2 { font-weight: 600; } pre { font-size: 12.5px; overflow-x: auto; background: #f3f4f0; padding: 1em; }
svg text { font: 12px system-ui, sans-serif; fill: #1c2430; } .grid { stroke: #d8dad2; }
.one { stroke: #1c2430; stroke-dasharray: 4 3; } .fast { fill: #2f7d5b; } .slow { fill: #b4552d; }
.roof { fill: #4a6a8f; } .range { stroke: #1c2430; }
@media (prefers-color-scheme: dark) {
  body { background: #15181c; color: #e4e6e1; } pre { background: #1f2429; }
  svg text { fill: #e4e6e1; } .grid { stroke: #333a41; } .one, .range { stroke: #e4e6e1; } }
"""


def page(run: dict[str, Any]) -> str:
    """The page of one run (see `report.record`)."""
    machine = run["machine"]
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>Heddle against its peers</title><style>{_STYLE}</style>",
        "<h1>Heddle against its peers</h1>",
        f"<p>{escape(machine['cpu'])}, {machine['cores']} cores, Python {machine['python']}; {run['time']}. "
        "Medians of times taken in turn, outputs compared first. Ratios are our time over the other's: "
        "below 1 Heddle is faster. Thin lines span the quartiles.</p>",
    ]
    groups: dict[str, list[dict[str, Any]]] = {}
    for result in run["results"]:
        groups.setdefault(where(result), []).append(result)
    for title, results in groups.items():
        parts.append(f"<h2>{escape(title)}</h2><h3>Ratio to the best peer</h3>")
        parts.append(_chart(results, lambda result: result["ratio"], _quartile_ratio, _versus))
        parts.append("<h3>Ratio to the roofline of our kernels</h3>")
        parts.append(
            _chart(results, lambda result: result["over_roofline"], lambda _: None, lambda _: "roof")
        )
        text = "\n".join(line for result in results for line in lines_of(result))
        parts.append(f"<details><summary>All figures</summary><pre>{escape(text)}</pre></details>")
    return "\n".join([*parts, "</html>"])


def _versus(result: dict[str, Any]) -> str:
    return "fast" if result["ratio"] <= 1 else "slow"


def _quartile_ratio(result: dict[str, Any]) -> tuple[float, float] | None:
    figures = {figure["engine"]: figure for figure in result["figures"]}
    best, ours = figures[result["best_peer"]]["median_ms"], figures["heddle"]["quartiles_ms"]
    return ours[0] / best, ours[1] / best


def _chart(
    results: list[dict[str, Any]],
    value: Callable[[dict[str, Any]], float | None],
    spread: Callable[[dict[str, Any]], tuple[float, float] | None],
    kind: Callable[[dict[str, Any]], str],
) -> str:
    """Bars from 1 on a logarithmic axis."""
    rows = [(result, found) for result in results if (found := value(result)) is not None]
    if not rows:
        return "<p>Nothing to compare with.</p>"
    low = min(0.5, *(found for _, found in rows))
    high = max(2.0, *(found for _, found in rows))
    bottom, top = math.floor(math.log2(low)), math.ceil(math.log2(high))
    scale = (_WIDTH - _LEFT - _RIGHT) / (top - bottom)

    def at(ratio: float) -> float:
        return _LEFT + (min(max(math.log2(ratio), bottom), top) - bottom) * scale

    height = len(rows) * _ROW + 26
    parts = [f"<svg viewBox='0 0 {_WIDTH} {height}' role='img' aria-label='ratios'>"]
    for power in range(bottom, top + 1):
        x = at(2.0**power)
        line = "one" if power == 0 else "grid"
        parts.append(f"<line class='{line}' x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{height - 22}'/>")
        parts.append(f"<text x='{x:.1f}' y='{height - 6}' text-anchor='middle'>{2.0**power:g}</text>")
    for index, (result, found) in enumerate(rows):
        y = index * _ROW + (_ROW - _BAR) / 2
        start, end = sorted((at(1.0), at(found)))
        parts.append(
            f"<text x='{_LEFT - 8}' y='{y + 10}' text-anchor='end'>{escape(result['workload'])}</text>"
        )
        parts.append(
            f"<rect class='{kind(result)}' x='{start:.1f}' y='{y}' width='{max(end - start, 1):.1f}' "
            f"height='{_BAR}'/><text x='{end + 6:.1f}' y='{y + 10}'>{found:.2f}</text>"
        )
        quartiles = spread(result)
        if quartiles is not None:
            a, b = at(quartiles[0]), at(quartiles[1])
            middle = y + _BAR / 2
            parts.append(f"<line class='range' x1='{a:.1f}' x2='{b:.1f}' y1='{middle}' y2='{middle}'/>")
    return "\n".join([*parts, "</svg>"])
