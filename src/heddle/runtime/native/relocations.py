"""ELF relocations: how a linker patches code, for two machines.

    S  the symbol's address      A  the addend      P  the place that is written
    G  the symbol's entry in the table of addresses (GOT), which begins at GOT

**Source** System V ABI, AMD64 Supplement, table 4.9; ELF for the Arm 64-bit Architecture, "Relocation types".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from heddle.support.frozen import frozen

Value = Callable[[int, int, int, int, int], int]
"""The value to write, from S, A, P, the address of G and the address of GOT."""
Write = Callable[[bytearray, int, int], None]
"""Writes a value at an offset. Raises: OverflowError if it does not fit."""


@frozen
class Relocation:
    """A relocation kind. `uses_entry`: it needs the symbol's GOT entry. `is_call`: the target may be replaced
    by a nearby jump to it."""

    value: Value
    write: Write
    uses_entry: bool = False
    is_call: bool = False


@frozen
class Machine:
    """A machine: its name under Linux, its relocation kinds by number, and the code of a jump to the address
    that is stored after it."""

    name: str
    kinds: Mapping[int, Relocation]
    jump: bytes


def _word(form: str) -> Write:
    words = struct.Struct(form)

    def write(memory: bytearray, at: int, number: int) -> None:
        try:
            words.pack_into(memory, at, number)
        except struct.error as error:
            raise OverflowError(str(error)) from error

    return write


def _word64(memory: bytearray, at: int, number: int) -> None:
    struct.pack_into("<Q", memory, at, number & (1 << 64) - 1)


def _absolute(s: int, a: int, p: int, g: int, got: int) -> int:
    return s + a


def _relative(s: int, a: int, p: int, g: int, got: int) -> int:
    return s + a - p


def _to_entry(s: int, a: int, p: int, g: int, got: int) -> int:
    return g + a - p


_SIGNED32, _UNSIGNED32 = _word("<i"), _word("<I")
_ENTRY32 = Relocation(_to_entry, _SIGNED32, uses_entry=True)
_X86_64 = {
    1: Relocation(_absolute, _word64),  # 64
    2: Relocation(_relative, _SIGNED32),  # PC32
    4: Relocation(_relative, _SIGNED32, is_call=True),  # PLT32
    9: _ENTRY32,  # GOTPCREL
    10: Relocation(_absolute, _UNSIGNED32),  # 32
    11: Relocation(_absolute, _SIGNED32),  # 32S
    24: Relocation(_relative, _word64),  # PC64
    25: Relocation(lambda s, a, p, g, got: s + a - got, _word64),  # GOTOFF64
    26: Relocation(lambda s, a, p, g, got: got + a - p, _SIGNED32),  # GOTPC32
    27: Relocation(lambda s, a, p, g, got: g - got + a, _word64, uses_entry=True),  # GOT64
    28: Relocation(_to_entry, _word64, uses_entry=True),  # GOTPCREL64
    29: Relocation(lambda s, a, p, g, got: got + a - p, _word64),  # GOTPC64
    41: _ENTRY32,  # GOTPCRELX
    42: _ENTRY32,  # REX_GOTPCRELX
}


def _page(address: int) -> int:
    return address & ~0xFFF


def _bits(first: int, count: int, shift: int, is_checked: bool = True, is_signed: bool = True) -> Write:
    """Return a function that writes bits `shift` and up of a value into the `count` bits of an instruction
    from bit `first` on."""

    def write(memory: bytearray, at: int, number: int) -> None:
        field = number >> shift
        least = -(1 << count - 1) if is_signed else 0
        if is_checked and not least <= field < least + (1 << count):
            raise OverflowError(f"{number} in {count + shift} bits")
        if is_checked and number & (1 << shift) - 1:
            raise OverflowError(f"{number} is no multiple of {1 << shift}")
        (word,) = struct.unpack_from("<I", memory, at)
        mask = (1 << count) - 1
        struct.pack_into("<I", memory, at, word & ~(mask << first) | (field & mask) << first)

    return write


def _page_bits(is_checked: bool = True, shift: int = 12) -> Write:
    """Return a function that writes the split immediate of ADRP and ADR: two low bits at bit 29, 19 high bits
    at bit 5."""

    def write(memory: bytearray, at: int, number: int) -> None:
        field = number >> shift
        if is_checked and not -(1 << 20) <= field < 1 << 20:
            raise OverflowError(f"{number} in {21 + shift} bits")
        (word,) = struct.unpack_from("<I", memory, at)
        word &= ~(3 << 29 | 0x7FFFF << 5)
        struct.pack_into("<I", memory, at, word | (field & 3) << 29 | (field >> 2 & 0x7FFFF) << 5)

    return write


def _low(s: int, a: int, p: int, g: int, got: int) -> int:
    return s + a & 0xFFF


def _to_page(s: int, a: int, p: int, g: int, got: int) -> int:
    return _page(s + a) - _page(p)


_CALL = Relocation(_relative, _bits(0, 26, 2), is_call=True)
_AARCH64 = {
    257: Relocation(_absolute, _word64),  # ABS64
    258: Relocation(_absolute, _UNSIGNED32),  # ABS32
    260: Relocation(_relative, _word64),  # PREL64
    261: Relocation(_relative, _SIGNED32),  # PREL32
    **{  # MOVW_UABS_G0 to G3, each with and without a check, G3 without
        263 + number: Relocation(_absolute, _bits(5, 16, 16 * (number // 2), is_checked=False))
        for number in range(7)
    },
    274: Relocation(_relative, _page_bits(shift=0)),  # ADR_PREL_LO21
    275: Relocation(_to_page, _page_bits()),  # ADR_PREL_PG_HI21
    276: Relocation(_to_page, _page_bits(is_checked=False)),  # ADR_PREL_PG_HI21_NC
    277: Relocation(_low, _bits(10, 12, 0, is_signed=False)),  # ADD_ABS_LO12_NC
    278: Relocation(_low, _bits(10, 12, 0, is_signed=False)),  # LDST8_ABS_LO12_NC
    279: Relocation(_relative, _bits(5, 14, 2)),  # TSTBR14
    280: Relocation(_relative, _bits(5, 19, 2)),  # CONDBR19
    282: _CALL,  # JUMP26
    283: _CALL,  # CALL26
    284: Relocation(_low, _bits(10, 12, 1, is_signed=False)),  # LDST16_ABS_LO12_NC
    285: Relocation(_low, _bits(10, 12, 2, is_signed=False)),  # LDST32_ABS_LO12_NC
    286: Relocation(_low, _bits(10, 12, 3, is_signed=False)),  # LDST64_ABS_LO12_NC
    299: Relocation(_low, _bits(10, 12, 4, is_signed=False)),  # LDST128_ABS_LO12_NC
    311: Relocation(lambda s, a, p, g, got: _page(g + a) - _page(p), _page_bits(), uses_entry=True),
    312: Relocation(  # LD64_GOT_LO12_NC; 311 is ADR_GOT_PAGE
        lambda s, a, p, g, got: g + a & 0xFFF, _bits(10, 12, 3, is_signed=False), uses_entry=True
    ),
}

MACHINES = {
    62: Machine("x86_64", _X86_64, bytes.fromhex("ff2500000000")),  # jmp *[rip]
    183: Machine("aarch64", _AARCH64, bytes.fromhex("5000005800021fd6")),  # ldr x16, #8; br x16
}
"""Machines by their ELF number."""
