"""Instruments that environment variables request, for all passes of the process.

    HEDDLE_PRINT_AFTER=FuseOps,DeadCodeElimination heddle compile model.onnx -o model.heddle
    HEDDLE_DUMP=passes python program.py

The first prints the module to standard error after each run of the given passes, or of `all`; the second
writes it to a file after every pass. The disk caches are then bypassed, because cached programs run no
passes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from heddle.ir.instrument import DumpIR, PrintAfter
from heddle.ir.transform import WATCHERS
from heddle.support.settings import settings


def declare(find: Callable[[str], object]) -> None:
    """Put what the settings ask for into the table; `find` raises an error for what is no pass's name."""
    wanted = settings()
    for name in wanted.print_after:
        if name != "all":
            find(name)
    if wanted.print_after:
        WATCHERS.add("HEDDLE_PRINT_AFTER", PrintAfter(wanted.print_after, _show))
    if wanted.dump_dir is not None:
        WATCHERS.add("HEDDLE_DUMP", DumpIR(wanted.dump_dir))


def _show(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
