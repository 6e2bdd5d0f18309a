"""Mutations of protobuf messages: of ONNX models, but nothing here knows what a field means.

A mutation picks a message anywhere in the tree, and one of its fields; a value becomes another of its kind,
or one from elsewhere in this model or in a donor. Small messages are as likely to be picked as large ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.fuzz.mutate import INTERESTING

_KIND = FieldDescriptor
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, 3.4e38, math.inf, -math.inf, math.nan)
_TEXTS = (
    "",
    "x",
    "constant",
    "\0",
    "é",
    "a" * 5000,
    "../up",
    "/etc/passwd",
    "-1",
    "?",
    "ai.onnx",
    "(",
    "[^a]*",
)
MOST_ELEMENTS = 4000
"""Longer data is taken to be weights: one element is as good as another."""


def messages_of(root: Message) -> Iterator[Message]:
    """The message and all below it."""
    yield root
    for field, value in root.ListFields():
        if field.type == _KIND.TYPE_MESSAGE:
            for item in value if field.is_repeated else (value,):
                yield from messages_of(item)


class Pool:
    """What a mutation may take from: messages by type, and texts by the field they stand in."""

    def __init__(self, roots: Sequence[Message]) -> None:
        self.messages: dict[str, list[Message]] = {}
        self.texts: dict[str, list[str]] = {}
        for root in roots:
            for message in messages_of(root):
                if message.ByteSize() < 20000:
                    self.messages.setdefault(message.DESCRIPTOR.full_name, []).append(message)
                for field, value in message.ListFields():
                    if field.type == _KIND.TYPE_STRING:
                        self.texts.setdefault(field.full_name, []).extend(
                            value if field.is_repeated else [value]
                        )


def _integer(rng: random.Random, old: int, bits: int) -> int:
    choice = rng.randrange(6)
    if choice <= 1:
        value = old + rng.choice((-2, -1, 1, 2))
    elif choice == 2:
        value = rng.randrange(-4, 30)
    elif choice == 3:
        value = -old
    else:
        value = rng.choice(INTERESTING) * rng.choice((1, -1))
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _text(rng: random.Random, old: str, field: Any, own: Pool, donors: Pool) -> str:
    choice = rng.randrange(8)
    if choice == 0:
        return rng.choice(_TEXTS)
    if choice == 1:
        return old[: len(old) // 2] + rng.choice(_TEXTS)
    if choice <= 4:  # any name of this model: inputs in place of outputs and of attributes
        return rng.choice(rng.choice(list(own.texts.values())))
    return rng.choice((own if choice <= 5 else donors).texts.get(field.full_name, [old]))


def _scalar(rng: random.Random, field: Any, old: Any, own: Pool, donors: Pool) -> Any:
    if field.type == _KIND.TYPE_STRING:
        return _text(rng, old, field, own, donors)
    if field.type == _KIND.TYPE_BYTES:
        return _bytes(rng, old)
    if field.type == _KIND.TYPE_ENUM:
        return rng.choice([value.number for value in field.enum_type.values])
    if field.type in (_KIND.TYPE_FLOAT, _KIND.TYPE_DOUBLE):
        return rng.choice((*_FLOATS, old * 2, -old))
    if field.type == _KIND.TYPE_UINT64:
        return _integer(rng, old, 64) & (1 << 64) - 1
    return _integer(rng, old, 32 if field.type == _KIND.TYPE_INT32 else 64)


def _bytes(rng: random.Random, old: bytes) -> bytes:
    made, choice = bytearray(old), rng.randrange(5)
    at = rng.randrange(len(made) + 1)
    if choice <= 1 and made:
        made[at % len(made)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    elif choice == 2:
        made[at : at + 8] = rng.choice(INTERESTING).to_bytes(8, "little")
    elif choice == 3:
        del made[at : at + rng.choice((1, 4, 8))]
    else:
        made[at:at] = rng.randbytes(rng.choice((1, 4, 8)))
    return bytes(made)


def _change_list(rng: random.Random, message: Message, field: Any, own: Pool, donors: Pool) -> None:
    items = getattr(message, field.name)
    at, choice = rng.randrange(len(items)) if items else 0, rng.randrange(8)
    if not items or choice == 0:
        _insert(rng, items, at, field, own, donors)
    elif choice == 1:
        del items[at]
    elif choice == 2:
        other = rng.randrange(len(items))
        order = list(items)
        order[at], order[other] = order[other], order[at]
        kept = [_copy(item) for item in order]
        del items[:]
        items.extend(kept)
    elif choice == 3:
        items.extend([_copy(item) for item in items[at : at + rng.randrange(1, 4)]])
    elif field.type == _KIND.TYPE_MESSAGE:
        other_message = rng.choice((own, donors)).messages.get(field.message_type.full_name)
        if other_message:
            items[at].CopyFrom(rng.choice(other_message))
    else:
        items[at] = _scalar(rng, field, items[at], own, donors)


def _copy(item: Any) -> Any:
    if not isinstance(item, Message):
        return item
    made = type(item)()
    made.CopyFrom(item)
    return made


def _insert(rng: random.Random, items: Any, at: int, field: Any, own: Pool, donors: Pool) -> None:
    if field.type == _KIND.TYPE_MESSAGE:
        known = rng.choice((own, donors)).messages.get(field.message_type.full_name)
        items.extend([_copy(rng.choice(known))] if known else [])
        return
    old = items[at] if items else field.default_value or ("" if field.type == _KIND.TYPE_STRING else 0)
    old = b"" if field.type == _KIND.TYPE_BYTES and not items else old
    items.insert(at, _scalar(rng, field, old, own, donors))


def _change_one(rng: random.Random, message: Message, field: Any, own: Pool, donors: Pool) -> None:
    if message.HasField(field.name) and rng.randrange(6) == 0:
        message.ClearField(field.name)
    elif field.type == _KIND.TYPE_MESSAGE:
        known = rng.choice((own, donors)).messages.get(field.message_type.full_name)
        if known:
            getattr(message, field.name).CopyFrom(_copy(rng.choice(known)))
    else:
        setattr(message, field.name, _scalar(rng, field, getattr(message, field.name), own, donors))


def mutate_message(rng: random.Random, root: Message, donors: Pool) -> None:
    """One to four fields of the tree become others. Fields that are set are picked most of the time."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        own = Pool([root])
        groups: dict[str, list[Message]] = {}
        for message in messages_of(root):
            groups.setdefault(message.DESCRIPTOR.full_name, []).append(message)
        message = rng.choice(groups[rng.choice(list(groups))])
        fields = [field for field, _ in message.ListFields()]
        if not fields or rng.randrange(8) == 0:
            fields = list(message.DESCRIPTOR.fields)
        field = rng.choice(fields)
        if not field.is_repeated:
            _change_one(rng, message, field, own, donors)
        elif len(getattr(message, field.name)) <= MOST_ELEMENTS:
            _change_list(rng, message, field, own, donors)
