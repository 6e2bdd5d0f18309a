"""Tensor arrays: lists of tensors of one element type whose ranks and sizes are known only when a program
runs.

The text is the same for each element type: `tensor_array_read_float32`, `tensor_array_read_int8`, ... It
stands in `std/arrays`, with `$words` for what differs.
"""

from __future__ import annotations

from pathlib import Path
from string import Template

FOLDER = Path(__file__).parent / "std" / "arrays"
MAX_RANK = 6
INDICES = "Tensor[(?), int32]"
DTYPES = ("float32", "float16", "float64", "int32", "uint8", "int8", "int16", "uint16", "int64")


def array_text(file: str, /, **words: str) -> str:
    """The text of a file of `std/arrays`; `d` is what names end in."""
    return Template((FOLDER / f"{file}.rly").read_text(encoding="utf-8")).substitute(words)


def program(*texts: str) -> str:
    """Definitions as a Relay program."""
    return "\n".join(('#[version = "0.0.5"]', *texts))


def tensor_type_name(dtype: str) -> str:
    """The data type: no tensor, or one of rank 0 to 6."""
    return f"tensor_{dtype}_t"


def tensor_array_text(dtype: str) -> str:
    """The definitions for one element type; they use those of the prelude."""
    item = tensor_type_name(dtype)
    array = f"List[{item}]"
    unstacks = []
    for rank in range(1, MAX_RANK + 1):
        words = {"of": f"tensor{rank}_", "make": f"tensor{rank - 1}_{dtype}", "d": dtype, "array": array}
        whole = f"Tensor[({', '.join('?' * rank)}), {dtype}]"
        unstacks.append(array_text("unstack", **words, whole=whole, rows=whole))
    return program(
        array_text("any_rank", d=dtype),
        array_text("places", d=dtype, item=item, array=array),
        *unstacks,
        array_text("scatter", d=dtype, array=array, indices=INDICES),
        array_text("split", d=dtype, array=array, whole=dtype, value=item, lengths=INDICES),
        array_text("gather", d=dtype, array=array, stacked=item, indices=INDICES),
    )
