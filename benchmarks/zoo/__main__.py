"""`python -m benchmarks.zoo`: the networks of one half, each in a process of its own, a line each.

Columns: cold compile with free sizes, then for each size milliseconds with free sizes, the same over a
compile for that size, and over the best peer. `--json FILE` keeps all figures.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.zoo.catalogue import chosen

LIMIT_S = 900


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--half", choices=("tuned", "validation", "all"), default="tuned")
    parser.add_argument("--peers", default="onnxruntime,openvino-f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--fixed", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true", help="names, kinds and halves")
    options = parser.parse_args()
    networks = chosen(options.names, options.half)
    if options.list:
        for network in networks:
            print(f"{network.name:24} {network.kind:18} {network.half}")
        return
    found = []
    for network in networks:
        row = _measured(network.name, options)
        found.append(row)
        print(_line(row), flush=True)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))
    print(_summary(found))


def _measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.zoo.child", name, "--peers", options.peers]
    command += ["--threads", str(options.threads), "--repeat", str(options.repeat)]
    command += [] if options.fixed else ["--no-fixed"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"name": name, "failed": f"no end within {LIMIT_S} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"name": name, "failed": (done.stderr.strip().splitlines() or ["no output"])[-1][:300]}
    row: dict[str, Any] = json.loads(lines[-1])
    return row


def _line(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['name']:20} {row['failed']}"
    parts = [f"{row['name']:20} {row['cold_s']:5.1f} s"]
    for size in row["sizes"]:
        fixed = f"{size['free_over_fixed']:.2f}" if size.get("free_over_fixed") else "-"
        peer = f"{size['over_peer']:.2f}" if size.get("over_peer") else "-"
        wrong = "" if size["error"] <= row["tolerance"] else f" WRONG {size['error']:.1e}"
        parts.append(f"{size['ms']:9.3f} ms {fixed:>5} {peer:>5}{wrong}")
    notes = "".join(f"  {peer}: {why}" for peer, why in row["peers_failed"].items())
    return " |".join(parts) + notes


def _summary(rows: list[dict[str, Any]]) -> str:
    sizes = [size for row in rows for size in row.get("sizes", ())]
    parts = [f"{len(rows)} networks, {sum('failed' in row for row in rows)} failed"]
    for key, title in (("free_over_fixed", "free / fixed"), ("over_peer", "over best peer")):
        ratios = [size[key] for size in sizes if size.get(key)]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            parts.append(f"{title}: geometric mean {mean:.2f}, worst {max(ratios):.2f}")
    return "; ".join(parts)


if __name__ == "__main__":
    main()
