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
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from enum import IntEnum

from heddle.driver.codes import D0401, D0501
from heddle.support.codes import S0101
from heddle.support.diagnostics import (
    Diagnostic,
    HeddleError,
    HeddleWarning,
    InternalError,
    MissingDependencyError,
)
from heddle.support.limits import limits, parse_limits
from heddle.support.printable import printable_lines
from heddle.support.settings import settings


class ExitCode(IntEnum):
    """What the program's exit status says."""

    DONE = 0
    BAD_INPUT = 1
    USAGE = 2
    OUTPUTS_DIFFER = 3
    INTERNAL = 70
    INTERRUPTED = 130


def main(args: Sequence[str] | None = None) -> int:
    """Run the command that `args` (by default the process's arguments) name and give the exit code."""
    warnings.formatwarning = _format_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal's encoding lacks is shown as escapes
            stream.reconfigure(errors="backslashreplace")
    return guarded(lambda: _command(list(sys.argv[1:] if args is None else args)))


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Our warnings are whole messages; the line of our own code that gives one is of no use."""
    if issubclass(category, HeddleWarning):
        return printable_lines(str(message)) + "\n"
    return _FORMAT_WARNING(message, category, filename, lineno, line)


_FORMAT_WARNING = warnings.formatwarning


def _command(args: list[str]) -> int:
    try:
        from heddle.driver.cli.app import run_app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich", "click"):
            raise
        raise MissingDependencyError(
            D0401, f"the command line needs the package {error.name!r}", help="pip install 'heddle[cli]'"
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
        sys.stderr.write("interrupted\n")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; what is still buffered must not raise again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.BAD_INPUT
    except HeddleError as error:
        _report(error.render(), getattr(error, "__notes__", ()))
        return ExitCode.INTERNAL if isinstance(error, InternalError) else ExitCode.BAD_INPUT
    except OSError as error:
        _report(Diagnostic(S0101, f"{error.filename or 'output'}: {error.strerror or error}").render())
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.BAD_INPUT
    except Exception as error:  # the last place where a bug can become a report that names it
        help = "this is a fault of Heddle; HEDDLE_TRACEBACK=1 shows where"
        _report(Diagnostic(D0501, f"{type(error).__name__}: {error}", help=help).render())
        return ExitCode.INTERNAL


def _report(text: str, notes: Sequence[str] = ()) -> None:
    sys.stderr.write(printable_lines("\n".join((text, *notes))) + "\n")
    if settings().show_traceback:
        traceback.print_exc()
