"""The native interface: what object code in files and the library agree on, its number and its digest.

Old object code has the offsets, kinds and codes of `abi.py` in it, and calls the symbols below. A digest of
all of them stands in each file. `DIGESTS` says which number a digest has; a digest that is not there is
refused. Files of the interfaces 1 to 6 have the number itself where the others have their digest.
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
"""What kernels may call."""
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
"""What compiled functions of the machine call besides: see `source/`."""

OLDEST_ABI = 1
"""The first interface whose object code this library still serves."""
DIGESTS: dict[int, int] = {
    7: 0xD32E80C7923F918F,
}
"""The digest of each interface since digests stand in files. A row stays as it is for ever: other layouts or
symbols need a new one, and files of their own in `tests/data`. Until then no file is read that this library
wrote."""
NATIVE_ABI = max(DIGESTS)
"""The interface of this library. Version 2 added tensors in frames (flag 4), devices in storages,
`heddle_retain` and `heddle_release`; version 3 `heddle_frame_tensor` and its like, `heddle_drop_tensor`,
`heddle_drop_storage` and `heddle_call_by_words`; version 4 the kinds 13 and 14, with `heddle_make_data`,
`heddle_make_ref` and their like, and segments of stack (`heddle_grow`); version 5 `heddle_check_args`;
version 6 `heddle_turn`; version 7 the digest in files. What was compiled for an older version runs
unchanged."""
_FIRST_WITH_DIGEST = min(DIGESTS)


def interface_text() -> str:
    """What the digest is of, a fact a line: structures with their fields' offsets and types, the numbers of
    kinds, families, flags and codes, the words of errors, and the symbols with their types."""
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
    """64 bits of the digest of `interface_text`: what a file says of the interface that its object code was
    compiled for. It is larger than any number of an interface."""
    return int.from_bytes(blake2b(interface_text().encode(), digest_size=8).digest(), "little") | 1 << 63


def interface_of(word: int) -> int | None:
    """The number of the interface that a file names: by its digest, or the number of one from before there
    were digests. None where it is unknown."""
    if OLDEST_ABI <= word < _FIRST_WITH_DIGEST:
        return word
    return next((number for number, digest in DIGESTS.items() if digest == word), None)
