"""The part of a machine that observers use: another loop runs its bytecode for a while.

The machine's own loop contains no tests for observers. `running_with` replaces it on one machine object, for
one thread. Other threads continue with the machine's own loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from heddle.runtime.profiling import Report
from heddle.runtime.storage import Allocator
from heddle.support.diagnostics import UsageError
from heddle.vm.codes import V0501, V0502
from heddle.vm.executable import Executable
from heddle.vm.insight.profile import MAX_EVENTS, Profiler
from heddle.vm.insight.recorder import Recorder, RecordOptions
from heddle.vm.insight.recording import DEFAULT_BUDGET_BYTES, DEFAULT_MAX_STEPS, Recording
from heddle.vm.objects import VMClosure
from heddle.vm.steps import LinkedFunction

Runner = Callable[[LinkedFunction, Sequence[Any]], Any]


class Watchable(ABC):
    """The methods of a machine for profilers, recorders and debuggers."""

    executable: Executable
    allocators: list[Allocator]
    _is_lent = False

    @abstractmethod
    def _run(self, function: LinkedFunction, args: Sequence[Any]) -> Any:
        """Run a function of the program."""

    @abstractmethod
    def ensure_linked(self) -> None:
        """Decode the bytecode, if that has not been done yet."""

    @abstractmethod
    def watching_changed(self) -> None:
        """Called when an instrument or an observer was added or removed."""

    @abstractmethod
    def _closure(self, name: str) -> VMClosure:
        """A saved closure or a function of the program. Raises: UnknownFunctionError V0301."""

    @abstractmethod
    def __getitem__(self, name: str) -> Any:
        """A callable for a saved closure or a function."""

    @contextmanager
    def running_with(self, run: Runner) -> Iterator[None]:
        """In the `with` block, let `run` execute the bytecode of calls from this thread.

        Raises: UsageError V0501 if the machine is already being observed.
        """
        if self._is_lent:
            raise UsageError(V0501, "the machine is being watched already: one watcher at a time")
        self.ensure_linked()
        own, thread, before = self._run, get_ident(), self.__dict__.get("_run")

        def route(function: LinkedFunction, args: Sequence[Any]) -> Any:
            return run(function, args) if get_ident() == thread else own(function, args)

        self._run, self._is_lent = route, True  # type: ignore[method-assign]
        self.watching_changed()
        try:
            yield
        finally:
            self._is_lent = False
            if before is None:
                del self._run
            else:  # the machine checks lifetimes
                self._run = before  # type: ignore[method-assign]
            self.watching_changed()

    def profile(self, name: str, *args: Any, max_events: int = MAX_EVENTS) -> Report:
        """Call a function and report where the time went: for each callee and combination of argument shapes,
        the number of calls, time, FLOPs, bytes, allocations and the nodes of the user's model. `str(report)`
        is a table; see `Report` for the other forms. The result of the call is dropped.

        `max_events` limits the time line of `chrome_trace`, not the table.

        Raises: UnknownFunctionError V0301; UsageError V0501, V0502; the errors of the call.
        """
        self.check_watchable(name)
        return Profiler(self, max_events).profile(name, args)

    def record(
        self,
        name: str,
        *args: Any,
        keep_values: bool = False,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
        max_steps: int = DEFAULT_MAX_STEPS,
        fuel: int | None = None,
    ) -> Recording:
        """Call a function and record every instruction that it executes, what each one wrote, and copies of
        the values.

        With `keep_values` all copies are stored, else the newest that fit into `budget_bytes`. The newest
        `max_steps` steps are stored. An exception of the program is stored in the recording and not raised.
        `fuel` limits the total cost of the instructions; exceeding it is recorded as Trap V0308.

        Raises: UnknownFunctionError V0301; UsageError V0501, V0502, V0503.
        """
        return Recorder(self, name, args, RecordOptions(keep_values, budget_bytes, max_steps, fuel)).record()

    def check_watchable(self, name: str) -> None:
        """Check that a function can be observed. Raises: UnknownFunctionError V0301; UsageError V0502 for a
        function without bytecode."""
        self._closure(name)
        rows = [row for row in self.executable.program.functions if row.name == name]
        if rows and not rows[0].has_bytecode:
            raise UsageError(
                V0502, f"function {name!r} is machine code", help="compile it with exec_mode='bytecode'"
            )
