"""Hostile object files of the Relay machine: `python -m tests.fuzz.object_files --count 200000 --seed 1`.

What `Executable.save` gives, with fields, instructions or bytes changed, sections exchanged or cut, read by
`Executable.load_exec` beside the kernels it was made with, and called where it loads. Of instructions that
are changed, most have the right hash. As in `tests.fuzz.artefacts`, whose watch over time and memory this is,
each ends in a result or a HeddleError.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

from heddle.runtime.wire import Writer
from heddle.support.diagnostics import HeddleError
from heddle.vm.relay import Executable, object_file
from heddle.vm.relay.object_file import instruction_hash
from tests.fuzz.artefacts import Fuzzer, main
from tests.fuzz.layout import WRITERS, Field, Layout, Recorder, write_fields
from tests.fuzz.models import RELAY_MODELS
from tests.fuzz.mutate import mutate_bytes, mutate_fields, mutate_value
from tests.unit.vm.test_relay_files import Refused
from tests.unit.vm.test_relay_files import executable as everything


class _Sections(Recorder):
    """Notes the fields of each section apart, and which numbers are those of an instruction."""

    def __init__(self, data: Any, name: str, fields: dict[str, list[Field]]) -> None:
        self._all = fields
        super().__init__(data, name, 0, fields.setdefault(name, []))

    def enter(self, name: str) -> None:
        super().enter(name)
        self._fields = self._all.setdefault(name, [])

    def numbers(self) -> list[int]:
        found = super().numbers()
        if self._name == "code" and len(found) > 1 and found == _with_hash(found[1:]):
            self._fields[-1] = "instruction", found[1:]
        return found


def _with_hash(fields: list[int]) -> list[int]:
    """The numbers of an instruction, the hash before them."""
    if not fields:
        return []
    value = instruction_hash(fields)
    return [value - (1 << 64) if value >> 63 else value, *fields]


def _write_instruction(writer: Writer, fields: list[int]) -> None:
    writer.numbers(_with_hash(fields))


WRITERS["instruction"] = _write_instruction


def take_apart(code: bytes) -> Layout:
    """The sections of a good file, each as the fields that are read of it."""
    fields: dict[str, list[Field]] = {}
    with mock.patch.object(object_file, "Reader", lambda data, name: _Sections(data, name, fields)):
        object_file.read_object(code)
    made = Layout({name: write_fields(items) for name, items in fields.items()}, fields)
    assert b"".join(made.sections.values()) == code
    return made


def _other_values(rng: random.Random, layout: Layout, donors: list[Field]) -> bytes:
    """Fields of the same kinds at the same places: another value, one from elsewhere, or two exchanged."""
    made = {name: list(fields) for name, fields in layout.fields.items()}
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        fields = made[rng.choice([*made, *["code"] * 6])]
        at = rng.randrange(len(fields))
        choice = rng.randrange(6)
        if choice == 0:
            fields[at] = rng.choice([item for item in donors if item[0] == fields[at][0]])
        elif choice == 1:
            other = rng.choice([place for place, item in enumerate(fields) if item[0] == fields[at][0]])
            fields[at], fields[other] = fields[other], fields[at]
        else:
            fields[at] = mutate_value(rng, fields[at], [value for kind, value in fields if kind == "text"])
    return b"".join(map(write_fields, made.values()))


def _other_fields(rng: random.Random, layout: Layout, donors: list[Field]) -> bytes:
    sections = dict(layout.sections)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice([*layout.fields, "code", "code", "code"])
        sections[name] = write_fields(mutate_fields(rng, layout.fields[name], donors))
    return b"".join(sections.values())


def _old_hashes(rng: random.Random, layout: Layout, donors: list[Field]) -> bytes:
    """An instruction that is not what its hash says."""
    fields = list(layout.fields["code"])
    at = rng.choice([index for index, (kind, _) in enumerate(fields) if kind == "instruction"])
    fields[at] = "numbers", _with_hash(fields[at][1])
    fields[at][1][rng.randrange(len(fields[at][1]))] ^= 1 << rng.randrange(63)
    return b"".join({**layout.sections, "code": write_fields(fields)}.values())


def _other_sections(rng: random.Random, layout: Layout, donors: list[Field]) -> bytes:
    """Sections left out, doubled, exchanged, cut, or of another program's."""
    parts = list(layout.sections.values())
    for _ in range(rng.choice((1, 1, 2))):
        at, choice = rng.randrange(len(parts)) if parts else 0, rng.randrange(5)
        if choice == 0 or not parts:
            parts.insert(at, write_fields(rng.choices(donors, k=rng.randrange(1, 6))))
        elif choice == 1:
            del parts[at]
        elif choice == 2:
            parts.insert(at, parts[at])
        elif choice == 3:
            parts[at] = parts[at][: rng.randrange(len(parts[at]) + 1)]
        else:
            rng.shuffle(parts)
    return b"".join(parts)


def _other_bytes(rng: random.Random, layout: Layout, donors: list[Field]) -> bytes:
    return mutate_bytes(rng, b"".join(layout.sections.values()))


_WAYS: tuple[tuple[Callable[[random.Random, Layout, list[Field]], bytes], int], ...] = (
    (_other_values, 55),
    (_other_fields, 15),
    (_old_hashes, 5),
    (_other_sections, 10),
    (_other_bytes, 15),
)


class ObjectFiles(Fuzzer):
    """Mutates object files, loads them beside their kernels, and runs them."""

    allowed = (HeddleError, Refused)

    def layouts(self) -> list[Layout]:
        saved = [made.save() for made in (everything(), *(make() for make in RELAY_MODELS.values()))]
        made = [take_apart(bytes(code)) for code, _ in saved]
        self._libs = {id(layout): lib for layout, (_, lib) in zip(made, saved, strict=True)}
        return made

    def whole(self, layout: Layout) -> bytes:
        return b"".join(layout.sections.values())

    def mutated(self, rng: random.Random, layout: Layout) -> bytes:
        ways, weights = zip(*(_WAYS[:1] if self._run else _WAYS), strict=True)
        return rng.choices(ways, weights)[0](rng, layout, self._donors)

    def read(self, data: bytes, layout: Layout) -> Any:
        return Executable.load_exec(data, self._libs[id(layout)])


if __name__ == "__main__":
    sys.exit(main(ObjectFiles, __doc__))
