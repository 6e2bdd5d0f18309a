"""The part of a machine that lets itself be watched: another loop runs its bytecode for the time being.

The machine's own loop knows nothing of this and tests nothing. `running_with` puts a routine in its place on
one machine object, for one thread; other threads go on with the machine's own.
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
    """What profilers, recorders and debuggers use of a machine."""

    executable: Executable
    allocators: list[Allocator]
    _is_lent = False

    @abstractmethod
    def _run(self, function: LinkedFunction, args: Sequence[Any]) -> Any:
        """Run a function of the program."""

    @abstractmethod
    def ensure_linked(self) -> None:
        """Decode the bytecode, where that was not needed before."""

    @abstractmethod
    def watching_changed(self) -> None:
        """An instrument or a watcher came or went."""

    @abstractmethod
    def _closure(self, name: str) -> VMClosure:
        """A saved closure or a function of the program. Raises: UnknownFunctionError V0301."""

    @abstractmethod
    def __getitem__(self, name: str) -> Any:
        """A callable for a saved closure or a function."""

    @contextmanager
    def running_with(self, run: Runner) -> Iterator[None]:
        """Let `run` run the bytecode of calls from this thread while the block lasts.

        Raises: UsageError V0501 where the machine is being watched already.
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
        """Call a function and tell where the time went: per callee and argument shapes the calls, time,
        FLOPs, bytes, allocations and the user's nodes. `str(report)` is a table; see `Report` for the rest.
        The result of the call is dropped.

        `max_events` bounds the time line that `chrome_trace` shows, not the table.

        Raises: UnknownFunctionError V0301; UsageError V0501, V0502; what the call raises.
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
        """Call a function and keep every instruction that it executes, what each wrote, and copies of the
        values: all with `keep_values`, else the newest that fit `budget_bytes`. Of the steps the newest
        `max_steps` are kept. What the program raises is kept too, not raised; with `fuel` that is Trap V0308
        where the instructions cost more.

        Raises: UnknownFunctionError V0301; UsageError V0501, V0502, V0503.
        """
        return Recorder(self, name, args, RecordOptions(keep_values, budget_bytes, max_steps, fuel)).record()

    def check_watchable(self, name: str) -> None:
        """Raises: UnknownFunctionError V0301; UsageError V0502 for a function that is no bytecode."""
        self._closure(name)
        rows = [row for row in self.executable.program.functions if row.name == name]
        if rows and not rows[0].has_bytecode:
            raise UsageError(
                V0502, f"function {name!r} is machine code", help="compile it with exec_mode='bytecode'"
            )
