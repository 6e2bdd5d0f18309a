"""The process that compiles: `python -m heddle.driver.jit.worker FOLDER`.

It reads requests from its input, a line each, until the other end closes, and answers each with a line. It
takes the processor when nobody else wants it.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from heddle.driver.jit.compilers import full_program
from heddle.driver.jit.request import Request, places_of, read_program, write_executable
from heddle.ir.transform import PassContext
from heddle.support.limits import limits

NICENESS = 10
PARENT_S = 2.0
"""How often it is looked whether the program is still there."""
CAN_WAIT = os.name == "posix"


def main() -> None:
    """Answer requests until there are no more."""
    folder = Path(sys.argv[1])
    replies = os.dup(1)
    os.dup2(2, 1)  # whatever else is printed is no reply
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the program's that the user interrupts
    with suppress(OSError):
        os.nice(NICENESS)
    setup, graph = read_program(folder)
    places: dict[bytes, str] = {}
    with PassContext(**setup.passes), limits(**setup.limits):
        for line in requests():
            request = Request(**json.loads(line))
            start = time.perf_counter()
            reply: dict[str, Any] = {"number": request.number}
            try:
                made = full_program(graph, setup, request.function, request.sizes)
                write_executable(folder / request.file_name, made, places)
                if not request.sizes:
                    places = places_of(made)
            except Exception as error:  # told to the program, whose code stays
                reply["error"] = f"{type(error).__name__}: {error}"[:2000]
            reply["compile_s"] = time.perf_counter() - start
            try:
                os.write(replies, (json.dumps(reply) + "\n").encode())
            except BrokenPipeError:
                break
    shutil.rmtree(folder, ignore_errors=True)  # a program that was killed cannot


def requests() -> Iterator[str]:
    """Lines, until the other end closes, or its process is gone: its forked children have that end too."""
    parent = os.getppid()
    while os.getppid() == parent:
        if not CAN_WAIT or select.select([0], [], [], PARENT_S)[0]:
            line = sys.stdin.readline()  # there is one request at a time
            if not line:
                return
            yield line


if __name__ == "__main__":
    main()
