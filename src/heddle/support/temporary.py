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
        return Path(self.temp_dir)

    def relpath(self, name: str) -> str:
        return str(self.path / name)

    def listdir(self) -> list[str]:
        return sorted(entry.name for entry in self.path.iterdir())

    def remove(self) -> None:
        self._folder.cleanup()


def tempdir() -> TempDirectory:
    return TempDirectory()
