"""Each operator of ONNX's default domain against ONNX Runtime, at two sizes, with free and fixed dimensions.

    python -m benchmarks.onnx_ops                              # all rows: about half an hour
    python -m benchmarks.onnx_ops Softmax TopK --threads 2 --json operators.json

Columns: for each size microseconds with free dimensions, with fixed ones, ONNX Runtime's with free ones; then
our time over ONNX Runtime's, free over free and fixed over fixed. Both sides take turns in one process, and
the fixed cost of a call counts for both.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import OURS
from benchmarks.onnx_ops.catalogue import WITHOUT_ROW, chosen
from benchmarks.onnx_ops.child import FORMS, PEER

ROWS_OF_A_PROCESS = 16
LIMIT = 1.5
"""A ratio above it is listed."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.onnx_ops",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="rows (see --list) or operators")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=5, help="turns of each side")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all figures")
    parser.add_argument("--list", action="store_true", help="list the rows, and the operators without one")
    options = parser.parse_args()
    names = [case.name for case in chosen(options.names)]
    if options.list:
        print("\n".join(names))
        print("\n".join(f"{name}: {why}" for name, why in WITHOUT_ROW.items()))
        return
    if not names:
        parser.error(f"no row is named {', '.join(options.names)}: see --list")
    rows = []
    for row in _rows(names, options):
        rows.append(row)
        print(line_of(row), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    print("\n".join(summary(rows)))


def _rows(names: list[str], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows in processes of some rows each. Where one dies, its row says so and the next goes on after it."""
    while names:
        part = names[:ROWS_OF_A_PROCESS]
        command = [sys.executable, "-m", "benchmarks.onnx_ops.child", *part]
        command += ["--threads", str(options.threads), "--repeat", str(options.repeat)]
        done = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                done += 1
                yield json.loads(line)
        if done < len(part):
            yield {"name": part[done], "sizes": {}, "failed": f"ended with status {child.returncode}"}
            done += 1
        names = names[done:]


def line_of(row: dict[str, Any]) -> str:
    parts = [f"{row['name']:32}"]
    for size in row["sizes"].values():
        ms = [size["ms"][key] * 1e3 for key in (f"{OURS}, free", f"{OURS}, fixed", f"{PEER}, free")]
        ratios = "".join(f" {size[f'{form}_ratio']:6.2f}" for form in FORMS)
        wrong = "" if size["is_right"] else f" WRONG {size['error']:.0e}"
        parts.append("".join(f"{value:10.1f}" for value in ms) + ratios + wrong)
    return " | ".join(parts + ([row["failed"]] if "failed" in row else []))


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """How many rows failed, the geometric means, and the ratios over the limit, worst first."""
    ratios = [
        (size[f"{form}_ratio"], f"{row['name']}, {name}, {form}")
        for row in rows
        for name, size in row["sizes"].items()
        for form in FORMS
    ]
    lines = [f"{len(rows)} rows, {sum('failed' in row for row in rows)} failed"]
    wrong = [row["name"] for row in rows if not all(size["is_right"] for size in row["sizes"].values())]
    lines += [f"outputs differ: {', '.join(wrong)}"] if wrong else []
    for form in FORMS:
        of_form = [ratio for ratio, what in ratios if what.endswith(form)]
        if of_form:
            mean = math.exp(sum(map(math.log, of_form)) / len(of_form))
            lines.append(
                f"{form}: geometric mean {mean:.2f}, over {LIMIT}: {sum(r > LIMIT for r in of_form)}"
            )
    lines += [f"{ratio:8.2f}  {what}" for ratio, what in sorted(ratios, reverse=True) if ratio > LIMIT]
    return lines


if __name__ == "__main__":
    main()
