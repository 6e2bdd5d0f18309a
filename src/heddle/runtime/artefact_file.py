"""Writing the one-file format (`heddle.runtime.artefact`) to a file."""

from __future__ import annotations

import os
from collections.abc import Mapping

from heddle.runtime.artefact import artefact_pieces
from heddle.support.files import atomic_writer


def write_artefact(path: str | os.PathLike[str], sections: Mapping[str, bytes | memoryview]) -> None:
    """Write a whole artefact or nothing. Raises: UsageError S0101 where the path cannot be written."""
    with atomic_writer(path) as file:
        for piece in artefact_pieces(sections):
            file.write(piece)
