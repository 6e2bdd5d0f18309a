"""What every command runs under: a failure becomes a message and an exit code.

| code | meaning |
|---|---|
| 0 | done |
| 1 | the model, an input or a file is at fault; the message names the place |
| 2 | the command line is malformed |
| 3 | `--compare`: the outputs differ, or the other engine refused the model or its inputs |
| 70 | a fault of Heddle |
| 130 | interrupted |
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from enum import IntEnum

from heddle.driver.cli.interrupt import INTERRUPTED, interrupted
from heddle.driver.codes import D0501
from heddle.support.codes import S0101, S0701, S0703
from heddle.support.diagnostics import Diagnostic, HeddleError, InternalError
from heddle.support.limits import limits, parse_limits
from heddle.support.printable import printable_lines
from heddle.support.settings import traceback_wanted

_LITTLE_BYTES = 64 << 20
"""Where there is no room for so much, Python itself fails in ways that no error of memory tells."""


class ExitCode(IntEnum):
    """What the program's exit status says."""

    DONE = 0
    BAD_INPUT = 1
    USAGE = 2
    OUTPUTS_DIFFER = 3
    INTERNAL = 70
    INTERRUPTED = INTERRUPTED


def guarded(command: Callable[[], int], changed_limits: Sequence[str] | None = None) -> int:
    """Run `command` under limits (`NAME=VALUE`); what it raises is reported on stderr and becomes an exit
    code."""
    try:
        with limits(**parse_limits(changed_limits or ())):
            code = command()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return interrupted()
    except BrokenPipeError:
        _drop_output()  # its reader has gone
        return ExitCode.BAD_INPUT
    except MemoryError as error:
        report(Diagnostic(S0701, f"there is no memory: {error or 'the system gave none'}").render())
        return ExitCode.BAD_INPUT
    except HeddleError as error:
        report(error.render(), getattr(error, "__notes__", ()))
        return ExitCode.INTERNAL if isinstance(error, InternalError) else ExitCode.BAD_INPUT
    except ImportError as error:
        return _report_import(error)
    except OSError as error:
        report(Diagnostic(S0101, f"{error.filename or 'output'}: {error.strerror or error}").render())
        _drop_output()
        return ExitCode.BAD_INPUT
    except Exception as error:  # the last place where a bug can become a report that names it
        if _is_of_memory(error):
            report(Diagnostic(S0701, f"there is no memory: {error or type(error).__name__}").render())
            return ExitCode.BAD_INPUT
        help = "this is a fault of Heddle; HEDDLE_TRACEBACK=1 shows where"
        report(Diagnostic(D0501, f"{type(error).__name__}: {error}", help=help).render())
        return ExitCode.INTERNAL


def _is_of_memory(error: Exception) -> bool:
    """Whether an exception stands for a MemoryError: Python has no lock or thread to give, `ctypes` met one
    while it took arguments, or there is hardly any memory: then Python's own compiler raises ValueError,
    and functions in C fail without a word (SystemError)."""
    text = str(error)
    if isinstance(error, RuntimeError) and text in ("can't allocate lock", "can't start new thread"):
        return True
    if isinstance(error, ctypes.ArgumentError) and ": MemoryError" in text:
        return True
    try:
        mmap.mmap(-1, _LITTLE_BYTES).close()
    except (OSError, MemoryError):
        return True
    return False


def _report_import(error: ImportError) -> int:
    """A library that another package needs and that the system does not load; or a module of ours that is
    missing, which is our fault."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    is_ours = (error.name or "").split(".")[0] == "heddle"
    help = "this is a fault of Heddle; HEDDLE_TRACEBACK=1 shows where" if is_ours else None
    code = D0501 if is_ours else S0703
    report(Diagnostic(code, f"cannot be imported: {' '.join(str(cause).split())}", help=help).render())
    return ExitCode.INTERNAL if is_ours else ExitCode.BAD_INPUT


def _drop_output() -> None:
    """What is still buffered must not raise again when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report(text: str, notes: Sequence[str] = ()) -> None:
    """Write a message to stderr, with the traceback where the user wants it."""
    sys.stderr.write(printable_lines("\n".join((text, *notes))) + "\n")
    if traceback_wanted():
        traceback.print_exc()
