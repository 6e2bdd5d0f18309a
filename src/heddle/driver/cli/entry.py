"""The program `heddle`: opens its streams and starts a command, whose failures `guard` tells."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from heddle.driver.cli.guard import ExitCode, guarded, report
from heddle.driver.cli.interrupt import end_on_interrupt
from heddle.driver.codes import D0401
from heddle.support.background import settle
from heddle.support.codes import S0702
from heddle.support.diagnostics import Diagnostic, HeddleWarning, MissingDependencyError
from heddle.support.distribution import pip_install
from heddle.support.printable import printable_lines
from heddle.support.settings import settings


def main(args: Sequence[str] | None = None) -> int:
    """Run the command that `args` (by default the process's arguments) name and give the exit code."""
    if args is None:
        end_on_interrupt()
    _open_standard_streams()
    if sys.stdout is None:
        report(Diagnostic(S0702, "there is no standard output to write to: it is closed").render())
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
        from heddle.driver.cli.app import (
            run_app,  # what options alone can answer is answered without the commands
        )
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich", "click"):
            raise
        raise MissingDependencyError(
            D0401, f"the command line needs the package {error.name!r}", help=pip_install("cli")
        ) from error
    code = run_app(args)
    settle()  # here, where an interrupt still ends the program as it should
    return code
