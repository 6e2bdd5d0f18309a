"""The name under which Heddle is installed. Imports and the command are `heddle`; on the package index that
is somebody else's package, so that no message may ask to install it."""

from __future__ import annotations

DISTRIBUTION = "heddle-compiler"


def pip_install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
