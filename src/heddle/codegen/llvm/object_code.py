"""LLVM IR text → object code: the one place where LLVM optimises and emits.

The file is also the program of worker processes (`heddle.codegen.llvm.workers`). It is run by its path and
imports nothing of Heddle, so that a worker starts in a tenth of a second.

A worker reads requests from its standard input and answers each on its standard output, until the input ends:

    request   u64 size of the head, u64 size of the text (little-endian), head (JSON of MachineOptions), text
    answer    u8 status (0: object code, 1: LLVM's message), u64 size, bytes

A worker that compiles does not see its input end, so a parent that was killed would leave it at work for as
long as its text takes. On Linux the kernel ends it with its parent, whose process id is its argument.
Elsewhere a thread reads the requests and ends the worker where they end, so who closes the input of a worker
has had its answers.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from typing import Any, BinaryIO

import llvmlite.binding as llvm

from heddle.support.frozen import frozen

REQUEST_HEAD = struct.Struct("<QQ")
ANSWER_HEAD = struct.Struct("<BQ")
DONE, REFUSED = 0, 1
AS_WRITTEN = "!heddle.as_written = !{}"
"""Metadata of modules that LLVM's passes leave alone. Those of straight calls, such as graph functions: the
passes take as long as the code generator there, and find nothing that one would notice. And those of so many
loops that the passes would take minutes (`unroll_budget`)."""
ONE_BY_ONE = "!heddle.one_by_one = !{}"
"""Metadata of modules whose schedule wants elements one by one where LLVM would put them into vectors."""

_PR_SET_PDEATHSIG = 1
_PIECE_BYTES = 1 << 20


@frozen
class MachineOptions:
    """What LLVM is told about the target. `opt_level`: 0 to 3, the effort of optimiser and code generator."""

    triple: str
    cpu: str
    features: str
    opt_level: int


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def target_machine(options: MachineOptions) -> Any:
    """A machine of one's own: LLVM's are not shared between threads."""
    _initialize()
    return llvm.Target.from_triple(options.triple).create_target_machine(
        cpu=options.cpu, features=options.features, opt=options.opt_level, reloc="pic", codemodel="small"
    )


@contextmanager
def optimized(text: str, machine: Any, opt_level: int) -> Iterator[Any]:
    """The module of a text after LLVM's passes, of which one that is `AS_WRITTEN` needs none.

    It ends with the block, whatever happens there: first what LLVM keeps of a module, then the module, then
    its context. In another order, such as a garbage collector's, LLVM reads memory that it has given back.

    Raises: RuntimeError for a text that LLVM rejects.
    """
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        module.verify()
        opt_level = 0 if f"\n{AS_WRITTEN}\n" in text else opt_level  # a line: messages may say the same
        tuning = llvm.create_pipeline_tuning_options(speed_level=opt_level)
        tuning.loop_vectorization = opt_level > 1
        tuning.slp_vectorization = opt_level > 1 and f"\n{ONE_BY_ONE}\n" not in text
        tuning.loop_unrolling = tuning.loop_interleaving = True
        with llvm.create_pass_builder(machine, tuning) as builder, builder.getModulePassManager() as passes:
            passes.run(module, builder)
        yield module


def object_code(text: str, options: MachineOptions) -> bytes:
    """Raises: RuntimeError for a text that LLVM rejects."""
    machine = target_machine(options)
    with optimized(text, machine, options.opt_level) as module:
        code: bytes = machine.emit_object(module)
    return code


def request_bytes(text: str, options: MachineOptions) -> bytes:
    """A request that `serve` reads: the lengths of the options as JSON and of the text, then both."""
    head, body = json.dumps(asdict(options)).encode(), text.encode()
    return REQUEST_HEAD.pack(len(head), len(body)) + head + body


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while True:
        sizes = requests.read(REQUEST_HEAD.size)
        if len(sizes) < REQUEST_HEAD.size:
            return
        head_size, text_size = REQUEST_HEAD.unpack(sizes)
        options = MachineOptions(**json.loads(requests.read(head_size)))
        text = requests.read(text_size)
        if len(text) < text_size:
            return
        try:
            status, content = DONE, object_code(text.decode(), options)
        except RuntimeError as error:
            status, content = REFUSED, str(error).encode()
        answers.write(ANSWER_HEAD.pack(status, len(content)) + content)
        answers.flush()


def _ends_with(parent: int) -> bool:
    """Have the kernel kill this process when the thread that started it ends. False where it does not, or
    where that thread may have ended before it was asked.
    """
    if sys.platform != "linux":
        return False
    try:
        asked = ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):  # a libc that cannot be loaded so, or has no prctl
        return False
    return asked == 0 and os.getppid() == parent


def _watched(requests: BinaryIO) -> BinaryIO:
    """The same requests by way of a thread, which ends this process where they end, even while LLVM works."""
    here, there = os.pipe()

    def forward() -> None:
        with os.fdopen(there, "wb") as copy:
            while data := requests.read1(_PIECE_BYTES):  # type: ignore[attr-defined]
                copy.write(data)
                copy.flush()
        os._exit(0)

    threading.Thread(target=forward, name="heddle-input", daemon=True).start()
    return os.fdopen(here, "rb")


def _work(parent: int) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not print into an answer
    requests = sys.stdin.buffer
    serve(requests if _ends_with(parent) else _watched(requests), answers)


if __name__ == "__main__":
    _work(int(sys.argv[1]))
