"""The program `heddle`: starts a command and turns every failure into a message and an exit code.

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
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from heddle.driver.cli.interrupt import INTERRUPTED, end_on_interrupt, interrupted
from heddle.driver.codes import D0401, D0501
from heddle.support.codes import S0101, S0701, S0702, S0703
from heddle.support.diagnostics import (
    Diagnostic,
    HeddleError,
    HeddleWarning,
    InternalError,
    MissingDependencyError,
)
from heddle.support.distribution import pip_install
from heddle.support.limits import limits, parse_limits
from heddle.support.printable import printable_lines
from heddle.support.settings import settings, traceback_wanted


class ExitCode(IntEnum):
    """What the program's exit status says."""

    DONE = 0
    BAD_INPUT = 1
    USAGE = 2
    OUTPUTS_DIFFER = 3
    INTERNAL = 70
    INTERRUPTED = INTERRUPTED


def main(args: Sequence[str] | None = None) -> int:
    """Run the command that `args` (by default the process's arguments) name and give the exit code."""
    if args is None:
        end_on_interrupt()
    _open_standard_streams()
    if sys.stdout is None:
        _report(Diagnostic(S0702, "there is no standard output to write to: it is closed").render())
        return ExitCode.BAD_INPUT
    warnings.formatwarning = _format_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal's encoding lacks is shown as escapes
            stream.reconfigure(errors="backslashreplace")
    return guarded(lambda: _command(list(sys.argv[1:] if args is None else args)))


def _open_standard_streams() -> None:
    """Standard streams that the process was started without lead nowhere; else the next file that is opened
    would be taken for one. Messages go through `_Unfailing`."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        encoding = None if sys.stderr is None else sys.stderr.encoding
        unfailing = io.BufferedWriter(_Unfailing(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(unfailing, encoding, line_buffering=True)


class _Unfailing(io.FileIO):
    """Where messages go. One that cannot be told, on a full disk or to a reader that has gone, changes
    nothing about the exit code."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Our warnings are whole messages; the line of our own code that gives one is of no use."""
    if issubclass(category, HeddleWarning):
        return printable_lines(str(message)) + "\n"
    return _FORMAT_WARNING(message, category, filename, lineno, line)


_FORMAT_WARNING = warnings.formatwarning


def _command(args: list[str]) -> int:
    settings()  # one that is wrong is told before anything else is done
    try:
        from heddle.driver.cli.app import run_app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich", "click"):
            raise
        raise MissingDependencyError(
            D0401, f"the command line needs the package {error.name!r}", help=pip_install("cli")
        ) from error
    return run_app(args)


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
        _report(Diagnostic(S0701, f"there is no memory: {error or 'the system gave none'}").render())
        return ExitCode.BAD_INPUT
    except HeddleError as error:
        _report(error.render(), getattr(error, "__notes__", ()))
        return ExitCode.INTERNAL if isinstance(error, InternalError) else ExitCode.BAD_INPUT
    except ImportError as error:
        return _report_import(error)
    except OSError as error:
        _report(Diagnostic(S0101, f"{error.filename or 'output'}: {error.strerror or error}").render())
        _drop_output()
        return ExitCode.BAD_INPUT
    except Exception as error:  # the last place where a bug can become a report that names it
        if _is_of_memory(error):
            _report(Diagnostic(S0701, f"there is no memory: {error}").render())
            return ExitCode.BAD_INPUT
        help = "this is a fault of Heddle; HEDDLE_TRACEBACK=1 shows where"
        _report(Diagnostic(D0501, f"{type(error).__name__}: {error}", help=help).render())
        return ExitCode.INTERNAL


def _is_of_memory(error: Exception) -> bool:
    """Whether an exception stands for a MemoryError: Python has no lock or thread to give, or `ctypes` met
    one while it took arguments."""
    text = str(error)
    if isinstance(error, RuntimeError):
        return text in ("can't allocate lock", "can't start new thread")
    return isinstance(error, ctypes.ArgumentError) and ": MemoryError" in text


def _report_import(error: ImportError) -> int:
    """A library that another package needs and that the system does not load; or a module of ours that is
    missing, which is our fault."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    is_ours = (error.name or "").split(".")[0] == "heddle"
    help = "this is a fault of Heddle; HEDDLE_TRACEBACK=1 shows where" if is_ours else None
    code = D0501 if is_ours else S0703
    _report(Diagnostic(code, f"cannot be imported: {' '.join(str(cause).split())}", help=help).render())
    return ExitCode.INTERNAL if is_ours else ExitCode.BAD_INPUT


def _drop_output() -> None:
    """What is still buffered must not raise again when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(text: str, notes: Sequence[str] = ()) -> None:
    sys.stderr.write(printable_lines("\n".join((text, *notes))) + "\n")
    if traceback_wanted():
        traceback.print_exc()
