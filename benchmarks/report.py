"""Results as text, and the history file: a JSON line a run."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def machine_facts() -> dict[str, Any]:
    """What the figures depend on besides the programs."""
    model = platform.processor()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def record(results: list[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    return {"time": stamp, "machine": machine_facts(), "options": options, "results": results}


def append_history(path: Path, run: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(run) + "\n")


def lines_of(result: dict[str, Any]) -> list[str]:
    """One workload's lines: ours against the best peer, then each engine."""
    head = f"{result['workload']}  {where(result)}"
    if result["ratio"] is not None:
        head += f"  {result['ratio']:.2f} × {result['best_peer']}"
    if result["reduced_ratio"] is not None:
        head += f"  bf16 {result['reduced_ratio']:.2f} × {result['best_reduced_peer']}"
    if result["over_roofline"] is not None:
        head += f"  {result['over_roofline']:.2f} × roofline"
    if result.get("bandwidth") is not None:
        rate = result["bandwidth"] * result["memory_bytes"] / result["memory_ms"] / 1e6
        head += f"  {result['bandwidth']:.0%} of bandwidth ({rate:.0f} GB/s)"
    if result["compile_cold_s"]:
        head += f"  compile {result['compile_cold_s']:.1f} s cold, {result['compile_warm_s']:.1f} s warm"
    lines = [head]
    for figure in result["figures"]:
        name = f"  {figure['engine']:<14}"
        if figure["skipped"]:
            lines.append(f"{name} skipped: {figure['skipped']}")
            continue
        low, high = figure["quartiles_ms"]
        note = "  (reduced precision)" if figure["is_reduced"] else ""
        times = f"{figure['median_ms']:10.3f} ms  [{low:.3f}, {high:.3f}]"
        lines.append(f"{name} {times}  error {figure['error']:.0e}{note}")
    return lines


def where(result: dict[str, Any]) -> str:
    threads = result["threads"]
    return result["mode"] if threads is None else f"{result['mode']}, {threads} threads"
