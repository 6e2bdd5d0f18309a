"""What a session refuses."""

from __future__ import annotations

from heddle.support.diagnostics import HeddleError, Trap, UsageError


class SessionTimeoutError(HeddleError, TimeoutError):
    """A request whose time was over before its result was there."""


class SessionClosedError(UsageError):
    """A request to a session that is closed."""


class SessionMemoryError(Trap, MemoryError):
    """A request that needs more memory than the session may take."""
