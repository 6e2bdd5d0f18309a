"""The error of a schedule primitive that does not apply: the violated rule, and the program with the place
marked."""

from __future__ import annotations

from heddle.support.diagnostics import Code, Diagnostic, HeddleError
from heddle.tir.nodes import PrimFunc, Stmt


class ScheduleError(HeddleError, RuntimeError):
    """A schedule primitive does not apply. The notes show the function at that time; `stmt` is the loop or
    block that is to blame."""

    def __init__(
        self, code: Code, message: str, func: PrimFunc, stmt: Stmt | None = None, help: str | None = None
    ) -> None:
        notes = [f"in this function:\n{func}"]
        if stmt is not None:
            notes.insert(0, f"about this:\n{stmt}")
        span = stmt.span if stmt is not None else func.span
        HeddleError.__init__(self, (Diagnostic(code, message, span, tuple(notes), help),))
