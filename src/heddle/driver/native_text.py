"""The native library's text, made from its sources in the systems language.

`python -m heddle.driver.native_text` writes `runtime/native/generated.ll`; a test fails when the committed
text differs. Running a model reads that text and loads nothing of the language.
"""

from __future__ import annotations

import re
from pathlib import Path

from heddle.runtime.native import abi
from heddle.runtime.native.source import fork_join, frames, memory, thread
from heddle.support.files import write_bytes
from heddle.systems.program import Program, read_program
from heddle.systems.translate import translate
from heddle.systems.types import Struct

FOLDER = Path(abi.__file__).parent
PATH = FOLDER / "generated.ll"
SOURCES = (thread, memory, fork_join, frames)
_HEAD = (
    "; Made by `python -m heddle.driver.native_text` from the sources in source/; change those instead.\n\n"
)


def native_program() -> Program:
    """The sources, read and checked."""
    return read_program(SOURCES)


def native_text() -> str:
    """LLVM IR of the sources, as a part of the library's text: what hand-written parts declare or define is
    not declared again."""
    by_hand = "\n".join(path.read_text() for path in sorted(FOLDER.glob("*.ll")) if path != PATH)
    known = set(re.findall(r"^(?:declare|define)[^@]*@([\w.]+)\(", by_hand, re.MULTILINE))
    structs = [
        value.layout
        for value in vars(abi).values()
        if isinstance(value, type) and issubclass(value, Struct) and value is not Struct
    ]
    return _HEAD + translate(native_program(), known, structs)


if __name__ == "__main__":
    write_bytes(PATH, native_text().encode())
