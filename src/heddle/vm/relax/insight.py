"""The part of a machine that lets itself be watched: another loop runs its bytecode for the time being.

The machine's own loop knows nothing of this and tests nothing. `running_with` puts a routine in its place on
one machine object, for one thread; other threads go on with the machine's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any

from heddle.support.diagnostics import UsageError
from heddle.vm.codes import V0501, V0502
from heddle.vm.objects import VMClosure
from heddle.vm.relax.isa import FuncKind
from heddle.vm.relax.link import LinkedFunction

Runner = Callable[[LinkedFunction, Sequence[Any]], Any]


class Insight(ABC):
    """What profilers, recorders and debuggers use of a machine."""

    if TYPE_CHECKING:
        executable: Any
        allocators: Sequence[Any]

    @abstractmethod
    def _run(self, function: LinkedFunction, args: Sequence[Any]) -> Any:
        """Run a function of the program."""

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
        if "_run" in self.__dict__:
            raise UsageError(V0501, "the machine is being watched already: one watcher at a time")
        own, thread = self._run, get_ident()

        def route(function: LinkedFunction, args: Sequence[Any]) -> Any:
            return run(function, args) if get_ident() == thread else own(function, args)

        self._run = route  # type: ignore[method-assign]
        try:
            yield
        finally:
            del self._run

    def check_watchable(self, name: str) -> None:
        """Raises: UnknownFunctionError V0301; UsageError V0502 for a function that is no bytecode."""
        self._closure(name)
        rows = [row for row in self.executable.program.functions if row.name == name]
        if rows and rows[0].kind is not FuncKind.VM:
            raise UsageError(
                V0502, f"function {name!r} is machine code", help="compile it with exec_mode='bytecode'"
            )
