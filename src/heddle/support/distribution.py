"""The name under which Heddle is installed. Imports and the command are `heddle`, but on the package index that
is somebody else's package: no message may ask to install it."""

from __future__ import annotations

DISTRIBUTION = "heddle-compiler"


def pip_install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
