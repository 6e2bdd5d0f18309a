"""The version and the digest of the native interface, on which object code in files and the native library
must agree.

Stored object code contains the offsets, kinds and codes of `abi.py`, and calls the symbols below. Each file
holds a digest of all of them. `DIGESTS` maps each interface version to its digest; a file with an unknown
digest is rejected. Files of the interface versions 1 to 6 hold the version number instead of a digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from hashlib import blake2b

from heddle.runtime.native import abi
from heddle.runtime.native.ir_types import exported_signatures
from heddle.systems.types import Struct

KERNEL_SYMBOLS = (
    "heddle_check_args",
    "heddle_parallel_for",
    "heddle_request_tiles",
    "heddle_set_error",
    "heddle_workspace_alloc",
    "heddle_workspace_free",
)
"""Symbols that kernels may call."""
PROGRAM_SYMBOLS = (
    "heddle_again",
    "heddle_alloc_storage",
    "heddle_alloc_tensor",
    "heddle_call",
    "heddle_call_by_words",
    "heddle_condition",
    "heddle_copy",
    "heddle_drop_storage",
    "heddle_drop_tensor",
    "heddle_enter",
    "heddle_room",
    "heddle_fail",
    "heddle_frame_tensor",
    "heddle_frame_view",
    "heddle_get_field",
    "heddle_grow",
    "heddle_has_room",
    "heddle_has_tag",
    "heddle_invoke",
    "heddle_kind_of",
    "heddle_leave",
    "heddle_make_closure",
    "heddle_make_data",
    "heddle_make_ref",
    "heddle_make_shape",
    "heddle_make_tuple",
    "heddle_put",
    "heddle_read_ref",
    "heddle_release",
    "heddle_release_all",
    "heddle_reshape",
    "heddle_retain",
    "heddle_sequence_concat",
    "heddle_sequence_erase",
    "heddle_sequence_insert",
    "heddle_sequence_split",
    "heddle_sizes",
    "heddle_stack_chain",
    "heddle_tuple_getitem",
    "heddle_tuple_reset",
    "heddle_turn",
    "heddle_write_ref",
)
"""Further symbols that compiled VM functions may call: see `source/`."""

OLDEST_ABI = 1
"""The oldest interface whose object code this library can still run."""
DIGESTS: dict[int, int] = {
    7: 0xD32E80C7923F918F,
}
"""The digest of each interface version since version 7. Rows never change. A change of layouts or symbols
needs a new row, and files of that version in `tests/data`; until the row exists, files that this library
writes cannot be read."""
NATIVE_ABI = max(DIGESTS)
"""The interface version of this library. Version 2 added tensors in frames (flag 4), devices in storages,
`heddle_retain` and `heddle_release`; version 3 `heddle_frame_tensor` and its like, `heddle_drop_tensor`,
`heddle_drop_storage` and `heddle_call_by_words`; version 4 the kinds 13 and 14, with `heddle_make_data`,
`heddle_make_ref` and their like, and stack segments (`heddle_grow`); version 5 `heddle_check_args`; version 6
`heddle_turn`; version 7 the digest in files. Code that was compiled for an older version still runs."""
_FIRST_WITH_DIGEST = min(DIGESTS)


def interface_text() -> str:
    """Return the text that is hashed, one fact per line: structures with field offsets and types, the numbers
    of kinds, families, flags and codes, the error words, and the symbols with their types."""
    return "".join(f"{line}\n" for line in (*_layouts(), *_numbers(), *_symbols()))


def _layouts() -> Iterator[str]:
    for name, found in sorted(vars(abi).items()):
        if isinstance(found, type) and issubclass(found, Struct) and found is not Struct:
            layout = found.layout
            yield f"struct {name}: {layout.size_bytes} bytes"
            for field in layout.fields.values():
                yield f"  {field.offset_bytes} {field.name}: {field.type!r}"


def _numbers() -> Iterator[str]:
    for name, found in sorted(vars(abi).items()):
        if isinstance(found, type) and issubclass(found, IntEnum) and found is not IntEnum:
            yield from (f"{name}.{member.name} = {member.value}" for member in found)
        elif name.isupper() and isinstance(found, int):
            yield f"{name} = {found}"


def _symbols() -> Iterator[str]:
    types = exported_signatures()
    for symbol in sorted(KERNEL_SYMBOLS + PROGRAM_SYMBOLS):
        result, params = types.get(symbol, ("", ()))
        yield f"{symbol}: {result} ({', '.join(params)})"


@cache
def native_digest() -> int:
    """Return 64 bits of the digest of `interface_text`, which a file stores as the interface of its object
    code. It is larger than any version number."""
    return int.from_bytes(blake2b(interface_text().encode(), digest_size=8).digest(), "little") | 1 << 63


def interface_of(word: int) -> int | None:
    """Return the interface version for the word in a file, which is a digest or a version number from 1 to 6.
    None if unknown."""
    if OLDEST_ABI <= word < _FIRST_WITH_DIGEST:
        return word
    return next((number for number, digest in DIGESTS.items() if digest == word), None)
