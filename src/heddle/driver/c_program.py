"""Write compiled models as C source: `heddle compile model.onnx --target c -o model.c`."""

from __future__ import annotations

from pathlib import Path

from heddle.codegen.c.build import CModule
from heddle.codegen.c.program_file import program_file
from heddle.driver.codes import D0107
from heddle.support.diagnostics import UsageError
from heddle.support.files import write_bytes
from heddle.support.frozen import frozen
from heddle.vm.relax.executable import VMExecutable

SUFFIX = ".c"


@frozen
class CFiles:
    """The written files. `weights` is the file of the constants, if they are not arrays in the C file. Sizes
    are in bytes."""

    source: Path
    weights: Path | None
    source_bytes: int
    constant_bytes: int
    arena_bytes: int


def write_c_program(executable: VMExecutable, path: Path, with_arena: bool = False) -> CFiles:
    """Write a program that was compiled for target c with `exec_mode="compiled"`.

    Raises: UsageError D0107 for a program that was compiled in another way, G0204 if it needs the host, or if
    an arena is requested and sizes are unknown, S0101 if the files cannot be written.
    """
    code = next((module for module in executable.imports if isinstance(module, CModule)), None)
    if code is None or len(executable.imports) != 1:
        raise UsageError(
            D0107,
            f"{path.name} is to be C, and the program holds machine code",
            help="compile it for target c: heddle compile model.onnx --target c -o model.c",
        )
    made = program_file(executable.program, code, with_arena)
    weights = None if made.weights is None else path.with_suffix(".weights")
    text = made.text.encode()
    write_bytes(path, text)
    if weights is not None and made.weights is not None:
        write_bytes(weights, made.weights)
    return CFiles(path, weights, len(text), made.constant_bytes, made.arena_bytes)
