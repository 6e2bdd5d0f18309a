"""Constants that are stored beside script text, which refers to them as `metadata[k]`.

    metadata = [R.raw_const("float32", (64, 3), "zcxMPQ..."), ...]      the bytes, little-endian, in base64
    metadata = R.weights("model.weights")                               or a file in the text's folder

A file has the format of artefacts (`heddle.runtime.artefact`): its sections are checked by their digests, and
tensors are used where they lie in the mapped file.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from heddle.graph.op_builder import typed_constant
from heddle.ir.expr import Constant
from heddle.relax.codes import R0403
from heddle.runtime.artefact import read_artefact
from heddle.runtime.artefact_file import write_artefact
from heddle.runtime.dtype import DataType
from heddle.runtime.tensor import Tensor, tensor
from heddle.support.diagnostics import FormatError, UsageError
from heddle.vm.constants import read_constants, write_constants

NAME, FILE_WORD = "metadata", "weights"


def embedded_metadata(constants: Sequence[Tensor]) -> str:
    """Return the statement that defines `metadata` at the start of a script; "" without constants."""
    if not constants:
        return ""
    rows = [
        f"    R.raw_const({_quoted(data.dtype)}, {tuple(data.shape)}, {_quoted(_text(data))}),\n"
        for data in constants
    ]
    return f"{NAME} = [\n{''.join(rows)}]\n\n"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _text(data: Tensor) -> str:
    return base64.b64encode(data.raw_bytes()).decode()


def raw_const(dtype: str, shape: Sequence[int], data: str) -> Constant:
    """Make a constant from base64 data. Raises: UsageError R0403 if its length does not match."""
    element = DataType(dtype)
    sizes = tuple(int(size) for size in shape)
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError(R0403, f"a constant of {dtype}{list(sizes)} is no base64: {error}") from error
    expected = prod(sizes) * element.numpy().itemsize
    if min(sizes, default=0) < 0 or len(content) != expected:
        raise UsageError(
            R0403, f"a constant of {dtype}{list(sizes)} has {len(content)} bytes, expected {expected}"
        )
    array = np.frombuffer(content, element.numpy()).reshape(sizes)
    return typed_constant(tensor(array, dtype=str(element)))  # a copy, aligned for kernels


def write_weights(path: str | os.PathLike[str], constants: Sequence[Tensor]) -> None:
    """Write the file for `metadata = R.weights(...)`. Raises: UsageError S0101."""
    write_artefact(path, write_constants(constants))


def weights_statement(path: Path) -> str:
    """Return the `metadata` statement for a script that is in the same folder as the file `path`."""
    return f"{NAME} = R.{FILE_WORD}({path.name!r})\n\n"


def read_weights(folder: Path | None, name: Any) -> list[Constant]:
    """Return the constants of a file in the script's folder.

    Raises: UsageError R0403 if the name contains a path or the script has no folder, S0102; FormatError
    F01.. for a damaged file.
    """
    if not isinstance(name, str) or not name or name in (".", "..") or Path(name).name != name:
        raise UsageError(R0403, f"weights lie in the text's own folder, got {name!r}")
    if folder is None:
        raise UsageError(
            R0403, f"{name} lies beside the text's file, and the text has none", help="give `folder=`"
        )
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise UsageError(R0403, f"weights lie in the text's own folder, and {name!r} leads out of it")
    found = read_constants(read_artefact(folder / name))
    if not all(isinstance(value, Tensor) for value in found):
        raise FormatError(R0403, f"{name} holds other constants than tensors")
    return [typed_constant(value) for value in found]  # type: ignore[arg-type]


class NoMetadata(Sequence[Any]):
    """Stands for `metadata` in a script that does not define it."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: Any) -> Any:
        raise UsageError(
            R0403,
            f"metadata[{index}] is a constant that the text came without",
            help="print it with script(show_meta=True), or give from_source its `constants`",
        )
