"""Folders that vanish with the object that stands for them."""

from __future__ import annotations

import tempfile
from pathlib import Path


class TempDirectory:
    """A new folder; `relpath(name)` is a path in it. It is removed when the object dies or `remove` is
    called.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="heddle-", ignore_cleanup_errors=True)
        self.temp_dir = self._folder.name

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.temp_dir)

    def relpath(self, name: str) -> str:
        """The path of a name inside the folder."""
        return str(self.path / name)

    def listdir(self) -> list[str]:
        """The names in the folder, sorted."""
        return sorted(entry.name for entry in self.path.iterdir())

    def remove(self) -> None:
        """Remove the folder and all in it."""
        self._folder.cleanup()


def tempdir() -> TempDirectory:
    """A new folder that goes with the object, at the latest with the process."""
    return TempDirectory()
