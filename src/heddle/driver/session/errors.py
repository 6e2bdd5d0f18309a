"""Errors of sessions."""

from __future__ import annotations

from heddle.support.diagnostics import HeddleError, Trap, UsageError


class SessionTimeoutError(HeddleError, TimeoutError):
    """The result of a request was not ready within the timeout."""


class SessionClosedError(UsageError):
    """The session is closed."""


class SessionMemoryError(Trap, MemoryError):
    """A request needs more memory than the session may use."""
