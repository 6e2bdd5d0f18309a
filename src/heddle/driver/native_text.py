"""The native library's text, made from its sources in the systems language.

`python -m heddle.driver.native_text` writes the files `generated*.ll` in `runtime/native/`; a test fails when
a committed text differs. Running a model reads that text and loads nothing of the language.
"""

from __future__ import annotations

import re
from pathlib import Path

from heddle.runtime.native import library
from heddle.runtime.native.source import (
    arguments,
    c_api,
    calls,
    chains,
    counting,
    data,
    fork_join,
    forks,
    frames,
    graphs,
    host_values,
    kernel_calls,
    looking,
    loop_costs,
    making,
    memory,
    part_log,
    processors,
    program_calls,
    python,
    python_storages,
    python_tensors,
    python_values,
    rows,
    sequences,
    stacks,
    thread,
)
from heddle.support.files import write_bytes
from heddle.systems.program import Program, read_program
from heddle.systems.translate import translate

FOLDER = Path(library.__file__).parent
CORE = "generated.ll"
PARTS = {
    CORE: (
        thread,
        memory,
        loop_costs,
        processors,
        part_log,
        fork_join,
        counting,
        making,
        chains,
        arguments,
        data,
        rows,
        sequences,
        stacks,
        calls,
        looking,
        frames,
    ),
    "generated_python.ll": (
        forks,
        graphs,
        python,
        python_tensors,
        kernel_calls,
        python_values,
        program_calls,
        host_values,
        python_storages,
    ),
    "generated_c_api.ll": (c_api,),
}
"""Files of text and their sources. Each of the others becomes one text with the core."""
_HEAD = (
    "; Made by `python -m heddle.driver.native_text` from the sources in source/; change those instead.\n\n"
)


def native_program() -> Program:
    """The sources, read and checked."""
    return read_program([module for modules in PARTS.values() for module in modules])


def native_texts() -> dict[str, str]:
    """LLVM IR of the sources, by the names of its files. What one part of a text declares or defines, another
    does not declare again."""
    program = native_program()
    by_hand = "\n".join(path.read_text() for path in sorted(FOLDER.glob("*.ll")) if path.name not in PARTS)
    known = _symbols(by_hand)
    texts = {CORE: _HEAD + translate(program, known, PARTS[CORE])}
    known |= _symbols(texts[CORE])
    for name, modules in PARTS.items():
        if name != CORE:
            texts[name] = _HEAD + translate(program, known, modules)
    return texts


def _symbols(text: str) -> set[str]:
    return set(re.findall(r"^(?:declare|define)[^@]*@([\w.]+)\(", text, re.MULTILINE))


if __name__ == "__main__":
    for name, text in native_texts().items():
        write_bytes(FOLDER / name, text.encode())
