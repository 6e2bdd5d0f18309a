"""Debugging sessions and profiles of models: the functions behind `heddle debug` and `heddle run
--profile`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import IO, Any

from heddle.driver.codes import D0301, D0401
from heddle.driver.inputs import Array, make_arguments
from heddle.driver.machines import machine_for
from heddle.driver.run import Compiled, Run, check_machine, signature_of
from heddle.runtime.profiling import Report
from heddle.support.diagnostics import MissingDependencyError, UsageError
from heddle.support.distribution import pip_install
from heddle.support.files import write_bytes
from heddle.support.frozen import frozen
from heddle.vm.insight.console import DebugConsole
from heddle.vm.insight.debugger import Debugger
from heddle.vm.insight.recorder import RecordOptions

UNFUSED = ("FuseOps",)
"""Passes to leave out for kernels that are one node of the model each."""


@frozen
class DebugOptions:
    """The call to debug, as in `RunOptions`. `budget_bytes` bounds the copies of values."""

    function: str = "main"
    given: Mapping[str, Array] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    budget_bytes: int = 1 << 30


def open_debugger(compiled: Compiled, options: DebugOptions) -> Debugger:
    """Return a debugger at the beginning of a call with given or random arguments."""
    signature = signature_of(compiled.executable, options.function)
    arguments = make_arguments(signature, options.given, options.dims, options.seed)
    machine = machine_for(compiled.executable)
    record = RecordOptions(budget_bytes=options.budget_bytes)
    return Debugger.of_call(machine, options.function, *arguments.arrays.values(), options=record)


def debug_session(
    debugger: Debugger, breaks: Iterable[str], commands: Iterable[str] | None, stdout: IO[str] | None = None
) -> int:
    """Run debugger commands from `commands`, else from the terminal. Return the number of commands that
    failed."""
    console = DebugConsole(debugger, stdout=stdout or sys.stdout)
    for text in breaks:
        debugger.add_breakpoint(text)
    if commands is None:
        console.cmdloop()
        return 0
    console.show_place()
    console.run_script(commands)
    return console.failures


def view_session(opened: Callable[[], Debugger], breaks: Iterable[str]) -> int:
    """The debugger on the whole terminal, until its user leaves; `opened` makes it. Gives 0.

    Raises: MissingDependencyError D0401 without Textual; UsageError D0301 where output is no terminal; what
    `opened` raises.
    """
    try:
        from heddle.driver.debug_view import DebugView  # Textual is an extra, for this page only
    except ImportError as error:
        raise MissingDependencyError(
            D0401, "the debugger's page needs the package 'textual'", help=pip_install("view")
        ) from error
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            D0301, "the debugger's page needs a terminal", help="without --view, -c takes commands"
        )
    view = DebugView(opened, breaks)
    view.run()
    if view.failure is not None:
        raise view.failure
    return 0


def profile_run(compiled: Compiled, run: Run, function: str) -> Report:
    """A profile of one more call with a run's arguments. Raises: UsageError D0301 for a compiled graph."""
    machine = machine_for(check_machine(run.report.model, compiled).executable)
    arrays = list(run.arguments.arrays.values())
    machine[function](*arrays)  # links kernels, fills pools
    return machine.profile(function, *arrays)


def write_json(path: Path, data: Any) -> None:
    """Write a whole JSON file or nothing. Raises: UsageError S0101."""
    write_bytes(path, json.dumps(data).encode())
