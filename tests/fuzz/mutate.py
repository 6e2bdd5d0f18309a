"""Mutations of artefacts, from a bit to a function: each is made from a random generator alone."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from copy import deepcopy

from tests.fuzz.layout import Entry, Field, Head, Layout, entries_of, put_together, write_fields

INTERESTING = (
    0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 63, 64, 255, 256, 1023, 65535, 1 << 20, (1 << 20) + 1, 1 << 31, 1 << 32,
    1 << 40, (1 << 53) + 1, 1 << 54, (1 << 54) + 1, (1 << 55) - 1, 1 << 55, 1 << 56, 2 << 56, 3 << 56,
    4 << 56, (1 << 62) - 1, 1 << 62, (1 << 63) - 1,
)  # fmt: skip
_TEXTS = (
    "", "main", "f", "0", "1", "-1", "007", "1e3", "\0", "é", "\ud800", "a" * 300, "global", "float32",
    "float32x65536", "int8x99999999999999999999", "float8_" + "1" * 3000 + "!", "handle", "void", "bool",
    "llvm", "relax.VMExecutable", "vm.builtin.copy", "vm.builtin.alloc_storage", "9" * 18, "9" * 19,
    "9" * 5000, "__vmtir__main",
)  # fmt: skip


def _word(rng: random.Random, old: int) -> int:
    choice = rng.randrange(8)
    if choice == 0:
        value = rng.choice(INTERESTING) * rng.choice((1, -1))
    elif choice == 1:
        value = old ^ 1 << rng.randrange(64)
    elif choice == 2:
        value = rng.getrandbits(64)
    elif choice == 3:
        value = -old
    elif choice == 4:
        value = rng.randrange(4) << 56 | rng.randrange(12)  # another operand
    elif choice == 5:
        value = rng.randrange(-4, 16)
    else:
        value = old + rng.choice((-2, -1, 1, 2))
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _words(rng: random.Random, old: Sequence[int]) -> list[int]:
    made = list(old)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        choice = rng.randrange(8)
        at = rng.randrange(len(made) + 1)
        if choice <= 3 and made:
            made[at % len(made)] = _word(rng, made[at % len(made)])
        elif choice == 4:
            made.insert(at, _word(rng, rng.choice(made or [0])))
        elif choice == 5 and made:
            del made[at % len(made)]
        elif choice == 6 and made:
            end = min(len(made), at + rng.randrange(1, 9))
            made[rng.randrange(len(made)) :][:0] = made[at:end]
            made += made[at:end]
        elif made:
            other = rng.randrange(len(made))
            made[at % len(made)], made[other] = made[other], made[at % len(made)]
    return made


def _text(rng: random.Random, old: str, texts: Sequence[str]) -> str:
    choice = rng.randrange(6)
    if choice == 0:
        return rng.choice(_TEXTS)
    if choice <= 2 and texts:
        return rng.choice(texts)
    at = rng.randrange(len(old) + 1)
    if choice == 3:
        return (
            old[:at]
            + chr(rng.choice((0, 48, 57, 97, 0x7F, 0x80, 0x7FF, 0xD800, 0xFFFF, 0x10FFFF)))
            + old[at:]
        )
    return old[:at] + old[at + rng.randrange(1, 3) :]


def mutate_value(rng: random.Random, item: Field, texts: Sequence[str]) -> Field:
    """A field of the same kind with another value."""
    kind, value = item
    if kind == "u8":
        return kind, rng.choice((0, 1, 2, 3, 4, 5, 6, 127, 255, rng.randrange(256)))
    if kind == "u64":
        return kind, (_word(rng, value)) & (1 << 64) - 1
    if kind == "f64":
        return kind, struct.unpack("<d", rng.randbytes(8))[0]
    if kind in ("i32", "i64"):
        bits = int(kind[1:])
        word = _word(rng, value) & (1 << bits) - 1
        return kind, word - (1 << bits) if word >> bits - 1 else word
    if kind == "raw":
        return kind, mutate_bytes(rng, value)
    return (kind, _text(rng, value, texts)) if kind == "text" else (kind, _words(rng, value))


def mutate_fields(rng: random.Random, fields: list[Field], donors: list[Field]) -> list[Field]:
    """Fields changed, left out, doubled, exchanged, or taken from elsewhere."""
    made, texts = list(fields), [value for kind, value in fields if kind == "text"]
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        at = rng.randrange(len(made)) if made else 0
        choice = rng.randrange(12)
        if not made or choice == 0:
            made.insert(at, rng.choice(donors))
        elif choice == 1:
            del made[at]
        elif choice == 2:
            made[at] = rng.choice([item for item in donors if item[0] == made[at][0]] or donors)
        elif choice == 3:
            end = min(len(made), at + rng.randrange(1, 5))
            made[at:at] = made[at:end]
        elif choice == 4:
            other = rng.randrange(len(made))
            made[at], made[other] = made[other], made[at]
        else:
            made[at] = mutate_value(rng, made[at], texts)
    return made


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bits turned, bytes set, pieces cut, doubled or put in."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(made) + 1)
        choice = rng.randrange(6)
        if choice <= 1 and made:
            made[at % len(made)] ^= 1 << rng.randrange(8)
        elif choice == 2:
            made[at : at + 8] = struct.pack("<Q", _word(rng, 0) & (1 << 64) - 1)
        elif choice == 3:
            del made[at : at + rng.choice((1, 8, 64))]
        elif choice == 4:
            made[at:at] = rng.randbytes(rng.choice((1, 8)))
        else:
            made = made[:at]
    return bytes(made)


def mutate_program(rng: random.Random, layout: Layout, donors: list[Field]) -> dict[str, bytes]:
    """Sections of which one or two have other contents, with right lengths. Object code stays."""
    sections = dict(layout.sections)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(
            [*layout.fields, *[n for n in layout.fields if n.endswith(("code", "functions"))] * 3]
        )
        sections[name] = write_fields(mutate_fields(rng, layout.fields[name], donors))
    return sections


def _contents(rng: random.Random, layout: Layout, donors: list[Field]) -> bytes:
    return put_together(entries_of(mutate_program(rng, layout, donors)))


def _section_bytes(rng: random.Random, layout: Layout, donors: list[Field]) -> bytes:
    sections = dict(layout.sections)
    name = rng.choice(list(sections))
    sections[name] = mutate_bytes(rng, sections[name])
    return put_together(entries_of(sections))


def _table(rng: random.Random, layout: Layout, donors: list[Field]) -> bytes:
    """Sections renamed, left out, doubled, moved, or with a wrong place, length or digest."""
    entries = entries_of(layout.sections)
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(entries)) if entries else 0
        choice = rng.randrange(8)
        if not entries:
            entries.append(Entry(b"modules", rng.randbytes(8)))
        elif choice == 0:
            del entries[at]
        elif choice == 1:
            entries.append(deepcopy(entries[at]))
        elif choice == 2:
            entries[at].name = rng.choice(
                (b"", b"0/code", b"1/kernels", b"\xff", b"0/" * 40, b"variants", b"part.0", entries[-1].name)
            )
        elif choice == 3:
            entries[at].offset = _word(rng, 64)
        elif choice == 4:
            entries[at].length = _word(rng, len(entries[at].data))
        elif choice == 5:
            entries[at].digest = rng.randbytes(32)
        elif choice == 6:
            entries[at].data = rng.choice(entries).data
        else:
            rng.shuffle(entries)
    return put_together(entries)


def _head(rng: random.Random, layout: Layout, donors: list[Field]) -> bytes:
    head = Head()
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(("magic", "version", "count", "table_bytes", "file_bytes", "digest"))
        if name in ("magic", "digest"):
            setattr(head, name, rng.randbytes(8 if name == "magic" else 32))
        else:
            setattr(head, name, rng.choice((*INTERESTING, len(layout.sections) + rng.randrange(-2, 3))))
    return put_together(entries_of(layout.sections), head)


def _anywhere(rng: random.Random, layout: Layout, donors: list[Field]) -> bytes:
    return mutate_bytes(rng, put_together(entries_of(layout.sections)))


_WAYS: tuple[tuple[Callable[[random.Random, Layout, list[Field]], bytes], int], ...] = (
    (_contents, 70),
    (_section_bytes, 12),
    (_table, 8),
    (_head, 4),
    (_anywhere, 6),
)


def mutate(rng: random.Random, layout: Layout, donors: list[Field]) -> bytes:
    """One mutated file."""
    ways, weights = zip(*_WAYS, strict=True)
    return rng.choices(ways, weights)[0](rng, layout, donors)
